package controller_test

import (
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// The cache drops a list that is older than the state that it holds. Events that waited in the
// debounce when the list started must not be lost with it, as the next watch begins after the list.
func TestAListThatIsTooOldTakesNothingWithIt(t *testing.T) {
	made, err := cache.New(cache.LoopOptions{}, noLog)
	if err != nil {
		t.Fatal(err)
	}
	store := made.Add(modelKinds[0])
	listed := func(version string, objects ...string) []streams.Event {
		kind := streams.Key{GroupKind: modelKinds[0]}
		list := []streams.Event{{Type: streams.ListStart, Key: kind, ResourceVersion: version}}
		for _, name := range objects {
			object := versioned(name, 2)
			list = append(list, streams.Event{Type: streams.Listed, Key: streams.KeyOf(modelKinds[0], object), Object: object, ResourceVersion: "2"})
		}
		return append(list, streams.Event{Type: streams.ListEnd, Key: kind, ResourceVersion: version})
	}
	event := func(kind streams.EventType, name string, version int) streams.Event {
		object := versioned(name, version)
		return streams.Event{Type: kind, Key: streams.KeyOf(modelKinds[0], object), Object: object, ResourceVersion: object.ResourceVersion}
	}
	since := []streams.Event{event(streams.Applied, "short", 3), event(streams.Deleted, "short", 4)}
	made.Apply(listed("1"))
	events := append([]streams.Event{event(streams.Applied, "kept", 2)}, since...)
	events = append(append(events, listed("2", "kept")...), since...)
	debounced := operators.Debounce(streams.Of(events...), operators.DebounceOptions{})
	streams.Collect(t.Context(), applied(made, debounced))
	if _, found := store.Get(types.NamespacedName{Namespace: "x", Name: "kept"}); !found {
		t.Error("the cache does not have an object that an event and a list carried")
	}
}

// Readers see an own write before the watch reports it. If the object is deleted before that, a
// list ends the read. Then the cache must yield a removal, as a reconciler may have read the object.
func TestAnOwnWriteThatAListDoesNotHaveIsARemoval(t *testing.T) {
	w := newPendingWrites(t, 0, 0)
	name := types.NamespacedName{Namespace: "x", Name: "own"}
	w.store.RecordWrite(versioned("own", 5), time.Time{}, time.Time{})
	if _, found := w.store.Get(name); !found {
		t.Fatal("the own write is not seen")
	}
	kind := streams.Key{GroupKind: modelKinds[0]}
	changes := w.cache.Apply([]streams.Event{
		{Type: streams.ListStart, Key: kind, ResourceVersion: "7"},
		{Type: streams.ListEnd, Key: kind, ResourceVersion: "7"},
	})
	if _, found := w.store.Get(name); found {
		t.Fatal("the list does not have the own write, and readers still see it")
	}
	if len(changes) != 1 || changes[0].Type != streams.Removed || changes[0].Key.Name != "own" {
		t.Errorf("readers no longer see the own write, and the changes are %v, want its removal", changes)
	}
}

// With 2,000 writes a second and a watch that lags 5 s, 10,000 own writes are pending. A cost that
// is ten times as high with fifty times as many pending writes grows with their number.
func TestNeitherWritesNorEventsCostMoreTheMoreOwnWritesAreOnTheirWay(t *testing.T) {
	const few, many, most = 100, 5_000, 10
	for _, of := range []string{"own writes", "own deletions"} {
		with := func(pending int) *pendingWrites {
			if of == "own writes" {
				return newPendingWrites(t, pending, 0)
			}
			return newPendingWrites(t, 0, pending)
		}
		withFew, withMany := with(few), with(many)
		for what, do := range map[string]func(w *pendingWrites){
			"a write":  func(w *pendingWrites) { w.write("written-7") },
			"an event": func(w *pendingWrites) { w.applyForeign() },
		} {
			first, second := cost(withFew, do), cost(withMany, do)
			t.Logf("%s costs %v with %d pending %s and %v with %d", what, first, few, of, second, many)
			if second > most*first {
				t.Errorf("%s costs %v with %d pending %s and %v with %d", what, first, few, of, second, many)
			}
		}
	}
}

// cost returns the lowest measured time of do: other processes of the machine only add to it.
func cost(w *pendingWrites, do func(w *pendingWrites)) time.Duration {
	const times = 50
	best := time.Hour
	for range 10 {
		started := time.Now()
		for range times {
			do(w)
		}
		best = min(best, time.Since(started)/times)
	}
	return best
}
