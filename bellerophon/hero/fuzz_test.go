package hero

import (
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1alpha0"
	"github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1beta7"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Any client may write the annotation that keeps fields of v1. What is taken from it must survive the way to an old version and back.
func FuzzAnyAnnotationIsConvertedOrRefused(f *testing.F) {
	f.Add(`{"paused":true,"storage":{"size":"1Gi"},"config":{"a":"b"}}`, "pegasus", "image", int32(3))
	f.Add(`{"replicas":-1,"resources":{"limits":{"cpu":"1e99"}},"restore":{}}`, "", "", int32(0))
	f.Add(`{"tolerations":[null]}`, "\xff", " ", int32(-7))
	f.Add(`null`, "", "", int32(1))
	f.Fuzz(func(t *testing.T, kept, horse, image string, replicas int32) {
		metadata := func() metav1.ObjectMeta {
			return metav1.ObjectMeta{Annotations: map[string]string{keptAnnotation: kept}}
		}
		hub := &v1.Bellerophon{ObjectMeta: metadata()}
		if fromAlpha(t.Context(), &v1alpha0.Bellerophon{Spec: v1alpha0.BellerophonSpec{WingedHorseName: horse, Image: image, Replicas: &replicas}}, hub) != nil {
			if fromBeta(t.Context(), &v1beta7.Bellerophon{}, &v1.Bellerophon{ObjectMeta: metadata()}) == nil {
				t.Errorf("one old version refuses %q, and the other takes it", kept)
			}
			return
		}
		if hub.Spec.Storage.Size.IsZero() { // The definition refuses it, and JSON leaves it out.
			hub.Spec.Storage.Size = resource.Quantity{}
		}
		old, again := &v1alpha0.Bellerophon{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}, &v1.Bellerophon{}
		if err := toAlpha(t.Context(), hub, old); err != nil {
			return // A quantity or a map that JSON cannot hold.
		}
		again.Annotations = old.Annotations
		if err := fromAlpha(t.Context(), old, again); err != nil || !same(t, hub.Spec, again.Spec) {
			t.Errorf("of %q, %+v became %+v (%v)", kept, hub.Spec, again.Spec, err)
		}
	})
}
