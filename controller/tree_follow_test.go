package controller

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// followed reads the answers of a tree that follows.
type followed struct {
	t     *testing.T
	lines *bufio.Reader
}

func (w *treeWorld) follow(t *testing.T, query string) followed {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.address+"/debug/tree?follow=true&"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return followed{t, bufio.NewReader(answer.Body)}
}

// next returns the next tree.
func (f followed) next() (root introspection.Node) {
	f.t.Helper()
	for {
		line, err := f.lines.ReadString('\n')
		if err != nil {
			f.t.Fatal(err)
		}
		if line == "\n" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &root); err != nil {
			f.t.Fatal(err)
		}
		return root
	}
}

func TestATreeThatFollowsComesAgainWheneverItHasChanged(t *testing.T) {
	var root, set types.UID
	w := newTreeWorld(t, func(w *treeWorld) {
		root = w.create(&corev1.ConfigMap{ObjectMeta: named("root")})
		set = w.create(&appsv1.StatefulSet{ObjectMeta: named("set")}, root)
	})
	trees := w.follow(t, "object=configmaps/root&namespace=a")
	if first := trees.next(); len(first.Children) != 1 || len(first.Children[0].Children) != 0 {
		t.Fatalf("the first tree is %+v", first)
	}
	w.create(&corev1.Pod{ObjectMeta: named("set-0")}, set) // Known by its owner alone.
	began := time.Now()
	if grown := trees.next(); len(grown.Children[0].Children) != 1 {
		t.Errorf("with a Pod, the tree is %+v", grown)
	}
	for range 20 { // They do not concern the tree.
		w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "other-"}})
	}
	changed := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "set"}}
	if err := w.server.Get(changed); err != nil {
		t.Fatal(err)
	}
	before := changed.ResourceVersion
	changed.Labels = map[string]string{"x": "y"}
	if err := w.server.Update(changed); err != nil {
		t.Fatal(err)
	}
	if labelled := trees.next(); labelled.Children[0].ResourceVersion == before {
		t.Errorf("with a label, the tree is %+v", labelled)
	}
	if took := time.Since(began); took > followAlive/2 {
		t.Errorf("two changes are shown after %v", took)
	}
	gone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "root"}}
	if err := w.server.Delete(gone); err != nil {
		t.Fatal(err)
	}
	for {
		last := trees.next()
		if last.Gone {
			if last.Name != "root" || last.Kind != "ConfigMap" || len(last.Children) != 0 || last.Ready != introspection.NotReady {
				t.Errorf("the root that is gone is %+v", last)
			}
			break
		}
	}
	w.create(&corev1.ConfigMap{ObjectMeta: named("root")})
	if again := trees.next(); again.Gone || again.Ready != introspection.Ready {
		t.Errorf("the root that came again is %+v", again)
	}
}

// The enemy is a long time without a change, in which a client cannot see whether the manager is alive.
func TestATreeThatFollowsShowsThatTheManagerIsAlive(t *testing.T) {
	w := newTreeWorld(t, func(w *treeWorld) { w.create(&corev1.ConfigMap{ObjectMeta: named("root")}) })
	trees := w.follow(t, "object=configmaps/root&namespace=a")
	trees.next()
	began := time.Now()
	for range 2 { // The first one is the look after the observation has begun.
		if line, err := trees.lines.ReadString('\n'); err != nil || line != "\n" {
			t.Errorf("a sign of life is %q, %v", line, err)
		}
	}
	if took := time.Since(began); took > followAlive+2*time.Second {
		t.Errorf("a sign of life comes after %v", took)
	}
}

func TestATreeThatFollowsEndsWithTheManager(t *testing.T) {
	w := newTreeWorld(t, func(w *treeWorld) { w.create(&corev1.ConfigMap{ObjectMeta: named("root")}) })
	trees := w.follow(t, "object=configmaps/root&namespace=a")
	trees.next()
	began := time.Now()
	w.stop()
	if rest, err := io.ReadAll(trees.lines); err != nil || strings.TrimSpace(string(rest)) != "" || time.Since(began) > shutdownGrace {
		t.Errorf("after %v it ends with %q, %v", time.Since(began), rest, err)
	}
}

func TestOnlyChangesOfTheObjectsOfATreeConcernIt(t *testing.T) {
	at := func(uid types.UID, name string, owners ...types.UID) streams.Object {
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: uid}}
		for _, owner := range owners {
			made.OwnerReferences = append(made.OwnerReferences, metav1.OwnerReference{UID: owner})
		}
		return made
	}
	of := func(before, after streams.Object) streams.Change {
		made := streams.Change{Old: before, New: after}
		for _, object := range []streams.Object{before, after} {
			if object != nil {
				made.Key.Name = object.GetName()
			}
		}
		return made
	}
	in := map[types.UID]bool{"root": true, "child": true}
	for name, test := range map[string]struct {
		change streams.Change
		want   bool
	}{
		"another object":                  {of(nil, at("other", "x")), false},
		"a child":                         {of(at("child", "x"), at("child", "x")), true},
		"a child that is gone":            {of(at("child", "x"), nil), true},
		"a new child":                     {of(nil, at("new", "x", "other", "root")), true},
		"a child that has lost its owner": {of(at("new", "x", "root"), at("new", "x")), true},
		"another root of the name":        {of(nil, at("later", "root")), true},
	} {
		made := newTouches("root")
		made.add([]streams.Change{test.change})
		if got := made.take(in); got != test.want {
			t.Errorf("%s concerns the tree: %v", name, got)
		}
		if made.take(in) {
			t.Errorf("%s is not forgotten", name)
		}
	}
	flooded := newTouches("root")
	for i := range 2 * mostTouches {
		flooded.add([]streams.Change{of(nil, at(types.UID(strings.Repeat("x", i%50)+string(rune('a'+i/50))), "x"))})
	}
	if len(flooded.uids) > mostTouches+2 || !flooded.take(in) {
		t.Errorf("it remembers %d objects, or misses changes", len(flooded.uids))
	}
}
