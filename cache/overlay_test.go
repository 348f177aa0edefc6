package cache_test

import (
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
)

// synced returns a cache whose first list, at version 5, held the objects of the given events.
func synced(t *testing.T, events ...streams.Event) (*cache.Cache, *cache.Store) {
	t.Helper()
	c, store := newCache(t)
	c.Apply(append(list("", "5"), events...))
	if level := c.Level(); level != cache.OwnWritesVisible {
		t.Fatalf("the level is %v", level)
	}
	return c, store
}

// wrote makes an own write, and reports whether the watch had passed it.
func wrote(store *cache.Store, key, state string, app ...string) bool {
	return store.RecordWrite(object(key, state, app...), time.Time{}, time.Time{})
}

func TestAnOwnWriteIsReadAtOnce(t *testing.T) {
	c, store := synced(t, applied("a/x", "u@6", "red"))
	if wrote(store, "a/x", "u@7", "blue") || wrote(store, "a/new", "v@8", "blue") {
		t.Error("the watch counts as past a write that it has not reported")
	}
	same(t, "objects", held(store.List("a")), []string{"a/new v@8", "a/x u@7"})
	same(t, "red ones", held(store.ByIndex("app", "red")), nil)
	same(t, "blue ones", held(store.ByIndex("app", "blue")), []string{"a/new v@8", "a/x u@7"})
	if now := got(store, "a/x") + " " + got(store, "a/new"); now != "u@7 v@8" {
		t.Errorf("Get says %s", now)
	}
	if level := c.Level(); level != cache.Current {
		t.Errorf("the level is %v while an own write is on its way", level)
	}
}

// An own write lies over the state of the watch. When readers see it without the overlay, the watch
// has reported it, so the level is back at OwnWritesVisible.
func TestAnOwnWriteLeavesWhenTheWatchHasPassedIt(t *testing.T) {
	for name, test := range map[string]struct {
		events  []streams.Event
		passes  bool
		changes []string
		then    string
	}{
		"by its own event": {
			events: []streams.Event{applied("a/x", "u@8")}, passes: true,
			changes: []string{"Updated a/x u@6 > u@8 by Applied@8"}, then: "u@8",
		},
		"by a newer event of the object": {
			events: []streams.Event{applied("a/x", "u@9")}, passes: true,
			changes: []string{"Updated a/x u@6 > u@9 by Applied@9", "Unchanged a/x u@8 > u@9 by Applied@9"}, then: "u@9",
		},
		"not by an older event of the object, which still is a change": {
			events:  []streams.Event{applied("a/x", "u@7")},
			changes: []string{"Updated a/x u@6 > u@7 by Applied@7"}, then: "u@8",
		},
		"by a deletion after it": {
			events: []streams.Event{deleted("a/x", "u@9")}, passes: true,
			changes: []string{"Removed a/x u@6 > - by Deleted@9", "Unchanged a/x u@8 > - by Deleted@9"}, then: "-",
		},
		"by a recreation after it": {
			events: []streams.Event{applied("a/x", "v@9")}, passes: true,
			changes: []string{"Removed a/x u@6 > - by Applied@9", "Added a/x - > v@9 by Applied@9", "Unchanged a/x u@8 > v@9 by Applied@9"}, then: "v@9",
		},
		"by a bookmark": {
			events: []streams.Event{bookmark("8")}, passes: true,
			changes: []string{"Unchanged a/x u@8 > u@6 by Bookmark@8"}, then: "u@6",
		},
		"not by a bookmark before it": {
			events: []streams.Event{bookmark("7")}, then: "u@8",
		},
		"by a list": {
			events: list("", "8", object("a/x", "u@8")), passes: true,
			changes: []string{"Updated a/x u@6 > u@8 by Listed@8"}, then: "u@8",
		},
		"by a list that has it no more": {
			events: list("", "9"), passes: true,
			changes: []string{"Removed a/x u@6 > - by Listed@6", "Unchanged a/x u@8 > - by ListEnd@9"}, then: "-",
		},
		"not by a list before it": {
			events: list("", "7", object("a/x", "u@6")), then: "u@8",
		},
		"not by the beginning of a list": {
			events: list("", "9", object("a/x", "u@8"))[:2], then: "u@8",
		},
		// Streams keep the order of one key only: see TestABusyObjectThatAQuietOneOvertakes in
		// package controller.
		"not by an event of another object, which may have overtaken it": {
			events:  []streams.Event{applied("a/y", "v@9"), deleted("a/z", "w@10")},
			changes: []string{"Added a/y - > v@9 by Applied@9", "Removed a/z w@10 > - by Deleted@10"}, then: "u@8",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, store := synced(t, applied("a/x", "u@6"))
			wrote(store, "a/x", "u@8")
			changes := c.Apply(test.events)
			same(t, "changes", formatted(changes), test.changes)
			if now := got(store, "a/x"); now != test.then {
				t.Errorf("Get says %s, want %s", now, test.then)
			}
			if passed := c.Level() == cache.OwnWritesVisible; passed != test.passes {
				t.Errorf("passed is %v, want %v", passed, test.passes)
			}
		})
	}
}

func TestAWatchFasterThanTheAnswerLeavesNothingToWaitFor(t *testing.T) {
	for name, test := range map[string]struct {
		events []streams.Event
		then   string
	}{
		"with its event":        {[]streams.Event{applied("a/x", "u@8")}, "u@8"},
		"with a newer event":    {[]streams.Event{applied("a/x", "u@9")}, "u@9"},
		"with its deletion":     {[]streams.Event{applied("a/x", "u@8"), deleted("a/x", "u@9")}, "-"},
		"with its recreation":   {[]streams.Event{applied("a/x", "u@8"), deleted("a/x", "u@9"), applied("a/x", "v@10")}, "v@10"},
		"with a bookmark":       {[]streams.Event{bookmark("8")}, "-"},
		"with a list":           {list("", "9", object("a/x", "u@8")), "u@8"},
		"with a list after all": {list("", "9"), "-"},
	} {
		t.Run(name, func(t *testing.T) {
			c, store := synced(t)
			c.Apply(test.events)
			if !wrote(store, "a/x", "u@8") {
				t.Error("the write is said to be still on its way")
			}
			if now := got(store, "a/x"); now != test.then || c.Level() != cache.OwnWritesVisible {
				t.Errorf("Get says %s at level %v, want %s", now, c.Level(), test.then)
			}
		})
	}
}

func TestOwnWritesThatAnswerOutOfOrderEndWithTheLatest(t *testing.T) {
	c, store := synced(t, applied("a/x", "u@6"))
	wrote(store, "a/x", "u@9", "late")
	if wrote(store, "a/x", "u@8", "early") {
		t.Error("the earlier write is said to have been passed by the watch")
	}
	if now := got(store, "a/x"); now != "u@9" {
		t.Errorf("Get says %s, want u@9", now)
	}
	same(t, "by index", held(store.ByIndex("app", "late")), []string{"a/x u@9"})
	same(t, "by the older value", held(store.ByIndex("app", "early")), nil)
	c.Apply([]streams.Event{applied("a/x", "u@8", "early")})
	if now := got(store, "a/x"); now != "u@9" || c.Level() != cache.Current {
		t.Errorf("after the first echo Get says %s at level %v", now, c.Level())
	}
	c.Apply([]streams.Event{applied("a/x", "u@9", "late")})
	if now := got(store, "a/x"); now != "u@9" || c.Level() != cache.OwnWritesVisible {
		t.Errorf("after both echoes Get says %s at level %v", now, c.Level())
	}
}

func TestAForeignChangeNewerThanTheOwnWriteIsNotHidden(t *testing.T) {
	c, store := synced(t, applied("a/x", "u@6", "old"))
	c.Apply([]streams.Event{applied("a/x", "u@9", "foreign")})
	wrote(store, "a/x", "u@8", "own")
	if now := got(store, "a/x"); now != "u@9" {
		t.Errorf("Get says %s, want u@9", now)
	}
	same(t, "by the own value", held(store.ByIndex("app", "own")), nil)
	same(t, "by the foreign value", held(store.ByIndex("app", "foreign")), []string{"a/x u@9"})
}

func TestAnOwnCreationThatASelectorHidesLeavesByABookmark(t *testing.T) {
	c, store := synced(t)
	wrote(store, "a/hidden", "u@7")
	c.Apply([]streams.Event{applied("a/y", "v@8")})
	if now := got(store, "a/hidden"); now != "u@7" || c.Level() != cache.Current {
		t.Errorf("before the bookmark Get says %s at level %v", now, c.Level())
	}
	changes := c.Apply([]streams.Event{bookmark("8")}) // Readers that saw it must learn that it is gone.
	same(t, "changes", formatted(changes), []string{"Removed a/hidden u@7 > - by Bookmark@8"})
	same(t, "objects", held(store.List("")), []string{"a/y v@8"})
	if level := c.Level(); level != cache.OwnWritesVisible {
		t.Errorf("the level is %v", level)
	}
}

func TestAnOwnWriteBeforeTheFirstListStaysUntilTheListHasIt(t *testing.T) {
	c, store := newCache(t)
	wrote(store, "a/x", "u@4")
	events := list("", "5", object("a/x", "u@4"), object("a/y", "v@2"))
	for i, event := range events {
		c.Apply([]streams.Event{event})
		if now := got(store, "a/x"); now != "u@4" {
			t.Fatalf("after %d events of the list Get says %s", i+1, now)
		}
	}
	same(t, "objects", held(store.List("")), []string{"a/x u@4", "a/y v@2"})
	if level := c.Level(); level != cache.OwnWritesVisible {
		t.Errorf("the level is %v", level)
	}
}

func TestReadsMergeOwnWritesInOrderWithoutDuplicates(t *testing.T) {
	_, store := synced(t, applied("a/b", "1@6", "red"), applied("a/d", "2@7", "red"), applied("b/a", "3@8", "red"))
	wrote(store, "a/a", "4@9", "red")
	wrote(store, "a/d", "2@10", "red")
	wrote(store, "a/c", "5@11", "red")
	wrote(store, "b/a", "3@12")
	wrote(store, "c/a", "6@13", "red")
	same(t, "objects", held(store.List("")), []string{"a/a 4@9", "a/b 1@6", "a/c 5@11", "a/d 2@10", "b/a 3@12", "c/a 6@13"})
	same(t, "of a", held(store.List("a")), []string{"a/a 4@9", "a/b 1@6", "a/c 5@11", "a/d 2@10"})
	same(t, "red ones", held(store.ByIndex("app", "red")), []string{"a/a 4@9", "a/b 1@6", "a/c 5@11", "a/d 2@10", "c/a 6@13"})
	if store.Len() != 3 {
		t.Errorf("the store holds %d objects, want 3", store.Len())
	}
}

func TestTheEchoOfAnOwnWriteMeasuresTheLoop(t *testing.T) {
	c, store := synced(t)
	since := time.Now().Add(-time.Second)
	store.RecordWrite(object("a/x", "u@7"), since, time.Time{})
	wrote(store, "a/y", "v@8") // A write without a cause starts no loop.
	if c.Loop().Duration() != 0 {
		t.Errorf("the loop lasted %v before the echo", c.Loop().Duration())
	}
	c.Apply([]streams.Event{applied("a/x", "u@7"), applied("a/y", "v@8")})
	if took := c.Loop().Duration(); took < time.Second || took > time.Since(since) {
		t.Errorf("the loop lasted %v, want a second and a little", took)
	}
}

// The watch may report a creation of ours and a foreign change of it as one event. The own write is
// then in no other change, yet readers have seen it.
func TestAnOwnWriteThatAnotherClientOverwroteIsInAChange(t *testing.T) {
	for name, test := range map[string]struct {
		events  []streams.Event
		changes []string
	}{
		"by an event": {
			[]streams.Event{applied("a/new", "v@9")},
			[]string{"Added a/new - > v@9 by Applied@9", "Unchanged a/new v@8 > v@9 by Applied@9"},
		},
		"by the last of several events": {
			[]streams.Event{applied("a/new", "v@9"), applied("a/new", "v@10")},
			[]string{"Added a/new - > v@9 by Applied@9", "Updated a/new v@9 > v@10 by Applied@10", "Unchanged a/new v@8 > v@10 by Applied@10"},
		},
		"by a list": {
			list("", "10", object("a/new", "v@9")),
			[]string{"Added a/new - > v@9 by Listed@9", "Unchanged a/new v@8 > v@9 by ListEnd@10"},
		},
		"not by its own event": {
			[]streams.Event{applied("a/new", "v@8")},
			[]string{"Added a/new - > v@8 by Applied@8"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, store := synced(t)
			wrote(store, "a/new", "v@8")
			same(t, "changes", formatted(c.Apply(test.events)), test.changes)
		})
	}
}

// A write that changed nothing is answered with the version of the last write, after the object is gone.
func TestAnAnswerOfAnEarlierVersionDoesNotBringADeletedObjectBack(t *testing.T) {
	c, store := synced(t, applied("a/x", "u@6"))
	c.Apply([]streams.Event{bookmark("8")})
	<-time.After(2 * time.Millisecond)
	asked := time.Now()
	c.Apply([]streams.Event{deleted("a/x", "u@9")})
	store.RecordWrite(object("a/x", "u@6"), time.Time{}, asked)
	if now := got(store, "a/x"); now != "-" {
		t.Errorf("the deleted object is read as %s", now)
	}
}
