package cache_test

import (
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

func removed(store *cache.Store, key string, uid types.UID) {
	store.RecordDeletion(named(key), uid, time.Time{})
}

func TestAnOwnDeletionIsHiddenUntilTheWatchSaysSo(t *testing.T) {
	c, store := synced(t, applied("a/x", "u@6", "red"), applied("a/y", "v@7", "red"))
	removed(store, "a/x", "u")
	check := func(when string, level cache.Level) {
		t.Helper()
		if now := got(store, "a/x"); now != "-" || c.Level() != level {
			t.Errorf("%s Get says %s at level %v", when, now, c.Level())
		}
		same(t, when+" the list", held(store.List("")), []string{"a/y v@7"})
		same(t, when+" red ones", held(store.ByIndex("app", "red")), []string{"a/y v@7"})
	}
	check("at once", cache.Current)
	c.Apply([]streams.Event{applied("a/x", "u@8", "red")}) // For example, its finalizer was removed.
	check("after an update before it", cache.Current)
	changes := c.Apply([]streams.Event{deleted("a/x", "u@9")})
	check("after its event", cache.OwnWritesVisible)
	same(t, "changes", formatted(changes), []string{"Removed a/x u@8 > - by Deleted@9"})
}

func TestARelistWithoutTheObjectEndsAnOwnDeletion(t *testing.T) {
	c, store := synced(t, applied("a/x", "u@6"))
	removed(store, "a/x", "u")
	c.Apply(list("", "7", object("a/x", "u@6")))
	if now := got(store, "a/x"); now != "-" || c.Level() != cache.Current {
		t.Errorf("after a list before the deletion Get says %s at level %v", now, c.Level())
	}
	c.Apply(list("", "9"))
	if now := got(store, "a/x"); now != "-" || c.Level() != cache.OwnWritesVisible {
		t.Errorf("after a list behind the deletion Get says %s at level %v", now, c.Level())
	}
}

func TestADeletionThatTheWatchToldFirstHidesNothing(t *testing.T) {
	c, store := synced(t, applied("a/x", "u@6"), deleted("a/x", "u@7"), applied("a/x", "v@8"))
	removed(store, "a/x", "u")
	removed(store, "a/none", "w")
	if now := got(store, "a/x"); now != "v@8" || c.Level() != cache.OwnWritesVisible {
		t.Errorf("Get says %s at level %v", now, c.Level())
	}
}

func TestAnObjectRecreatedWhileItsDeletionIsHiddenIsRead(t *testing.T) {
	for name, recreate := range map[string]func(*cache.Cache, *cache.Store){
		"by us":     func(_ *cache.Cache, store *cache.Store) { wrote(store, "a/x", "v@9") },
		"by others": func(c *cache.Cache, _ *cache.Store) { c.Apply([]streams.Event{applied("a/x", "v@9")}) },
	} {
		t.Run(name, func(t *testing.T) {
			c, store := synced(t, applied("a/x", "u@6"))
			removed(store, "a/x", "u")
			recreate(c, store)
			if now := got(store, "a/x"); now != "v@9" {
				t.Errorf("Get says %s, want v@9", now)
			}
			c.Apply([]streams.Event{deleted("a/x", "u@8"), applied("a/x", "v@9")})
			if now := got(store, "a/x"); now != "v@9" || c.Level() != cache.OwnWritesVisible {
				t.Errorf("after the events Get says %s at level %v", now, c.Level())
			}
		})
	}
}

// The watch is far behind: it has not reported the creation when the deletion is answered.
func TestAnOwnDeletionOfAnOwnCreationIsHiddenAtOnceAndThroughout(t *testing.T) {
	c, store := synced(t)
	wrote(store, "a/x", "u@7", "red")
	removed(store, "a/x", "u")
	for _, event := range []streams.Event{bookmark("6"), applied("a/x", "u@7", "red"), applied("a/x", "u@8", "red"), deleted("a/x", "u@9")} {
		if now := got(store, "a/x"); now != "-" || len(store.List("")) != 0 || len(store.ByIndex("app", "red")) != 0 || c.Level() != cache.Current {
			t.Fatalf("before %v@%s Get says %s at level %v", event.Type, event.ResourceVersion, now, c.Level())
		}
		c.Apply([]streams.Event{event})
	}
	if now := got(store, "a/x"); now != "-" || c.Level() != cache.OwnWritesVisible {
		t.Errorf("at the end Get says %s at level %v", now, c.Level())
	}
}

func TestAnOwnDeletionOfAnOwnCreationThatASelectorHidesEndsByABookmark(t *testing.T) {
	c, store := synced(t)
	wrote(store, "a/x", "u@7")
	removed(store, "a/x", "u")
	c.Apply([]streams.Event{bookmark("9")})
	if now := got(store, "a/x"); now != "-" || c.Level() != cache.OwnWritesVisible {
		t.Errorf("Get says %s at level %v", now, c.Level())
	}
}

func TestTheEchoOfAnOwnDeletionMeasuresTheLoop(t *testing.T) {
	c, store := synced(t, applied("a/x", "u@6"))
	since := time.Now().Add(-time.Second)
	store.RecordDeletion(named("a/x"), "u", since)
	c.Apply([]streams.Event{deleted("a/x", "u@7")})
	if took := c.Loop().Duration(); took < time.Second || took > time.Since(since) {
		t.Errorf("the loop lasted %v, want a second and a little", took)
	}
}

func TestTheLateAnswerToAnOlderDeletionHidesWhatItDeleted(t *testing.T) {
	c, store := newCache(t)
	c.Apply(list("1", "1", object("a/x", "u@1")))
	wrote(store, "a/x", "v@3") // The object was deleted and recreated.
	store.RecordDeletion(named("a/x"), "v", received)
	store.RecordDeletion(named("a/x"), "u", received)
	if got(store, "a/x") != "-" {
		t.Errorf("after both deletions there is %s", got(store, "a/x"))
	}
	c.Apply([]streams.Event{deleted("a/x", "u@2")})
	if got(store, "a/x") != "-" {
		t.Errorf("after the first event there is %s", got(store, "a/x"))
	}
	c.Apply([]streams.Event{applied("a/x", "v@3"), deleted("a/x", "v@4")})
	if level := c.Level(); got(store, "a/x") != "-" || level != cache.OwnWritesVisible {
		t.Errorf("after all events there is %s at level %v", got(store, "a/x"), level)
	}
}
