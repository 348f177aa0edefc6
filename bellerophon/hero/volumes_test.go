package hero

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/controller"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// letVolumesGrow lets volumes of the only class grow whose claims the simulated node binds.
func letVolumesGrow(t *testing.T, core kubernetes.Interface) {
	t.Helper()
	if _, err := core.StorageV1().StorageClasses().Patch(t.Context(), "kwok-volume", types.MergePatchType, []byte(`{"allowVolumeExpansion":true}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// isNotGrowing waits until the hero may go without the operator.
func (w *world) isNotGrowing() {
	w.t.Helper()
	w.eventually("the finalizer is gone", func() error {
		if hero := w.hero(heroName); isGrowing(hero) {
			return fmt.Errorf("it has %v", hero.Finalizers)
		}
		return nil
	})
}

func TestVolumesGrowWithoutARestart(t *testing.T) {
	w := newWorld(t)
	letVolumesGrow(w.t, w.core)
	w.create("bellerophon", map[string]any{"replicas": int64(3), "storage": map[string]any{"size": "1Gi"}})
	before := w.ready()
	w.kubelet.mark()
	w.change(`{"spec":{"storage":{"size":"2Gi"}}}`)
	w.ready()
	list, err := w.core.CoreV1().PersistentVolumeClaims(w.namespace).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list.Items {
		if size := one.Spec.Resources.Requests.Storage().String(); size != "2Gi" {
			t.Errorf("%s has %s", one.Name, size)
		}
	}
	set, err := w.core.AppsV1().StatefulSets(w.namespace).Get(w.ctx, "bellerophon", metav1.GetOptions{})
	if err != nil || set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String() != "2Gi" {
		t.Errorf("the StatefulSet is %+v, %v", set, err)
	}
	if fewest := w.kubelet.fewest(); fewest < 3 {
		t.Errorf("only %d members ran at a time", fewest)
	}
	w.isNotGrowing()
	if after := w.hero("bellerophon"); after.Status.Members[0].ID != before.Status.Members[0].ID {
		t.Error("a member has another volume")
	}
	// The API server refuses to shrink it, and says what to do.
	_, err = w.heroes.Patch(w.ctx, "bellerophon", types.MergePatchType, []byte(`{"spec":{"storage":{"size":"1Gi"}}}`), metav1.PatchOptions{})
	if err == nil || !strings.Contains(err.Error(), "storage.size cannot shrink") {
		t.Errorf("a smaller volume: %v", err)
	}
}

// The class may not allow it. That must not hold up anything else.
func TestAVolumeThatCannotGrowHoldsUpNothingElse(t *testing.T) {
	w := newWorld(t)
	w.create(heroName, map[string]any{"replicas": int64(3), "storage": map[string]any{"size": "1Gi"}})
	w.ready()
	w.put("horse", "pegasus")
	allow := func(allowed bool) {
		t.Helper()
		patch := fmt.Sprintf(`{"allowVolumeExpansion":%v}`, allowed)
		if _, err := w.core.StorageV1().StorageClasses().Patch(context.WithoutCancel(w.ctx), "kwok-volume", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	allow(false)
	t.Cleanup(func() { allow(true) })
	w.change(`{"spec":{"replicas":1,"storage":{"size":"2Gi"},"config":{"log-level":"debug"}}}`)
	w.eventually("the hero has the rest of its spec, and the reason", func() error {
		status := w.hero(heroName).Status
		found := meta.FindStatusCondition(status.Conditions, v1.ConditionDegraded)
		if found == nil || found.Reason != "VolumeNotGrown" || status.ReadyReplicas != 1 || status.Replicas != 1 || status.CurrentRevision != status.TargetRevision {
			return fmt.Errorf("%+v", status)
		}
		return nil
	})
	w.wantHorse()
}

// noSet refuses to make a StatefulSet while it is closed.
type noSet struct {
	next   http.RoundTripper
	closed *atomic.Bool
}

func (n noSet) RoundTrip(request *http.Request) (*http.Response, error) {
	if n.closed.Load() && request.Method == http.MethodPatch && strings.Contains(request.URL.Path, "/statefulsets/") {
		return nil, fmt.Errorf("%s is not sent", request.URL.Path)
	}
	return n.next.RoundTrip(request)
}

// growsWithoutASet leaves a hero at the moment at which the old StatefulSet is gone and the next is not made. The result
// ends that moment.
func (w *world) growsWithoutASet(spec map[string]any, change string) (goOn func()) {
	w.t.Helper()
	letVolumesGrow(w.t, w.core)
	w.stop()
	closed := &atomic.Bool{}
	config := rest.CopyConfig(w.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: operatorUser}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return noSet{next, closed} })
	_, w.registry, w.stop = w.operator(config, controller.Options{})
	w.create(heroName, spec)
	w.ready()
	closed.Store(true)
	// The set is not applied for the new size: it is deleted before.
	w.change(change)
	w.eventually("there is no StatefulSet", func() error {
		if _, err := w.core.AppsV1().StatefulSets(w.namespace).Get(w.ctx, heroName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	return func() { closed.Store(false) }
}

func TestAHeroThatIsDeletedWhileItsVolumesGrowLeavesNothing(t *testing.T) {
	for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(propagation), func(t *testing.T) {
			w := newWorld(t)
			goOn := w.growsWithoutASet(map[string]any{
				"replicas": int64(3), "storage": map[string]any{"size": "1Gi", "retention": "Delete"},
			}, `{"spec":{"storage":{"size":"2Gi"}}}`)
			w.eventually("the status has the members that run", func() error {
				if status := w.hero(heroName).Status; len(status.Members) != 3 || status.Leader == "" {
					return fmt.Errorf("it is %+v", status)
				}
				return nil
			})
			w.deleteHero(propagation)
			if hero := w.hero(heroName); !isGrowing(hero) {
				t.Errorf("it has the finalizers %v", hero.Finalizers)
			}
			goOn()
			w.eventually("all is gone", func() error {
				pods, err := w.core.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
				if err != nil {
					return err
				}
				_, noHero := w.heroes.Get(w.ctx, heroName, metav1.GetOptions{})
				_, noSet := w.core.AppsV1().StatefulSets(w.namespace).Get(w.ctx, heroName, metav1.GetOptions{})
				if !apierrors.IsNotFound(noHero) || !apierrors.IsNotFound(noSet) || len(pods.Items) > 0 {
					return fmt.Errorf("%d pods, %w, %w", len(pods.Items), noHero, noSet)
				}
				return nil
			})
			if propagation == metav1.DeletePropagationBackground {
				w.eventually("no volume is left", func() error {
					if claims := w.claims(); len(claims) > 0 {
						return fmt.Errorf("%v", claims)
					}
					return nil
				})
			}
		})
	}
}

// The next StatefulSet must not have fewer pods than the last one: their members would be gone without leaving.
func TestAHeroShrinksWhileItsVolumesGrow(t *testing.T) {
	w := newWorld(t)
	goOn := w.growsWithoutASet(map[string]any{
		"replicas": int64(3), "storage": map[string]any{"size": "1Gi"},
	}, `{"spec":{"replicas":1,"storage":{"size":"2Gi"}}}`)
	w.put("horse", "pegasus")
	goOn()
	w.ready()
	w.wantHorse()
	w.isNotGrowing()
	w.eventually("one volume is left", func() error {
		if claims := w.claims(); !slices.Equal(claims, []string{"data-bellerophon-0"}) {
			return fmt.Errorf("%v", claims)
		}
		return nil
	})
}

// A pod may go while there is no StatefulSet. The status tells that there was one.
func TestAPodThatIsLostWhileVolumesGrowComesBackBeforeItsMemberLeaves(t *testing.T) {
	w := newWorld(t)
	goOn := w.growsWithoutASet(map[string]any{
		"replicas": int64(3), "storage": map[string]any{"size": "1Gi"},
	}, `{"spec":{"replicas":1,"storage":{"size":"2Gi"}}}`)
	w.put("horse", "pegasus")
	w.stop()
	for _, pod := range []string{"bellerophon-1", "bellerophon-2"} {
		if err := w.core.CoreV1().Pods(w.namespace).Delete(w.ctx, pod, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	goOn()
	w.startOperator()
	w.ready()
	w.wantHorse()
}
