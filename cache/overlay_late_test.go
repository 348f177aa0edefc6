package cache_test

import (
	"testing"

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
