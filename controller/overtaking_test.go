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

// The debounce holds back the echo of an own write to a busy object, and passes the later event of
// a quiet one. That event must not remove the own write from the cache.
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
			return events.ForEach(ctx, applied(made, debounced), func([]events.Change) {}, func(err error) { t.Error(err) })
		})
		emit := func(kinds events.EventType, object *corev1.Pod) {
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
		emit(events.ListStart, pod("", "1"))
		emit(events.ListEnd, pod("", "1"))
		emit(events.Applied, pod("busy", "2"))
		store.RecordWrite(pod("busy", "3"), time.Time{}, time.Time{})
		emit(events.Applied, pod("busy", "3"))
		emit(events.Applied, pod("quiet", "4"))
		if version("quiet") != "4" || version("busy") != "3" || made.Level() != cache.Current {
			t.Errorf("the quiet object is at %s, the busy one at %s, want 4 and 3, at level %v", version("quiet"), version("busy"), made.Level())
		}
		if !store.RecordWrite(pod("quiet", "4"), time.Time{}, time.Time{}) || store.RecordWrite(pod("busy", "3"), time.Time{}, time.Time{}) {
			t.Error("RecordWrite must report that the watch has passed the version of the quiet object, and not the one of the busy object")
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
