package simple_test

import (
	"context"
	"hash/fnv"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
)

// stables is a controller of a second kind: for each Secret of the test, it keeps a ConfigMap whose food
// is hay.
type stables struct{ client *controller.Client }

const stablesApp = "bellerophon-stables"

func sumOfFood(of *corev1.ConfigMap) owned.Sum {
	sum := fnv.New64()
	_, _ = sum.Write([]byte(of.Data["food"]))
	return owned.Sum(sum.Sum64())
}

func addStables(manager *controller.Manager, kinds *owned.Kinds) error {
	s := &stables{manager.Client()}
	return manager.Add("stables", s.reconcile,
		controller.For(&corev1.Secret{}, controller.LabelSelector("stable=yes")),
		kinds.ConfigMaps(), kinds.Services(), kinds.StatefulSets(), kinds.Pods(stablesApp), controller.IgnoreEchoes())
}

func (s *stables) reconcile(ctx context.Context, request operators.Request) (time.Duration, error) {
	stable, err := controller.Get[*corev1.Secret](ctx, s.client, request.NamespacedName)
	if err != nil {
		return 0, controller.IgnoreNotFound(err)
	}
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: stable.Namespace, Name: stable.Name,
			Labels:          map[string]string{owned.LabelApp: stablesApp, owned.LabelInstance: stable.Name, owned.LabelManagedBy: owned.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(stable, corev1.SchemeGroupVersion.WithKind("Secret"))},
		},
		Data: map[string]string{"food": "hay"},
	}
	seen, err := controller.Get[*owned.ConfigMap](ctx, s.client, request.NamespacedName)
	switch {
	case apierrors.IsNotFound(err):
		_, err = controller.Create(ctx, s.client, want)
	case err == nil && seen.Sum() != sumOfFood(want):
		_, err = controller.Patch(ctx, s.client, want, controller.StrategicMerge())
	}
	return 0, err
}

func TestASecondControllerOwnsTheSameKindsInOneManager(t *testing.T) {
	w := newWorld(t)
	w.operator = w.startOperatorWith(w.config, func(*controller.Options) {}, beside{
		fields: owned.Fields{App: stablesApp, ConfigMap: sumOfFood}, addTo: addStables,
	})
	must(w.core.CoreV1().Secrets(w.namespace).Create(w.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "meadow", Labels: map[string]string{"stable": "yes"}}}, metav1.CreateOptions{}))(t)
	w.create(w.hero("pegasus", 1))
	food := func(want string) func(*unstructured.Unstructured) bool {
		return func(object *unstructured.Unstructured) bool {
			if object == nil {
				return false
			}
			got, _, _ := unstructured.NestedString(object.Object, "data", "food")
			return got == want
		}
	}
	w.await(configMaps, "meadow", "created by the second controller", food("hay"))
	w.awaitReady("pegasus", 1)

	// Each controller repairs its own child, and leaves the other's alone.
	patch := func(name, data string) {
		t.Helper()
		must(w.core.CoreV1().ConfigMaps(w.namespace).Patch(w.ctx, name, apitypes.MergePatchType, []byte(data), metav1.PatchOptions{}))(t)
	}
	patch("meadow", `{"data":{"food":"stones"}}`)
	patch("pegasus", `{"data":{"winged_horse_name":"donkey","food":"stones"}}`)
	w.await(configMaps, "meadow", "repaired by the second controller", food("hay"))
	w.await(configMaps, "pegasus", "repaired by the first controller", func(object *unstructured.Unstructured) bool {
		horse, _, _ := unstructured.NestedString(object.Object, "data", "winged_horse_name")
		return horse == "pegasus" && food("stones")(object)
	})
}

// Both controllers use one name for a child: the second to come must leave the child alone.
func TestAChildOfASecondControllerIsNotAdopted(t *testing.T) {
	w := newWorld(t)
	stray := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "pegasus", Labels: map[string]string{
		owned.LabelApp: stablesApp, owned.LabelInstance: "pegasus", owned.LabelManagedBy: owned.ManagedBy,
	}}}
	made := must(w.core.CoreV1().ConfigMaps(w.namespace).Create(w.ctx, stray, metav1.CreateOptions{}))(t)
	w.operator = w.startOperator()
	w.create(w.hero("pegasus", 1))
	w.awaitDegraded("pegasus", v1.ReasonNameConflict)
	if now := must(w.core.CoreV1().ConfigMaps(w.namespace).Get(w.ctx, "pegasus", metav1.GetOptions{}))(t); now.ResourceVersion != made.ResourceVersion {
		t.Errorf("the operator changed the child of another controller: %v", now)
	}
}
