package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// treeWorld is a manager of ConfigMaps, which own Secrets, StatefulSets, and Pods as metadata.
type treeWorld struct {
	t       testing.TB
	server  *sourcestest.Server
	manager *Manager
	address string
	stop    func()
}

func newTreeWorld(t testing.TB, fill func(w *treeWorld)) *treeWorld {
	t.Helper()
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &treeWorld{t: t, server: server}
	fill(w)
	listens := make(chan net.Addr, 1)
	w.manager, err = NewManager(server.Config(), scheme.Scheme, Options{
		Logger: slog.New(slog.DiscardHandler), MetricsAddress: "127.0.0.1:0", History: -1, OnListen: func(_ string, address net.Addr) { listens <- address },
	})
	if err != nil {
		t.Fatal(err)
	}
	idle := func(context.Context, operators.Request) (time.Duration, error) { return 0, nil }
	if err := w.manager.Add("configs", idle, For(&corev1.ConfigMap{}), Owns(&corev1.Secret{}), Owns(&appsv1.StatefulSet{}), Owns(&sources.Metadata[corev1.Pod]{})); err != nil {
		t.Fatal(err)
	}
	w.stop = runToTheEnd(t, w.manager)
	w.address = "http://" + (<-listens).String()
	if err := w.manager.Cache().Wait(context.Background(), cache.Current); err != nil {
		t.Fatal(err)
	}
	return w
}

// create creates an object, and returns its uid.
func (w *treeWorld) create(object streams.Object, owner ...types.UID) types.UID {
	w.t.Helper()
	object.SetNamespace("a")
	for _, uid := range owner {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: uid}))
	}
	if err := w.server.Create(object); err != nil {
		w.t.Fatal(err)
	}
	if err := w.server.Get(object); err != nil {
		w.t.Fatal(err)
	}
	return object.GetUID()
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// ask asks for /debug/tree, and decodes a good answer.
func (w *treeWorld) ask(query url.Values, into any) (code int, text string) {
	w.t.Helper()
	recorder := httptest.NewRecorder()
	w.manager.tree(recorder, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/debug/tree?"+query.Encode(), nil))
	text = recorder.Body.String()
	if strings.Contains(text, canary) {
		w.t.Errorf("the tree has a value of a Secret:\n%s", text)
	}
	if recorder.Code == http.StatusOK && into != nil {
		if err := json.Unmarshal(recorder.Body.Bytes(), into); err != nil {
			w.t.Fatal(err)
		}
	}
	return recorder.Code, text
}

func TestATreeHasWhatAnObjectOwnsAndItsReadiness(t *testing.T) {
	w := newTreeWorld(t, func(w *treeWorld) {
		root := w.create(&corev1.ConfigMap{ObjectMeta: named("root"), Data: map[string]string{"x": canary}})
		w.create(&corev1.Secret{ObjectMeta: named("keys"), Data: map[string][]byte{"x": []byte(canary)}}, root)
		replicas := int32(3)
		set := w.create(&appsv1.StatefulSet{ObjectMeta: named("set"), Spec: appsv1.StatefulSetSpec{Replicas: &replicas}, Status: appsv1.StatefulSetStatus{ObservedGeneration: 1, UpdatedReplicas: 3, AvailableReplicas: 2}}, root)
		w.create(&corev1.Pod{ObjectMeta: named("set-0")}, set)
		w.create(&corev1.ConfigMap{ObjectMeta: named("other")})
	})
	var tree introspection.Node
	if code, text := w.ask(url.Values{"object": {"configmaps/root"}, "namespace": {"a"}}, &tree); code != http.StatusOK {
		t.Fatalf("the answer is %d %s", code, text)
	}
	if tree.Name != "root" || tree.Ready != introspection.Ready || tree.ResourceVersion == "" || len(tree.Children) != 2 {
		t.Fatalf("the root is %+v", tree)
	}
	if keys := tree.Children[0]; keys.Kind != "Secret" || keys.Ready != introspection.Ready || keys.Children != nil {
		t.Errorf("the Secret is %+v", keys)
	}
	set := tree.Children[1]
	if set.Kind != "StatefulSet.apps" || set.Ready != introspection.NotReady || set.Message != "2 of 3 replicas are available" || len(set.Children) != 1 {
		t.Fatalf("the StatefulSet is %+v", set)
	}
	if pod := set.Children[0]; pod.Kind != "Pod" || pod.Ready != introspection.Unknown || !strings.Contains(pod.Message, "a part") {
		t.Errorf("the Pod, of which the cache keeps metadata, is %+v", pod)
	}
	answer, err := http.Get(w.address + "/debug/tree?object=StatefulSet.apps/set&namespace=a") //nolint:noctx // The test ends with it.
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), `"set-0"`) {
		t.Errorf("the metrics server answers %s, %v", text, err)
	}
}

func TestATreeEndsAtACycleAndAtItsDepth(t *testing.T) {
	w := newTreeWorld(t, func(w *treeWorld) {
		one := w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "self", UID: "loop"}}, UID: "loop"}})
		above := one
		for i := range 2 * maxDepth {
			above = w.create(&corev1.ConfigMap{ObjectMeta: named(fmt.Sprintf("below-%d", i))}, above)
		}
	})
	var tree introspection.Node
	w.ask(url.Values{"object": {"configmaps/one"}, "namespace": {"a"}}, &tree)
	depth, leftOut := 0, false
	for at := &tree; ; at = &at.Children[0] {
		leftOut = leftOut || at.LeftOut
		if len(at.Children) == 0 {
			break
		}
		depth++
	}
	if depth != maxDepth || !leftOut {
		t.Errorf("the tree has the depth %d, left out %v", depth, leftOut)
	}
}

func TestRootsAreSearchedAndLimited(t *testing.T) {
	w := newTreeWorld(t, func(w *treeWorld) {
		for i := range 300 {
			w.create(&corev1.ConfigMap{ObjectMeta: named(fmt.Sprintf("horse-%d", i))})
		}
	})
	for query, want := range map[string][2]int{"": {300, 200}, "limit=1000": {300, 300}, "search=a/horse-29": {11, 11}, "search=horse-29&limit=1": {11, 1}, "search=none": {0, 0}, "namespace=b": {0, 0}} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var found introspection.Roots
		if code, text := w.ask(values, &found); code != http.StatusOK || found.Total != want[0] || len(found.Objects) != want[1] {
			t.Errorf("%q finds %d of %d, want %v: %.100s", query, len(found.Objects), found.Total, want, text)
		}
	}
	for query, want := range map[string]string{
		"limit=0": "allowed is 1 to 1000", "limit=many": "limit is many", "object=root": "give RESOURCE/NAME", "object=horses/x": "there are controllers of configmaps",
		"follow=true": "follow is for one object", "object=configmaps/none&follow=true": "look at its name",
		"object=configmaps/none&namespace=a": "look at its name and its namespace",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if code, text := w.ask(values, nil); code == http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%q answers %d %s, want %q", query, code, text, want)
		}
	}
}

func BenchmarkTree(b *testing.B) {
	w := newTreeWorld(b, func(w *treeWorld) {
		root := w.create(&corev1.ConfigMap{ObjectMeta: named("root")})
		for i := range 50_000 {
			child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("key-%d", i)}}
			if i < 5000 {
				child.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "root", UID: root}}
			} else {
				child.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "root", UID: types.UID(fmt.Sprint(i))}}
			}
			if err := w.server.Create(child); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, query := range map[string]string{"children=5000": "object=configmaps/root&namespace=a", "roots": "", "one": "object=configmaps/key-7000&namespace=a"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				recorder := httptest.NewRecorder()
				w.manager.tree(recorder, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/debug/tree?"+query, nil))
				if recorder.Code != http.StatusOK {
					b.Fatal(recorder.Body)
				}
			}
		})
	}
}
