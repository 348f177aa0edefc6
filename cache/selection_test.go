package cache_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
)

// selection returns a selection of the objects whose names begin with one of the prefixes. The number of a
// prefix is its place.
func selection(prefixes ...string) *streams.Selection {
	return &streams.Selection{Number: int64(len(prefixes)), Keeps: func(object streams.Object) (int64, bool) {
		for i, prefix := range prefixes {
			if prefix != "" && strings.HasPrefix(object.GetName(), prefix) {
				return int64(i + 1), true
			}
		}
		return 0, false
	}}
}

func TestObjectsOutsideOfTheSelectionLeaveWithoutAChangeAndMayComeBack(t *testing.T) {
	c, store := newCache(t)
	store.Select(selection("x"))
	c.Apply(append(list("", "5", object("a/x1", "1@1"), object("a/y1", "2@2")), event(streams.Selected, "1")))
	same(t, "objects of x", held(store.List("")), []string{"a/x1 1@1"})
	if level := store.Level(); level < cache.Current {
		t.Errorf("with all of the selection, the level is %v", level)
	}

	store.Select(selection("x", "y"))
	if level := store.Level(); level != cache.Listed {
		t.Errorf("while y is not read, the level is %v", level)
	}
	changes := c.Apply([]streams.Event{applied("a/y1", "2@2"), event(streams.Selected, "2")})
	same(t, "changes with y", formatted(changes), []string{"Added a/y1 - > 2@2 by Applied@2"})
	if level := store.Level(); level < cache.Current {
		t.Errorf("when y is read, the level is %v", level)
	}

	store.Select(selection("", "y"))
	changes = c.Apply([]streams.Event{bookmark("6")})
	same(t, "changes without x", formatted(changes), nil)
	same(t, "objects of y", held(store.List("")), []string{"a/y1 2@2"})
	same(t, "changes of x", formatted(c.Apply([]streams.Event{applied("a/x1", "1@7"), deleted("a/x1", "1@8")})), nil)

	store.Select(selection("", "y", "x"))
	c.Apply([]streams.Event{applied("a/x2", "3@4"), event(streams.Selected, "3")})
	same(t, "objects of both", held(store.List("")), []string{"a/x2 3@4", "a/y1 2@2"})
	if counts := anomalies(store); len(counts) != 0 {
		t.Errorf("counted %v as odd", counts)
	}
}

// An object may get another owner, and so a place in the selection of another replica.
func TestAnObjectThatAChangeTakesOutOfTheSelectionIsRemovedAndMayComeBack(t *testing.T) {
	c, store := newCache(t)
	var mine atomic.Int64
	mine.Store(1)
	store.Select(&streams.Selection{Number: 1, Keeps: func(o streams.Object) (int64, bool) {
		return mine.Load(), o.GetLabels()["app"] != "theirs" || mine.Load() > 1
	}})
	c.Apply(append(list("", "5", object("a/x1", "1@1", "ours"), object("a/x2", "2@2"), object("a/x3", "3@3")), event(streams.Selected, "1")))
	changes := c.Apply([]streams.Event{
		applied("a/x1", "1@6", "theirs"), applied("a/x2", "2@7", "theirs"), of(streams.Deleted, object("a/x3", "3@8", "theirs")), applied("a/x4", "4@9", "theirs"),
	})
	same(t, "changes", formatted(changes), []string{
		"Removed a/x1 1@1 > - by Applied@6", "Removed a/x2 2@2 > - by Applied@7", "Removed a/x3 3@3 > - by Deleted@8",
	})
	same(t, "objects", held(store.List("")), nil)

	c.Apply([]streams.Event{applied("a/x1", "1@1", "ours")}) // It is late.
	same(t, "objects after a late event", held(store.List("")), nil)

	mine.Store(2) // The selection gets its place, and the source reads it.
	c.Apply([]streams.Event{applied("a/x1", "1@6", "theirs"), applied("a/x2", "2@10", "ours"), event(streams.Selected, "2")})
	same(t, "objects that came back", held(store.List("")), []string{"a/x1 1@6", "a/x2 2@10"})
}

// A list that was requested before the selection has grown lacks the objects of the new part. They are neither
// deleted, nor refused when they are read.
func TestAListFromBeforeTheSelectionHasGrownDeletesNothing(t *testing.T) {
	c, store := newCache(t)
	store.Select(selection("x"))
	c.Apply(append(list("", "5", object("a/x1", "1@1")), event(streams.Selected, "1")))
	store.Select(selection("x", "y"))
	c.Apply([]streams.Event{applied("a/y1", "2@2")})
	changes := c.Apply(list("", "9", object("a/x1", "1@1")))
	same(t, "changes by the list", formatted(changes), nil)
	c.Apply([]streams.Event{applied("a/y1", "2@2"), event(streams.Selected, "2")})
	same(t, "objects", held(store.List("")), []string{"a/x1 1@1", "a/y1 2@2"})
}

// The source reports no objects outside of the selection, so no event would ever pass such a write.
func TestOwnWritesOutsideOfTheSelectionDoNotHoldTheLevelDown(t *testing.T) {
	c, store := newCache(t)
	store.Select(selection("x", "y"))
	c.Apply(append(list("", "5", object("a/x1", "1@1"), object("a/y1", "2@2")), event(streams.Selected, "2")))
	now := time.Now()
	store.RecordWrite(object("a/z1", "3@6"), now, now)
	if level := store.Level(); level < cache.OwnWritesVisible {
		t.Errorf("after a write outside of the selection, the level is %v", level)
	}
	store.RecordWrite(object("a/x1", "1@7"), now, now)
	store.RecordWrite(object("a/y1", "2@8"), now, now)
	store.Select(selection("x"))
	same(t, "objects after y was given away", held(store.List("")), []string{"a/x1 1@7", "a/y1 2@2"})
	if level := store.Level(); level != cache.Current {
		t.Errorf("while a write inside of the selection is not reported, the level is %v", level)
	}
	c.Apply([]streams.Event{applied("a/x1", "1@7")})
	same(t, "objects after the next event", held(store.List("")), []string{"a/x1 1@7"})
	if level := store.Level(); level < cache.OwnWritesVisible {
		t.Errorf("when the write inside of the selection is reported, the level is %v", level)
	}
}
