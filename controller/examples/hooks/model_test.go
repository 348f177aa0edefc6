package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// follower is a hook that keeps the value of each object that it was shown.
type follower map[string]string

// handle does what a hook would do for contexts. It returns what is wrong with them.
func (f follower) handle(contexts []map[string]any) error {
	value := func(of map[string]any) (name, text string) {
		object := of["object"].(map[string]any)
		data, _ := object["data"].(map[string]any)
		return object["metadata"].(map[string]any)["name"].(string), fmt.Sprint(data["k"])
	}
	for _, each := range contexts {
		switch each["type"] {
		case "Synchronization":
			clear(f)
			for _, object := range each["objects"].([]map[string]any) {
				name, text := value(object)
				f[name] = text
			}
		case "Event":
			name, text := value(each)
			_, known := f[name]
			if known == (each["watchEvent"] == added) {
				return fmt.Errorf("%s is %s, but the hook was shown %v", name, each["watchEvent"], f)
			}
			if f[name] = text; each["watchEvent"] == deleted {
				delete(f, name)
			}
		}
	}
	return nil
}

// The objects change at random, and the hook fails at random and takes long. In the end it was shown what the
// cluster holds.
func TestWhateverHappensAHookEndsWithWhatTheClusterHolds(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { followAtRandom(t, seed) })
	}
}

func followAtRandom(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	config := "configVersion: v1\nkubernetes: [{name: maps, kind: ConfigMap, labelSelector: {matchLabels: {app: web}}, jqFilter: .data.k}]"
	inWorld(t, map[string]string{"a": config, "b": configMaps}, func(w *world) {
		shown := follower{}
		ends := false
		w.hooksDo(func(_ context.Context, hook string) error {
			if hook != "a" {
				return nil
			}
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
		w.must(shown.handle(w.last["a"])) // The Synchronization, which has run.
		cluster := map[string]*corev1.ConfigMap{}
		for range 60 {
			w.mu.Lock() // It guards random, too.
			name, label, wait := fmt.Sprint("object-", random.IntN(4)), random.IntN(3) > 0, time.Duration(random.IntN(800))*time.Millisecond
			object := configMap(name, "k", fmt.Sprint(random.IntN(3)), "other", fmt.Sprint(random.IntN(100)))
			remove := random.IntN(3) == 0
			w.mu.Unlock()
			if label {
				object.Labels = map[string]string{"app": "web"}
			}
			w.change(cluster, object, remove)
			<-time.After(wait)
		}
		w.mu.Lock()
		ends = true
		w.mu.Unlock()
		<-time.After(10 * time.Minute)
		want := follower{}
		for name, object := range cluster {
			if object.Labels["app"] == "web" {
				want[name] = object.Data["k"]
			}
		}
		if !maps.Equal(shown, want) {
			t.Errorf("the hook was shown %v, the cluster holds %v", shown, want)
		}
	})
}

// change creates an object that does not exist. It updates one that exists, or removes it.
func (w *world) change(objects map[string]*corev1.ConfigMap, object *corev1.ConfigMap, remove bool) {
	w.t.Helper()
	switch {
	case objects[object.Name] == nil:
		w.must(w.server.Create(object))
		objects[object.Name] = object
	case remove:
		w.must(w.server.Delete(object))
		delete(objects, object.Name)
	default:
		w.must(w.server.Update(object))
		objects[object.Name] = object
	}
}
