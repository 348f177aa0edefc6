package cache_test

import (
	"fmt"
	"testing"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// within returns events that speak for a namespace.
func within(namespace string, events ...streams.Event) []streams.Event {
	for i := range events {
		if events[i].Object == nil {
			events[i].Key.Namespace = namespace
		}
	}
	return events
}

func listOf(namespace, version string, objects ...*metav1.PartialObjectMetadata) []streams.Event {
	return within(namespace, list("1", version, objects...)...)
}

func TestAListOfANamespaceReplacesThatNamespaceAlone(t *testing.T) {
	c, store := newCache(t)
	store.SetNamespaces("a", "b")
	c.Apply(listOf("a", "5", object("a/x", "u@2"), object("a/y", "v@3")))
	if level := c.Level(); level != cache.Starting {
		t.Errorf("with one list of two the level is %v", level)
	}
	c.Apply(listOf("b", "6", object("b/x", "w@4", "red")))
	if level := c.Level(); level != cache.OwnWritesVisible {
		t.Errorf("with both lists the level is %v", level)
	}
	changes := c.Apply(listOf("a", "9", object("a/y", "v@8")))
	same(t, "changes", formatted(changes), []string{"Removed a/x u@2 > - by Listed@2", "Updated a/y v@3 > v@8 by Listed@8"})
	same(t, "all", held(store.List("")), []string{"a/y v@8", "b/x w@4"})
	same(t, "by index", held(store.ByIndex("app", "red")), []string{"b/x w@4"})
	if store.Version() != "6" {
		t.Errorf("the version is %s, want that of the older list, 6", store.Version())
	}
	changes = c.Apply([]streams.Event{applied("b/x", "w@7")})
	same(t, "changes", formatted(changes), []string{"Updated b/x w@4 > w@7 by Applied@7"})
}

func TestAnOldListOfANamespaceIsToldByWhatThatNamespaceHasSeen(t *testing.T) {
	c, store := newCache(t)
	store.SetNamespaces("a", "b")
	c.Apply(listOf("a", "5"))
	c.Apply(listOf("b", "90"))
	c.Apply(listOf("a", "7", object("a/x", "u@6")))
	c.Apply(listOf("b", "80", object("b/x", "w@70")))
	same(t, "all", held(store.List("")), []string{"a/x u@6"})
	if counts := fmt.Sprint(anomalies(store)); counts != "map[old_list:1]" {
		t.Errorf("counted %v", counts)
	}
}

func TestAnOwnWriteWaitsForTheBookmarkOfItsNamespace(t *testing.T) {
	c, store := newCache(t)
	store.SetNamespaces("a", "b")
	c.Apply(listOf("a", "1"))
	c.Apply(listOf("b", "1"))
	wrote(store, "a/hidden", "u@5")
	c.Apply(within("b", bookmark("9")))
	if level := c.Level(); level != cache.Current {
		t.Errorf("after a bookmark of another namespace the level is %v", level)
	}
	c.Apply(within("a", bookmark("9")))
	if level := c.Level(); level != cache.OwnWritesVisible || got(store, "a/hidden") != "-" {
		t.Errorf("after its bookmark the level is %v, and the object %v", level, got(store, "a/hidden"))
	}
}

func TestNoLevelAboveListedIsLeftForADisconnectedSource(t *testing.T) {
	c, _ := newCache(t)
	check := func(when string, want cache.Level) {
		t.Helper()
		if level := c.Level(); level != want {
			t.Errorf("%s the level is %v, want %v", when, level, want)
		}
	}
	c.Apply(list("1", "5"))
	c.Settle(0)
	check("at first", cache.Settled)
	c.Apply([]streams.Event{event(streams.Disconnected, "")})
	check("when it is disconnected", cache.Listed)
	c.Settle(0)
	check("when nothing happens", cache.Listed)
	c.Apply([]streams.Event{event(streams.Connected, "20")})
	check("when it is connected again", cache.Listed)
	c.Apply([]streams.Event{applied("a/x", "u@21"), bookmark("19")})
	check("before it has caught up", cache.Listed)
	c.Apply([]streams.Event{bookmark("20")})
	check("when it has caught up", cache.OwnWritesVisible)
	c.Apply([]streams.Event{event(streams.Disconnected, "")})
	c.Apply(list("30", "29"))
	check("after a list that is not current", cache.Listed)
	c.Apply(list("30", "30"))
	check("after one that is", cache.OwnWritesVisible)
}

func TestTheSizeOfAKindIsThatOfItsObjects(t *testing.T) {
	c, store := newCache(t)
	if store.Bytes() != 0 {
		t.Errorf("an empty store takes %d bytes", store.Bytes())
	}
	var events []streams.Event
	for i := range 1000 {
		events = append(events, applied(fmt.Sprintf("a/x%d", i), fmt.Sprintf("u%d@%d", i, i+1)))
	}
	c.Apply(events)
	each := int64(cache.SizeOf(events[500].Object))
	if got := store.Bytes() / 1000; got < each || got > each+400 {
		t.Errorf("an object takes %d bytes in the cache, and %d outside", got, each)
	}
}
