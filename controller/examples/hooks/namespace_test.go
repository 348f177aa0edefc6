package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inProduction is a hook that follows the ConfigMaps of the namespaces with a label.
const inProduction = "configVersion: v1\nkubernetes: [{name: maps, kind: cm, namespace: {labelSelector: {matchLabels: {env: production}}}}]"

func namespaceOf(name, env string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"env": env}}}
}

func configMapIn(namespace, name string, data ...string) *corev1.ConfigMap {
	made := configMap(name, data...)
	made.Namespace = namespace
	return made
}

func TestObjectsAppearWhenTheirNamespaceBeginsToMatchAndGoWhenItStops(t *testing.T) {
	inWorld(t, map[string]string{"a": inProduction}, func(w *world) {
		w.expect("at the start", "a: maps Synchronization")
		w.must(w.server.Create(namespaceOf("shop", "staging")))
		w.must(w.server.Create(configMapIn("shop", "new")))
		w.expect("while the namespace does not match")
		w.must(w.server.Update(namespaceOf("shop", "production")))
		w.expect("after the namespace matches", "a: maps Event Added new, maps Event Added old")
		w.must(w.server.Update(configMapIn("shop", "old", "k", "2")))
		w.expect("after a change", "a: maps Event Modified old")
		w.must(w.server.Update(namespaceOf("shop", "staging")))
		w.expect("after the namespace does not match", "a: maps Event Deleted new, maps Event Deleted old")
		if text := w.lastOf("a"); !strings.Contains(text, `"data":{"k":"2"}`) {
			t.Errorf("the context lacks the last state: %s", text)
		}
		w.must(w.server.Update(configMapIn("shop", "old", "k", "3")))
		w.expect("after a change in a namespace that does not match")
	}, configMapIn("shop", "old", "k", "1"))
}

func TestASynchronizationAndASnapshotHaveTheObjectsOfMatchingNamespacesOnly(t *testing.T) {
	config := inProduction + "\nschedule: [{crontab: '*/20 * * * *', includeSnapshotsFrom: maps}]"
	inWorld(t, map[string]string{"a": config}, func(w *world) {
		w.must(w.server.Create(namespaceOf("shop", "production")))
		w.expect("at the start", "a: maps Synchronization", "a: maps Event Added one")
		<-time.After(20 * time.Minute)
		if text := w.lastOf("a"); !strings.Contains(text, `"name":"one"`) || strings.Contains(text, `"name":"two"`) {
			t.Errorf("the snapshot is %s, want one alone", text)
		}
		w.must(w.server.Delete(namespaceOf("shop", "")))
		<-time.After(20 * time.Minute)
		if text := w.lastOf("a"); !strings.Contains(text, `"snapshots":{"maps":[]}`) {
			t.Errorf("the snapshot is %s, want an empty one", text)
		}
	}, configMapIn("shop", "one"), configMapIn("other", "two"))
}

func TestANamedNamespaceIsSelectedWhateverItsLabels(t *testing.T) {
	config := "configVersion: v1\nkubernetes: [{name: maps, kind: cm, namespace: {nameSelector: [shop], labelSelector: {matchLabels: {env: production}}}}]"
	inWorld(t, map[string]string{"a": config}, func(w *world) {
		w.expect("at the start", "a: maps Synchronization")
		if text := w.lastOf("a"); !strings.Contains(text, `"name":"one"`) || strings.Contains(text, `"name":"two"`) {
			t.Errorf("the context is %s, want one alone", text)
		}
		w.must(w.server.Create(namespaceOf("shop", "production")))
		w.must(w.server.Create(namespaceOf("other", "production")))
		w.expect("after both match", "a: maps Event Added two")
		w.must(w.server.Update(namespaceOf("shop", "staging")))
		w.expect("after the named one does not match")
	}, configMapIn("shop", "one"), configMapIn("other", "two"))
}

// Objects and the labels of their namespaces change at random, and the hook fails at random and takes long.
func TestWhateverHappensToNamespacesAHookEndsWithWhatTheyHold(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { relabelAtRandom(t, seed) })
	}
}

func relabelAtRandom(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	inWorld(t, map[string]string{"a": inProduction}, func(w *world) {
		shown, ends := follower{}, false
		w.hooksDo(func(_ context.Context, hook string) error {
			w.mu.Lock()
			contexts, wait, fails := w.last["a"], time.Duration(random.IntN(3))*time.Second, !ends && random.IntN(4) == 0
			w.mu.Unlock()
			<-time.After(wait)
			if fails {
				return errHook
			}
			if err := shown.handle(contexts); err != nil {
				t.Error(err)
			}
			return nil
		})
		namespaces, objects := map[string]string{}, map[string]*corev1.ConfigMap{}
		for range 80 {
			w.mu.Lock() // It guards random, too.
			at, number, step, wait := fmt.Sprint("ns-", random.IntN(2)), random.IntN(3), random.IntN(5), time.Duration(random.IntN(800))*time.Millisecond
			env, value := []string{"production", "staging"}[random.IntN(2)], fmt.Sprint(random.IntN(3))
			w.mu.Unlock()
			name := fmt.Sprint(at, "-", number)
			object := configMapIn(at, name, "k", value)
			_, known := namespaces[at]
			switch {
			case step < 2 && !known:
				w.must(w.server.Create(namespaceOf(at, env)))
				namespaces[at] = env
			case step < 2:
				w.must(w.server.Update(namespaceOf(at, env)))
				namespaces[at] = env
			default:
				w.change(objects, object, step == 2)
			}
			<-time.After(wait)
		}
		w.mu.Lock()
		ends = true
		w.mu.Unlock()
		<-time.After(10 * time.Minute)
		want := follower{}
		for name, object := range objects {
			if namespaces[object.Namespace] == "production" {
				want[name] = object.Data["k"]
			}
		}
		if !maps.Equal(shown, want) {
			t.Errorf("the hook was shown %v, the namespaces hold %v", shown, want)
		}
	})
}

func TestNamespacesMayBeWatchedAndSelectByTheirLabelsAtOnce(t *testing.T) {
	config := `
configVersion: v1
kubernetes:
- {name: maps, kind: cm, namespace: {labelSelector: {matchLabels: {env: production}}}}
- {name: spaces, kind: ns, fieldSelector: {matchExpressions: [{field: metadata.name, operator: NotEquals, value: shop}]}}
`
	inWorld(t, map[string]string{"a": config}, func(w *world) {
		w.expect("at the start", "a: maps Synchronization, spaces Synchronization")
		w.must(w.server.Create(namespaceOf("shop", "production")))
		w.expect("after the namespace matches", "a: maps Event Added one")
		w.must(w.server.Create(namespaceOf("other", "staging")))
		w.expect("after another namespace", "a: spaces Event Added other")
	}, configMapIn("shop", "one"))
}
