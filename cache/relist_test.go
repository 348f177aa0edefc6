package cache_test

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheFirstListIsVisibleOnlyWhenItIsComplete(t *testing.T) {
	c, store := newCache(t)
	events := list("", "5", object("a/x", "u@1"), object("a/y", "v@2"))
	for _, event := range events[:3] {
		if changes := c.Apply([]streams.Event{event}); len(changes) != 0 || store.Len() != 0 || len(store.List("")) != 0 {
			t.Fatalf("%v was visible before the end of the list: %v", event.Type, formatted(changes))
		}
	}
	changes := c.Apply(events[3:])
	same(t, "changes", formatted(changes), []string{"Added a/x - > u@1 by Listed@1", "Added a/y - > v@2 by Listed@2"})
	same(t, "objects", held(store.List("")), []string{"a/x u@1", "a/y v@2"})
	if store.Version() != "5" {
		t.Errorf("the version is %s, want that of the list, 5", store.Version())
	}
}

func TestWhatIsToldBeforeTheFirstListIsVisibleAndThenThePartOfTheList(t *testing.T) {
	c, store := newCache(t)
	changes := c.Apply([]streams.Event{applied("a/kept", "1@1"), applied("a/changed", "2@2"), applied("a/gone", "3@3")})
	same(t, "changes before", formatted(changes), []string{
		"Added a/kept - > 1@1 by Applied@1", "Added a/changed - > 2@2 by Applied@2", "Added a/gone - > 3@3 by Applied@3",
	})
	if level := c.Level(); level != cache.Starting || store.Len() != 3 {
		t.Errorf("before the list the level is %v, with %d objects", level, store.Len())
	}
	changes = c.Apply(list("", "9", object("a/kept", "1@1"), object("a/changed", "2@8"), object("a/old", "4@4")))
	same(t, "changes", formatted(changes), []string{
		"Removed a/gone 3@3 > - by Listed@3", "Updated a/changed 2@2 > 2@8 by Listed@8", "Added a/old - > 4@4 by Listed@4",
	})
}

func TestARelistYieldsWhatWasMissed(t *testing.T) {
	c, store := newCache(t)
	c.Apply(list("", "5", object("a/gone", "1@1", "red"), object("a/kept", "2@2", "red"),
		object("a/again", "3@3", "red"), object("a/changed", "4@4", "red")))
	changes := c.Apply(list("", "9", object("a/kept", "2@2", "red"), object("a/again", "6@6", "blue"),
		object("a/changed", "4@7", "blue"), object("a/new", "8@8", "red")))

	same(t, "changes", formatted(changes), []string{
		"Removed a/again 3@3 > - by Listed@3",
		"Removed a/gone 1@1 > - by Listed@1",
		"Added a/again - > 6@6 by Listed@6",
		"Updated a/changed 4@4 > 4@7 by Listed@7",
		"Added a/new - > 8@8 by Listed@8",
	})
	for _, change := range changes {
		if change.Received != received || change.Causes[0].Key != change.Key {
			t.Errorf("%s was received at %v because of %v", change.Key, change.Received, change.Causes[0].Key)
		}
	}
	same(t, "red ones", held(store.ByIndex("app", "red")), []string{"a/kept 2@2", "a/new 8@8"})
	same(t, "blue ones", held(store.ByIndex("app", "blue")), []string{"a/again 6@6", "a/changed 4@7"})
	if counts := anomalies(store); len(counts) != 0 {
		t.Errorf("counted %v as odd", counts)
	}
}

func TestAListOlderThanAnEventLeavesWhatIsNewer(t *testing.T) {
	c, store := newCache(t)
	c.Apply(append(list("", "3", object("a/old", "o@2"), object("a/missed", "m@2")),
		applied("a/x", "u@9"), applied("a/old", "o@9"), applied("a/y", "v@9"), deleted("a/y", "v@10")))
	changes := c.Apply(list("", "8", object("a/old", "o@4"), object("a/y", "v@6"), object("a/z", "w@7")))
	same(t, "changes", formatted(changes), []string{"Removed a/missed m@2 > - by Listed@2", "Added a/z - > w@7 by Listed@7"})
	same(t, "objects", held(store.List("")), []string{"a/old o@9", "a/x u@9", "a/z w@7"})
	if counts := anomalies(store); !maps.Equal(counts, map[string]int64{"old_list": 1}) || store.Version() != "8" {
		t.Errorf("counted %v at version %s", counts, store.Version())
	}
}

func TestAListOfWhichEverythingIsInIsDropped(t *testing.T) {
	for name, newer := range map[string][]streams.Event{
		"than the list before": list("", "9", object("a/x", "u@2")),
		"than a bookmark":      append(list("", "5", object("a/x", "u@2")), bookmark("9")),
	} {
		t.Run(name, func(t *testing.T) {
			c, store := newCache(t)
			c.Apply(newer)
			version := store.Version()
			if changes := c.Apply(list("", "8", object("a/x", "u@1"), object("a/z", "w@7"))); len(changes) != 0 {
				t.Errorf("it changed %v", formatted(changes))
			}
			same(t, "objects", held(store.List("")), []string{"a/x u@2"})
			if counts := anomalies(store); !maps.Equal(counts, map[string]int64{"old_list": 1}) || store.Version() != version {
				t.Errorf("counted %v at version %s", counts, store.Version())
			}
		})
	}
}

func TestAListThatStartsAnewReplacesTheOneBefore(t *testing.T) {
	c, store := newCache(t)
	c.Apply(list("", "5", object("a/x", "u@1"), object("a/y", "v@2"))[:3])
	c.Apply(list("", "6", object("a/x", "u@1")))
	same(t, "objects", held(store.List("")), []string{"a/x u@1"})
	if changes := c.Apply([]streams.Event{event(streams.ListEnd, "7"), of(streams.Listed, object("a/z", "w@7"))}); len(changes) != 0 {
		t.Errorf("parts of no list changed %v", formatted(changes))
	}
}

func TestWhatAListDidNotHoldDoesNotComeBackLate(t *testing.T) {
	c, store := newCache(t)
	c.Apply(list("", "5", object("a/x", "u@1")))
	c.Apply(list("", "9"))
	changes := c.Apply([]streams.Event{applied("a/x", "u@8")})
	same(t, "changes", formatted(changes), []string{"Unchanged a/x - > - by Applied@8"})
	changes = c.Apply([]streams.Event{applied("a/x", "u@10")}) // The object is back in the selector.
	same(t, "changes", formatted(changes), []string{"Added a/x - > u@10 by Applied@10"})
	if counts := anomalies(store); !maps.Equal(counts, map[string]int64{"apply_after_delete": 1}) {
		t.Errorf("counted %v", counts)
	}
}

// Two lists alternate, and each object has the version of its list. A reader that saw a part of one
// list would find another number of objects or mixed versions.
func TestReadersNeverSeeAPartOfAList(t *testing.T) {
	c, store := newCache(t)
	const many = 200
	full := func(version int) []streams.Event {
		var objects []*metav1.PartialObjectMetadata
		for i := range many {
			objects = append(objects, object(fmt.Sprintf("a/%03d", i), fmt.Sprintf("%d@%d", i, version), "red"))
		}
		return list("", fmt.Sprint(version), objects...)
	}
	c.Apply(full(1))
	group := lifecycle.New(t.Context())
	for range 2 {
		group.Go("reader", func(ctx context.Context) error {
			for ctx.Err() == nil {
				for what, objects := range map[string][]streams.Object{"List": store.List("a"), "ByIndex": store.ByIndex("app", "red")} {
					if len(objects) != many {
						return fmt.Errorf("%s has %d objects", what, len(objects))
					}
					for _, object := range objects {
						if first := objects[0].GetResourceVersion(); object.GetResourceVersion() != first {
							return fmt.Errorf("%s has versions %s and %s", what, first, object.GetResourceVersion())
						}
					}
				}
			}
			return nil
		})
	}
	for version := 2; version < 60; version++ {
		events := full(version)
		c.Apply(events[:many/2])
		c.Apply(events[many/2:])
	}
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
