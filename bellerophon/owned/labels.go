package owned

import (
	"hash/maphash"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The labels of every child and every pod.
const (
	LabelApp       = "app.kubernetes.io/name"     // [Fields].App of the controller
	LabelInstance  = "app.kubernetes.io/instance" // the name of the owner
	LabelManagedBy = "app.kubernetes.io/managed-by"

	ManagedBy = "bellerophon"
)

// Selector selects the children and pods of all kinds.
const Selector = LabelManagedBy + "=" + ManagedBy

// IsLabelled reports whether an object has the labels of a child of the same name. A child has the
// name of its owner.
func IsLabelled(object metav1.Object, app string) bool {
	return app != "" && appOf(object) == app
}

// appOf returns the app of an object that has the labels of a child, or "".
func appOf(object metav1.Object) string {
	has := object.GetLabels()
	if has[LabelManagedBy] != ManagedBy || has[LabelInstance] != object.GetName() {
		return ""
	}
	return has[LabelApp]
}

var seed = maphash.MakeSeed()

// hashOf returns a hash of an app, which takes half of the memory of a string.
func hashOf(app string) uint64 { return maphash.String(seed, app) }
