package controller_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	events "github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The debounce holds the echo of an own write to a busy object back, and lets the later
// event of a quiet one pass. That one must not take the own write away from readers.
func TestABusyObjectThatAQuietOneOvertakesKeepsItsOwnWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, err := cache.New(cache.LoopOptions{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		kind := schema.GroupKind{Kind: "Pod"}
		store := made.Add(kind)
		inlet := events.NewQueue[events.Event]()
		source := events.Create(func(ctx context.Context, out events.Sink[events.Event]) { inlet.Drain(ctx, out) })
		group := lifecycle.New(t.Context())
		group.Go("pipeline", func(ctx context.Context) error {
			debounced := operators.Debounce(source, operators.DebounceOptions{Window: time.Second})
			return events.ForEach(ctx, made.Through(debounced), func([]events.Change) {}, func(err error) { t.Error(err) })
		})
		tell := func(kinds events.EventType, object *corev1.Pod) {
			event := events.Event{Type: kinds, Source: "test", Key: events.Key{GroupKind: kind}, ResourceVersion: object.ResourceVersion}
			if kinds == events.Applied {
				event.Key, event.Object = events.KeyOf(kind, object), object
			}
			inlet.Put(t.Context(), event)
			synctest.Wait()
		}
		version := func(name string) string {
			held, found := store.Get(types.NamespacedName{Namespace: "a", Name: name})
			if !found {
				return "none"
			}
			return held.GetResourceVersion()
		}
		tell(events.ListStart, pod("", "1"))
		tell(events.ListEnd, pod("", "1"))
		tell(events.Applied, pod("busy", "2"))
		store.RecordWrite(pod("busy", "3"), time.Time{})
		tell(events.Applied, pod("busy", "3"))
		tell(events.Applied, pod("quiet", "4"))
		if version("quiet") != "4" || version("busy") != "3" || made.Level() != cache.Current {
			t.Errorf("the quiet object is at %s, the busy one at %s, want 4 and 3, at level %v", version("quiet"), version("busy"), made.Level())
		}
		if !store.RecordWrite(pod("quiet", "4"), time.Time{}) || store.RecordWrite(pod("busy", "3"), time.Time{}) {
			t.Error("an answer that comes now is taken for what the watch has passed, or not")
		}
		<-time.After(time.Second)
		synctest.Wait()
		if version("busy") != "3" || made.Level() != cache.OwnWritesVisible {
			t.Errorf("after the window the busy object is at %s, at level %v", version("busy"), made.Level())
		}
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}
