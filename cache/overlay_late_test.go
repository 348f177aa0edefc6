package cache_test

import (
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
)

// The uid and the version of a deletion identify the object that is gone. A predecessor's deletion
// may come after the answer to the creation of its successor.
func TestALateDeletionOfAPredecessorDoesNotHideAnOwnCreation(t *testing.T) {
	for name, test := range map[string]struct {
		event  streams.Event
		then   string
		passed bool
	}{
		"of a predecessor before it":                {deleted("a/x", "u@7"), "v@8", false},
		"of itself":                                 {deleted("a/x", "v@9"), "-", true},
		"of a successor, which it has made way for": {deleted("a/x", "w@10"), "-", true},
	} {
		t.Run(name, func(t *testing.T) {
			c, store := synced(t, applied("a/x", "u@6"))
			wrote(store, "a/x", "v@8")
			c.Apply([]streams.Event{test.event})
			if now := got(store, "a/x"); now != test.then {
				t.Errorf("Get says %s, want %s", now, test.then)
			}
			if found := len(store.ByIndex("app", "")) + len(store.List("")); (found > 0) != (test.then != "-") {
				t.Errorf("lists find %d objects, and Get says %s", found, test.then)
			}
			if passed := c.Level() == cache.OwnWritesVisible; passed != test.passed {
				t.Errorf("passed is %v, want %v", passed, test.passed)
			}
		})
	}
}

// Until the source of a namespace has noticed that the server's versions went back, the cache has the namespace's objects of
// before. Dropping the own write would show what was before it.
func TestAResetOfOneNamespaceLeavesOwnWritesInAnother(t *testing.T) {
	c, store := newCache(t)
	store.SetNamespaces("a", "b")
	c.Apply(within("a", list("", "6", object("a/x", "u@6"))...))
	c.Apply(within("b", list("", "6", object("b/y", "w@5"))...))
	wrote(store, "a/x", "u@7")
	wrote(store, "b/y", "w@8")
	reset := within("b", list("", "3")...)
	reset[0].Reset, reset[0].Received = true, time.Now().Add(time.Second)
	c.Apply(reset)
	if x, y := got(store, "a/x"), got(store, "b/y"); x != "u@7" || y != "-" {
		t.Errorf("Get says %s and %s, want u@7 and -", x, y)
	}
	reset = within("a", list("", "3", object("a/x", "u@2"))...)
	reset[0].Reset, reset[0].Received = true, time.Now().Add(time.Second)
	c.Apply(reset)
	if x := got(store, "a/x"); x != "u@2" {
		t.Errorf("after its own reset, Get says %s, want u@2", x)
	}
}
