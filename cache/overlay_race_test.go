package cache_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watchful is an object that calls a function when it is asked for its namespace, as each read does many
// times. So a test can let the watch move on at any moment of a read.
type watchful struct {
	*metav1.PartialObjectMetadata
	asked func()
}

func (w *watchful) GetNamespace() string {
	w.asked()
	return w.PartialObjectMetadata.GetNamespace()
}

// An own write leaves the overlay when the watch has passed it. A read that began before that must find
// the object, wherever in the read this happens.
func TestAListHasAnOwnWriteAlthoughTheWatchPassesItDuringTheList(t *testing.T) {
	lists := map[string]func(*cache.Store) []streams.Object{
		"List":           func(s *cache.Store) []streams.Object { return s.List("") },
		"List of a":      func(s *cache.Store) []streams.Object { return s.List("a") },
		"ByIndex":        func(s *cache.Store) []streams.Object { return s.ByIndex("app", "red") },
		"List and a Get": func(s *cache.Store) []streams.Object { got(s, "a/x"); return s.List("") },
	}
	befores := map[string][]string{"created": nil, "recreated": {"t@4", "red"}, "changed": {"u@4", "red"}, "moved in the index": {"u@4", "blue"}}
	for by, list := range lists {
		for what, before := range befores {
			t.Run(fmt.Sprint(by, " of one that is ", what), func(t *testing.T) {
				moments := 0
				for at := 1; ; at++ {
					asked, armed := 0, false
					var c *cache.Cache
					watched := func(object *metav1.PartialObjectMetadata) *watchful {
						return &watchful{object, func() {
							if !armed {
								return
							}
							if asked++; asked == at {
								armed = false
								c.Apply([]streams.Event{of(streams.Applied, &watchful{object, func() {}})})
							}
						}}
					}
					var store *cache.Store
					c, store = synced(t)
					if before != nil {
						held := object("a/x", before[0], before[1])
						c.Apply([]streams.Event{of(streams.Applied, &watchful{held, func() {}})})
					}
					store.RecordWrite(watched(object("a/x", "u@6", "red")), time.Now(), time.Time{})
					armed = true
					found := list(store)
					if armed {
						break // The read is over before that moment.
					}
					moments++
					if len(found) != 1 {
						t.Errorf("the watch passes the write at moment %d, and the read finds %v", at, held(found))
					}
				}
				if moments == 0 {
					t.Error("the watch passed the write during no read")
				}
			})
		}
	}
}

// The scopes of a store say up to which version it has everything. A reader learns from them by the
// level, or by an own write that the watch has passed. What it learns it must then find, at every moment.
func TestWhatAScopePromisesIsVisibleAtEveryMomentOfABatch(t *testing.T) {
	for what, learn := range map[string]func(*cache.Cache, *cache.Store) bool{
		"an own write that has passed": func(_ *cache.Cache, s *cache.Store) bool {
			return s.RecordWrite(&watchful{object("a/x", "u@6"), func() {}}, time.Now(), time.Time{})
		},
		"the level":   func(c *cache.Cache, _ *cache.Store) bool { return c.Level() >= cache.Current },
		"the version": func(_ *cache.Cache, s *cache.Store) bool { return s.Version() == "7" },
	} {
		t.Run(what, func(t *testing.T) {
			for at := 1; ; at++ {
				c, store := synced(t)
				c.Apply([]streams.Event{{Type: streams.Connected, Key: streams.Key{GroupKind: store.Kind()}, ResourceVersion: "7", Received: time.Now()}})
				asked, armed := 0, true
				come := &watchful{object("a/x", "u@6"), func() {
					if asked++; armed && asked == at {
						armed = false
						if learn(c, store) && got(store, "a/x") != "u@6" {
							t.Errorf("at moment %d the store has seen version 7, and finds %s", at, got(store, "a/x"))
						}
					}
				}}
				c.Apply([]streams.Event{of(streams.Applied, come), bookmark("7")})
				if armed {
					if at == 1 {
						t.Error("nothing asks for the object's name")
					}
					break
				}
			}
			c, store := synced(t)
			c.Apply([]streams.Event{of(streams.Applied, &watchful{object("a/x", "u@6"), func() {}}), bookmark("7")})
			if !learn(c, store) {
				t.Error("nothing is learnt after the batch either")
			}
		})
	}
}
