package simple_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
)

// meanwhile runs a function before the next patch to a path passes, and records the conflicts of
// patches.
type meanwhile struct {
	http.RoundTripper
	path string // the end of the path

	mu        sync.Mutex
	do        func()
	conflicts []string // paths
}

func (m *meanwhile) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, m.path) {
		if do := m.take(); do != nil {
			do()
		}
	}
	answer, err := m.RoundTripper.RoundTrip(request)
	if err == nil && request.Method == http.MethodPatch && answer.StatusCode == http.StatusConflict {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.conflicts = append(m.conflicts, request.URL.Path)
	}
	return answer, err
}

func (m *meanwhile) take() func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	do := m.do
	m.do = nil
	return do
}

// before runs do before the next patch to the path.
func (m *meanwhile) before(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.do = do
}

func (m *meanwhile) conflicted() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conflicts
}

// newWorldWithMeanwhile creates a namespace with an operator and a finished object.
func newWorldWithMeanwhile(t *testing.T, path string) (*world, *meanwhile) {
	t.Helper()
	w, m := newWorld(t), &meanwhile{path: path}
	config := w.operatorConfig()
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		m.RoundTripper = inner
		return m
	})
	w.operator = w.startOperatorAs(config)
	if err := w.operator.manager.Cache().Wait(w.ctx, cache.Current); err != nil {
		t.Fatal(err)
	}
	w.create(w.hero("pegasus", 1))
	w.awaitReady("pegasus", 1)
	return w, m
}

// The controller of StatefulSets writes a status within milliseconds of a change.
func TestARepairIsDoneThoughItsChildChangesMeanwhile(t *testing.T) {
	w, m := newWorldWithMeanwhile(t, "/statefulsets/pegasus")
	client := w.any.Resource(statefulSets).Namespace(w.namespace)
	m.before(func() {
		if _, err := client.Patch(w.ctx, "pegasus", apitypes.MergePatchType, []byte(`{"metadata":{"annotations":{"team":"stable"}}}`), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	})
	must(client.Patch(w.ctx, "pegasus", apitypes.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{}))(t)
	w.await(statefulSets, "pegasus", "back to 1 replica", func(object *unstructured.Unstructured) bool {
		replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
		return replicas == 1 && object.GetAnnotations()["team"] == "stable"
	})
	w.awaitReady("pegasus", 1)
	if conflicts := m.conflicted(); len(conflicts) > 0 {
		t.Errorf("conflicts: %s", conflicts)
	}
}

func TestARepairLeavesAloneWhatSomebodyElseMadeMeanwhile(t *testing.T) {
	for name, isOwned := range map[string]bool{"that has an owner": true, "that has none": false} {
		t.Run(name, func(t *testing.T) {
			w, m := newWorldWithMeanwhile(t, "/configmaps/pegasus")
			client := w.core.CoreV1().ConfigMaps(w.namespace)
			theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "pegasus"}, Data: map[string]string{"theirs": "yes"}}
			if isOwned {
				other := must(client.Create(w.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "another"}}, metav1.CreateOptions{}))(t)
				theirs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(other, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
			}
			m.before(func() {
				if err := client.Delete(w.ctx, "pegasus", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				if _, err := client.Create(w.ctx, theirs, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			})
			w.change("pegasus", `{"spec":{"winged_horse_name":"tulpar"}}`)
			w.awaitDegraded("pegasus", v1.ReasonNameConflict)
			kept := must(client.Get(w.ctx, "pegasus", metav1.GetOptions{}))(t)
			if len(kept.Data) != 1 || kept.Data["theirs"] != "yes" || len(kept.Labels) > 0 || len(kept.OwnerReferences) != len(theirs.OwnerReferences) {
				t.Errorf("the operator changed the other client's object: labels %v, owners %v, data %v", kept.Labels, kept.OwnerReferences, kept.Data)
			}
		})
	}
}

// undoing reverts a setting that patches write, as an admission webhook may do.
type undoing struct{ http.RoundTripper }

func (u undoing) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/configmaps/pegasus") {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		request.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte("tulpar"), []byte("hijack"))))
	}
	return u.RoundTripper.RoundTrip(request)
}

func TestARepairThatIsUndoneIsNotCalledOne(t *testing.T) {
	w := newWorld(t)
	config := w.operatorConfig()
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return undoing{inner} })
	w.operator = w.startOperatorAs(config)
	w.create(w.hero("pegasus", 1))
	w.awaitReady("pegasus", 1)
	w.change("pegasus", `{"spec":{"winged_horse_name":"tulpar"}}`)
	for {
		select {
		case err := <-w.operator.failed:
			if strings.Contains(err.Error(), "ConfigMap") && strings.Contains(err.Error(), "does not keep the written fields") {
				return
			}
		case <-w.ctx.Done():
			t.Fatal("no reconcile reports that the repair was undone")
		}
	}
}

func TestTheStatusOfWhatIsKnownToHaveChangedIsNotSent(t *testing.T) {
	w, m := newWorldWithMeanwhile(t, "/configmaps/pegasus")
	always := func(*v1.BellerophonSimple, *metav1.Condition) bool { return true }
	// OnDelete keeps the object Progressing, so an interim status is due each second.
	manual := []byte(`{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`)
	must(w.any.Resource(statefulSets).Namespace(w.namespace).Patch(w.ctx, "pegasus", apitypes.MergePatchType, manual, metav1.PatchOptions{}))(t)
	w.change("pegasus", `{"spec":{"winged_horse_name":"arion"}}`)
	w.awaitCondition("pegasus", v1.ConditionProgressing, always)
	<-time.After(time.Second)

	client := w.operator.manager.Client()
	m.before(func() {
		if _, err := w.heroes.Patch(w.ctx, "pegasus", apitypes.MergePatchType, []byte(`{"spec":{"winged_horse_name":"balius"}}`), metav1.PatchOptions{}); err != nil {
			t.Error(err)
			return
		}
		for name := (apitypes.NamespacedName{Namespace: w.namespace, Name: "pegasus"}); ; {
			if hero, err := controller.Get[*v1.BellerophonSimple](w.ctx, client, name); err == nil && hero.Spec.WingedHorseName == "balius" {
				return
			}
			select {
			case <-w.ctx.Done():
				t.Error("the second change does not reach the operator's cache")
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	w.change("pegasus", `{"spec":{"winged_horse_name":"tulpar"}}`)
	w.awaitCondition("pegasus", v1.ConditionProgressing, func(hero *v1.BellerophonSimple, _ *metav1.Condition) bool {
		return hero.Spec.WingedHorseName == "balius"
	})
	if conflicts := m.conflicted(); len(conflicts) > 0 {
		t.Errorf("conflicts: %s", conflicts)
	}
}
