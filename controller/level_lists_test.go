package controller_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// slowLists delays each page of a list, and answers a probe, which is a list of one object, at once.
type slowLists struct {
	next          http.RoundTripper
	page          time.Duration
	probes, pages int
}

func (s *slowLists) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if query.Get("watch") == "" && r.Method == http.MethodGet && r.URL.Path != "/version" {
		if query.Get("limit") == "1" {
			s.probes++
		} else {
			s.pages++
			select {
			case <-time.After(s.page):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
	}
	return s.next.RoundTrip(r)
}

// The server sends a bookmark a minute and answers everything. The cluster is busy with another kind, and
// the watched kind is quiet. The cases differ in how long a list takes. A list takes two pages.
func TestALongListOnABusyClusterCausesNoFurtherLists(t *testing.T) {
	for _, list := range []time.Duration{2 * time.Second, 10 * time.Second, 60 * time.Second, 80 * time.Second, 120 * time.Second} {
		t.Run(list.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &levelWorld{t: t, read: map[string]string{}}
				var err error
				w.server, err = sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
				w.must(err)
				for i := range 15 {
					w.create(fmt.Sprint("x", i))
				}
				w.must(w.server.Create(secret("busy")))
				config := w.server.Config()
				slow := &slowLists{next: config.Transport, page: list / 2}
				config.Transport = slow
				w.manager, err = controller.NewManager(config, scheme.Scheme, controller.Options{PageSize: 10, Logger: slog.New(slog.DiscardHandler)})
				w.must(err)
				w.group = lifecycle.New(t.Context())
				w.begin()
				var first time.Duration
				started, settled := time.Now(), 0
				for i := range 3600 {
					w.wait(time.Second)
					object := secret("busy")
					object.Data = map[string][]byte{"n": fmt.Append(nil, i)}
					w.must(w.server.Update(object))
					if w.level() >= cache.Settled {
						settled++
					}
					if first == 0 && w.count() > 0 {
						first = time.Since(started)
					}
				}
				if first == 0 || first > list+time.Minute {
					t.Errorf("the first reconcile came after %v, want within a bookmark interval after the list of %v", first, list)
				}
				if slow.pages != 2 || slow.probes != 0 || settled < 3000 {
					t.Errorf("in an hour there were %d pages of lists and %d probes, and the level was Settled for %d s", slow.pages, slow.probes, settled)
				}
				w.group.Stop()
				w.must(w.group.Wait())
			})
		})
	}
}

var widget = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// client-go does not compare the kind of a list with a kind that is kept by the names of its fields.
func TestAnotherKindsListDeletesNoObjectsOfACustomKind(t *testing.T) {
	for name, body := range map[string]string{
		"another kind's list":     `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"99"},"items":[]}`,
		"another kind of a group": `{"kind":"GadgetList","apiVersion":"other.example.com/v1","metadata":{"resourceVersion":"99"},"items":[]}`,
		"an object of another":    `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n","resourceVersion":"99"}}`,
		"with items, a Status":    `{"kind":"Status","apiVersion":"v1","metadata":{"resourceVersion":"99"},"status":"Success"}`,
		"without a version":       `{"kind":"SecretList","apiVersion":"v1","metadata":{},"items":[]}`,
		"a status of success":     `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &levelWorld{t: t, read: map[string]string{}}
				served := runtime.NewScheme()
				metav1.AddToGroupVersion(served, schema.GroupVersion{Version: "v1"})
				served.AddKnownTypeWithName(widget, &jsonConfig{})
				served.AddKnownTypeWithName(widget.GroupVersion().WithKind("WidgetList"), &corev1.ConfigMapList{})
				var err error
				w.server, err = sourcestest.New(sourcestest.Options{Scheme: served})
				w.must(err)
				for _, name := range []string{"a", "b", "c"} {
					w.must(w.server.Create(&jsonConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}))
				}
				w.manager, err = controller.NewManager(w.server.Config(), scheme.Scheme, controller.Options{Logger: slog.New(slog.DiscardHandler)})
				w.must(err)
				w.must(w.manager.Add("widgets", nothing, controller.For(&jsonConfig{}, controller.OfKind(widget))))
				w.group = lifecycle.New(t.Context())
				w.run()
				w.reach(cache.Converged, time.Second)
				w.wait(30 * time.Second)
				w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Answer, Verb: "list", Body: body}))
				w.must(w.server.Update(&jsonConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a", Labels: map[string]string{"x": "y"}}}))
				w.server.Compact()
				w.server.Break()
				least := 3
				for range 100 {
					w.wait(50 * time.Millisecond)
					least = min(least, w.manager.Cache().Stores()[0].Len())
				}
				if least < 3 {
					t.Errorf("%d of 3 objects count as deleted", 3-least)
				}
				w.group.Stop()
				w.must(w.group.Wait())
			})
		})
	}
}

// jsonConfig is a ConfigMap by its field names, in no scheme.
type jsonConfig struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
}

func (c *jsonConfig) DeepCopyObject() runtime.Object {
	return &jsonConfig{c.TypeMeta, *c.ObjectMeta.DeepCopy(), c.Data}
}

// projected shares its labels and data with the whole object, against the advice.
type projectedConfig struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	data map[string]string
}

func (c *projectedConfig) DeepCopyObject() runtime.Object {
	copied := &projectedConfig{c.TypeMeta, *c.ObjectMeta.DeepCopy(), map[string]string{}}
	for k, v := range c.data {
		copied.data[k] = v
	}
	return copied
}

func projectConfig(whole *corev1.ConfigMap) *projectedConfig {
	return &projectedConfig{ObjectMeta: metav1.ObjectMeta{Labels: whole.Labels}, data: whole.Data}
}

var forms = map[string]struct {
	object  streams.Object
	options []controller.InputOption
}{
	"whole":     {&corev1.ConfigMap{}, nil},
	"metadata":  {&controller.Metadata[corev1.ConfigMap]{}, nil},
	"projected": {&projectedConfig{}, []controller.InputOption{controller.Project(projectConfig)}},
	"json":      {&jsonConfig{}, []controller.InputOption{controller.OfKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))}},
}

// A page of a list is answered with nonsense, for a kind in each form. No object counts as deleted.
func TestNonsenseIsNoListInAnyForm(t *testing.T) {
	for form, of := range forms {
		for name, body := range map[string]string{
			"html": "<html>", "{}": "{}", "null": "null", "empty": "", "[]": "[]", `"x"`: `"x"`, "7": "7",
			"status":                `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`,
			"status with version":   `{"kind":"Status","apiVersion":"v1","metadata":{"resourceVersion":"99"},"status":"Success"}`,
			"other list":            `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"99"},"items":[]}`,
			"other list of a group": `{"kind":"FooList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"99"},"items":[]}`,
			"other list with items": `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"99"},"items":[{"metadata":{"name":"s","namespace":"a","uid":"u","resourceVersion":"9"}}]}`,
			"an object":             `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"z","namespace":"a","resourceVersion":"99"}}`,
			"a table":               `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"99"},"rows":[]}`,
			"an api resource list":  `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`,
			"login json":            `{"error":"unauthorized","metadata":{}}`,
			"login with items":      `{"items":[],"error":"unauthorized"}`,
			"list without items":    `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"99"}}`,
			"cut":                   `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"99"},"items":[`,
		} {
			for _, nth := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s/%s/page %d", form, name, nth), func(t *testing.T) {
					inLevelWorld(t, sourcestest.Options{}, controller.Options{PageSize: 2}, func(w *levelWorld) {
						w.create("x1", "x2", "x3", "x4", "x5")
						w.must(w.manager.Add("configs", nothing, controller.For(of.object, of.options...)))
						w.run()
						w.reach(cache.Converged, time.Second)
						w.wait(30 * time.Second)
						w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Answer, Verb: "list", Times: 1, Nth: nth, Body: body}))
						w.change("x1")
						w.server.Compact()
						w.server.Break()
						removed := 0
						for range 200 {
							w.wait(50 * time.Millisecond)
							store := w.manager.Cache().Stores()[0]
							if store.Len() < 5 {
								removed = 5 - store.Len()
							}
						}
						if removed > 0 {
							t.Errorf("%d of 5 objects left the cache", removed)
						}
						w.reach(cache.Settled, 3*time.Minute)
					})
				})
			}
		}
	}
}
