package controller_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pendingWrites is a store with own writes and own deletions that the watch has not reported yet.
type pendingWrites struct {
	cache   *cache.Cache
	store   *cache.Store
	version int // of the last own write
	foreign int // of the last event
}

func versioned(name string, version int) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "x", Name: name, UID: types.UID(name), ResourceVersion: strconv.Itoa(version),
		OwnerReferences: []metav1.OwnerReference{{UID: "owner"}},
	}}
}

func newPendingWrites(t testing.TB, writes, deletions int) *pendingWrites {
	t.Helper()
	made, err := cache.New(cache.LoopOptions{}, noLog)
	if err != nil {
		t.Fatal(err)
	}
	w := &pendingWrites{cache: made, store: made.Add(modelKinds[0], cache.ByOwner)}
	kind := streams.Key{GroupKind: modelKinds[0]}
	list := []streams.Event{{Type: streams.ListStart, Key: kind, ResourceVersion: "1"}}
	for i := range deletions {
		object := versioned(fmt.Sprintf("gone-%d", i), 1)
		list = append(list, streams.Event{Type: streams.Listed, Key: streams.KeyOf(kind.GroupKind, object), Object: object, ResourceVersion: "1"})
	}
	made.Apply(append(list, streams.Event{Type: streams.ListEnd, Key: kind, ResourceVersion: "1"}))
	w.version, w.foreign = 1_000_000_000, 1 // The events of the watch are older than every own write.
	for i := range writes {
		w.write(fmt.Sprintf("written-%d", i))
	}
	for i := range deletions {
		name := types.NamespacedName{Namespace: "x", Name: fmt.Sprintf("gone-%d", i)}
		w.store.RecordDeletion(name, types.UID(name.Name), time.Time{})
	}
	return w
}

func (w *pendingWrites) write(name string) {
	w.version++
	w.store.RecordWrite(versioned(name, w.version), time.Time{}, time.Time{})
}

// applyForeign applies a watch event of an object that was not written by this client.
func (w *pendingWrites) applyForeign() {
	w.foreign++
	object := versioned("foreign", w.foreign)
	w.cache.Apply([]streams.Event{{
		Type: streams.Applied, Key: streams.KeyOf(modelKinds[0], object), Object: object, ResourceVersion: object.ResourceVersion,
	}})
}

// BenchmarkOwnWrites measures a write, a read and an event, by the number of own writes and own
// deletions that are pending.
func BenchmarkOwnWrites(b *testing.B) {
	for _, pending := range []struct{ writes, deletions int }{{100, 0}, {10_000, 0}, {0, 100}, {0, 10_000}} {
		name := fmt.Sprintf("%d writes, %d deletions pending", pending.writes, pending.deletions)
		b.Run("write with "+name, func(b *testing.B) {
			w := newPendingWrites(b, pending.writes, pending.deletions)
			for i := 0; b.Loop(); i++ {
				w.write(fmt.Sprintf("written-%d", i%100))
			}
		})
		b.Run("read with "+name, func(b *testing.B) {
			w := newPendingWrites(b, pending.writes, pending.deletions)
			for b.Loop() {
				w.store.Get(types.NamespacedName{Namespace: "x", Name: "written-7"})
			}
		})
		b.Run("event with "+name, func(b *testing.B) {
			w := newPendingWrites(b, pending.writes, pending.deletions)
			for b.Loop() {
				w.applyForeign()
			}
		})
	}
}
