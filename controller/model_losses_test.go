package controller_test

import (
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// A list that is older than what is held is dropped. What waited in the debounce when it
// started must not be lost with it: the watch that follows begins after the list.
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
	told := func(kind streams.EventType, name string, version int) streams.Event {
		object := versioned(name, version)
		return streams.Event{Type: kind, Key: streams.KeyOf(modelKinds[0], object), Object: object, ResourceVersion: object.ResourceVersion}
	}
	since := []streams.Event{told(streams.Applied, "short", 3), told(streams.Deleted, "short", 4)}
	made.Apply(listed("1"))
	events := append([]streams.Event{told(streams.Applied, "kept", 2)}, since...)
	events = append(append(events, listed("2", "kept")...), since...)
	debounced := operators.Debounce(streams.Of(events...), operators.DebounceOptions{})
	streams.Collect(t.Context(), made.Through(debounced))
	if _, found := store.Get(types.NamespacedName{Namespace: "x", Name: "kept"}); !found {
		t.Error("what is on the server, and was told one by one and in a list, is not in the cache")
	}
}

// Readers see an own write before the watch tells of it. If it is gone before that, they
// see that too, and whoever has read it has to be told.
func TestAnOwnWriteThatAListDoesNotHaveIsARemoval(t *testing.T) {
	w := newOnTheWay(t, 0, 0)
	name := types.NamespacedName{Namespace: "x", Name: "own"}
	w.store.RecordWrite(versioned("own", 5), time.Time{})
	if _, found := w.store.Get(name); !found {
		t.Fatal("the own write is not seen")
	}
	kind := streams.Key{GroupKind: modelKinds[0]}
	changes := w.cache.Apply([]streams.Event{
		{Type: streams.ListStart, Key: kind, ResourceVersion: "7"},
		{Type: streams.ListEnd, Key: kind, ResourceVersion: "7"},
	})
	if _, found := w.store.Get(name); found {
		t.Fatal("the list does not have it, and it is still seen")
	}
	if len(changes) != 1 || changes[0].Type != streams.Removed || changes[0].Key.Name != "own" {
		t.Errorf("readers do not see it any more, and the changes are %v", changes)
	}
}

// With 2,000 writes a second and a watch that lags 5 s, 10,000 own writes are on their way.
// What costs ten times as much with fifty times as many grows with them.
func TestNeitherWritesNorEventsCostMoreTheMoreOwnWritesAreOnTheirWay(t *testing.T) {
	const few, many, most = 100, 5_000, 10
	for _, of := range []string{"own writes", "own deletions"} {
		with := func(pending int) *onTheWay {
			if of == "own writes" {
				return newOnTheWay(t, pending, 0)
			}
			return newOnTheWay(t, 0, pending)
		}
		withFew, withMany := with(few), with(many)
		for what, do := range map[string]func(w *onTheWay){
			"a write":  func(w *onTheWay) { w.write("written-7") },
			"an event": func(w *onTheWay) { w.applyForeign() },
		} {
			first, second := cost(withFew, do), cost(withMany, do)
			t.Logf("%s costs %v with %d %s on their way and %v with %d", what, first, few, of, second, many)
			if second > most*first {
				t.Errorf("%s costs %v with %d %s on their way and %v with %d", what, first, few, of, second, many)
			}
		}
	}
}

// cost is what something costs at best, on a machine that does other things too.
func cost(w *onTheWay, do func(w *onTheWay)) time.Duration {
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
