package readiness

import (
	"cmp"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NodeOf returns an object as a node of a tree, without its readiness and its children.
func NodeOf(kind schema.GroupKind, object streams.Object) introspection.Node {
	created := object.GetCreationTimestamp()
	return introspection.Node{
		Kind: kind.String(), Namespace: object.GetNamespace(), Name: object.GetName(), Created: timeOf(&created),
		ResourceVersion: object.GetResourceVersion(), Deleting: object.GetDeletionTimestamp() != nil,
	}
}

// Judge sets the readiness of a node to the one of a whole object.
func Judge(node *introspection.Node, object streams.Object) {
	result := Of(object)
	node.Ready, node.Message = Name(result.Ready), result.Message
	if condition := result.Condition; condition != nil {
		node.Reason, node.Message, node.Since = condition.Reason, cmp.Or(condition.Message, result.Message), timeOf(&condition.LastTransitionTime)
	}
}

// Name returns the name of a readiness that is known.
func Name(ready bool) introspection.Readiness {
	if ready {
		return introspection.Ready
	}
	return introspection.NotReady
}

// timeOf returns a time of an object, or nil if it has none.
func timeOf(at *metav1.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return new(at.UTC())
}
