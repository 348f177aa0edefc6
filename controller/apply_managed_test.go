package controller_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"pgregory.net/rapid"
)

// counting is a transport that counts patches.
type counting struct {
	next    http.RoundTripper
	patches *atomic.Int64
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch {
		c.patches.Add(1)
	}
	return c.next.RoundTrip(request)
}

// drawPod draws fields of a pod: maps and lists that are atomic, sets, and lists with keys that have defaults.
func drawPod(t *rapid.T, label string) map[string]any {
	names := func(of string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID).Draw(t, label+" "+of)
	}
	texts := func(of string) map[string]any {
		made := map[string]any{}
		for _, name := range names(of) {
			made[name] = rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, label+" "+of+" of "+name)
		}
		return made
	}
	items := func(of string, fill func(string, map[string]any)) []any {
		made := []any{}
		for _, name := range names(of) {
			item := map[string]any{}
			fill(name, item)
			made = append(made, item)
		}
		return made
	}
	containers := items("containers", func(name string, item map[string]any) {
		item["name"], item["image"] = name, rapid.SampledFrom([]string{"one", "two"}).Draw(t, label+" image")
		item["ports"] = items("ports", func(port string, item map[string]any) {
			item["containerPort"] = int64(80 + port[0])
			if protocol := rapid.SampledFrom([]string{"", "TCP", "UDP"}).Draw(t, label+" protocol"); protocol != "" {
				item["protocol"] = protocol
			}
		})
		item["env"] = items("env", func(name string, item map[string]any) { item["name"], item["value"] = name, "1" })
	})
	finalizers := []any{}
	for _, name := range names("finalizers") {
		finalizers = append(finalizers, "example.com/"+name)
	}
	return map[string]any{
		"metadata": map[string]any{"labels": texts("labels"), "finalizers": finalizers},
		"spec": map[string]any{
			"containers": containers, "nodeSelector": texts("selector"),
			"tolerations": items("tolerations", func(name string, item map[string]any) { item["key"] = name }),
			"hostNetwork": rapid.Bool().Draw(t, label+" network"),
		},
	}
}

// redraw returns the fields with some parts left out, and others replaced by parts of another pod.
func redraw(t *rapid.T, label string, of, by map[string]any) map[string]any {
	made := runtime.DeepCopyJSON(of)
	for _, part := range []string{"metadata", "spec"} {
		into, from := made[part].(map[string]any), by[part].(map[string]any)
		for _, field := range slices.Sorted(maps.Keys(into)) {
			switch rapid.IntRange(0, 15).Draw(t, label+" "+field) {
			case 0:
				delete(into, field)
			case 1:
				into[field] = runtime.DeepCopyJSONValue(from[field])
			}
		}
	}
	return made
}

// withoutEmpty removes empty maps and lists.
func withoutEmpty(of map[string]any) map[string]any {
	for name, value := range of {
		switch value := value.(type) {
		case map[string]any:
			if withoutEmpty(value); len(value) == 0 {
				delete(of, name)
			}
		case []any:
			if len(value) == 0 {
				delete(of, name)
			}
			for _, item := range value {
				if item, is := item.(map[string]any); is {
					withoutEmpty(item)
				}
			}
		}
	}
	return of
}

func asConfiguration(content map[string]any) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: content}
	made.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	made.SetNamespace("a")
	made.SetName("x")
	return made
}

// An earlier process applied one configuration, another client changed something, and this process applies another
// configuration. What it does not send would have changed nothing.
func TestAnApplyIsLeftOutAfterARestartOnlyIfItWouldChangeNothing(t *testing.T) {
	var left, sent int
	rapid.Check(t, func(drawn *rapid.T) {
		form, empty := withoutEmpty, rapid.Bool().Draw(drawn, "with empty maps and lists")
		if empty {
			form = func(of map[string]any) map[string]any { return of }
		}
		before, drift := drawPod(drawn, "before"), map[string]any(nil)
		after := redraw(drawn, "after", before, drawPod(drawn, "another"))
		before = redraw(drawn, "before", before, drawPod(drawn, "a third"))
		if rapid.Bool().Draw(drawn, "drift") {
			drift = form(redraw(drawn, "drift", after, before))
		}
		before, after = form(before), form(after)
		var patches int64
		var err error
		synctest.Test(t, func(t *testing.T) { patches, err = applyAfterARestart(t, before, drift, after) })
		switch same := fmt.Sprint(before) == fmt.Sprint(after); {
		case err != nil:
			drawn.Fatal(err)
		case patches == 0:
			left++
		case drift == nil && same && !empty: // An API server does not own all that is empty.
			drawn.Fatal("the same configuration is sent again")
		default:
			sent++
		}
	})
	if t.Logf("%d were sent, and %d were not", sent, left); left == 0 || sent == 0 {
		t.Error("one of the two never happened")
	}
}

// applyAfterARestart returns the number of patches that the apply sent. It returns an error if it sent none,
// but the API server changes something for the same configuration.
func applyAfterARestart(t *testing.T, before, drift, after map[string]any) (patches int64, err error) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme, ManagedFields: true})
	must(err)
	clients, err := kubernetes.NewForConfig(server.Config())
	must(err)
	pods, force := clients.CoreV1().Pods("a"), true
	patch := func(by types.PatchType, content map[string]any, options metav1.PatchOptions) *corev1.Pod {
		t.Helper()
		body, err := json.Marshal(content)
		must(err)
		made, err := pods.Patch(t.Context(), "x", by, body, options)
		must(err)
		return made
	}
	applying := metav1.PatchOptions{FieldManager: "operator", Force: &force}
	patch(types.ApplyPatchType, asConfiguration(before).Object, applying)
	if drift != nil {
		patch(types.StrategicMergePatchType, drift, metav1.PatchOptions{FieldManager: "somebody"})
	}

	sent, config := &atomic.Int64{}, server.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, sent} })
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{UserAgent: "operator", Logger: slog.New(slog.DiscardHandler)})
	must(err)
	must(manager.Add("pods", nothing, controller.For(&corev1.Pod{})))
	group := lifecycle.New(t.Context())
	defer func() {
		group.Stop()
		must(group.Wait())
	}()
	group.Go("manager", manager.Run)
	must(manager.Cache().Wait(t.Context(), cache.Current))
	_, err = controller.Apply[*corev1.Pod](t.Context(), manager.Client(), controller.ApplyConfigurationOf(asConfiguration(after)), controller.Force())
	must(err)
	live, err := pods.Get(t.Context(), "x", metav1.GetOptions{})
	must(err)
	again := patch(types.ApplyPatchType, asConfiguration(after).Object, applying)
	if sent.Load() == 0 && again.ResourceVersion != live.ResourceVersion {
		return 0, fmt.Errorf("nothing was sent, and the configuration would have changed %v to %v", live, again)
	}
	return sent.Load(), nil
}

// The client has the managed fields of the last version that the watch has reported. An own write leads to a later version.
func TestManagedFieldsOfAnEarlierVersionLeaveNoApplyOut(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{ManagedFields: true}, controller.Options{UserAgent: "operator"}, func(w *levelWorld) {
		clients, err := kubernetes.NewForConfig(w.server.Config())
		w.must(err)
		wanted := func(color string) *applycorev1.ConfigMapApplyConfiguration {
			return applycorev1.ConfigMap("x", "a").WithData(map[string]string{"color": color})
		}
		_, err = clients.CoreV1().ConfigMaps("a").Apply(w.t.Context(), wanted("red"), metav1.ApplyOptions{FieldManager: "operator"})
		w.must(err)
		w.begin()
		w.reach(cache.Current, time.Second)
		w.server.Silence()
		object, _ := cached[*corev1.ConfigMap](w.manager.Client(), types.NamespacedName{Namespace: "a", Name: "x"})
		object = object.DeepCopy()
		object.Data["color"] = "blue"
		_, err = controller.Update(w.t.Context(), w.manager.Client(), object, controller.FieldManager("other"))
		w.must(err)
		_, err = controller.Apply[*corev1.ConfigMap](w.t.Context(), w.manager.Client(), wanted("blue"))
		w.must(err)
		live, err := clients.CoreV1().ConfigMaps("a").Get(w.t.Context(), "x", metav1.GetOptions{})
		w.must(err)
		owners := 0
		for _, entry := range live.ManagedFields {
			if entry.Operation == metav1.ManagedFieldsOperationApply && strings.Contains(entry.FieldsV1.GetRawString(), "f:color") {
				owners++
			}
		}
		if owners != 1 {
			t.Errorf("the operator does not own what it applied: %v", live.ManagedFields)
		}
	})
}
