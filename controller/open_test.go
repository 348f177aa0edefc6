package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// delayed returns a stage that holds each batch back for a time, and counts what it holds.
func delayed(by time.Duration) controller.Stage {
	stats := &operators.StageStats{}
	return controller.Stage{Name: "delay", Stats: stats, Run: func(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
		return streams.Create(func(ctx context.Context, out streams.Sink[streams.Event]) {
			_ = streams.ForEach(ctx, events, func(batch []streams.Event) {
				stats.Running.Add(1)
				defer stats.Running.Add(-1)
				stats.In.Add(int64(len(batch)))
				<-time.After(by)
				sent := int64(len(batch))
				out.Send(batch)
				stats.Out.Add(sent)
			}, func(err error) { out.Error(err) })
		})
	}}
}

func TestNothingIsSettledWhileAnEventIsInsideAStageOfTheUsersOwn(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{Stages: []controller.Stage{delayed(10 * time.Second)}}, func(w *levelWorld) {
		w.create("x")
		w.begin()
		w.reach(cache.Settled, time.Hour)
		w.isTrue("at the start")
		w.change("x")
		w.wait(5 * time.Second)
		w.below(cache.Settled, "while the stage holds a change")
		if pending := w.manager.Cache().Pending(cache.Settled); !slices.ContainsFunc(pending, func(of string) bool { return strings.HasPrefix(of, "delay") }) {
			t.Errorf("the manager waits for %q, want also for the stage", pending)
		}
		w.reach(cache.Settled, time.Hour)
		w.isTrue("after the change")
	})
}

func TestAStageOfTheUsersOwnChangesWhatTheCacheHolds(t *testing.T) {
	redact := controller.Stage{Name: "redact", Run: func(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
		return streams.MapOnReceive(events, func(batch []streams.Event) ([]streams.Event, error) {
			for i := range batch {
				if object, ok := batch[i].Object.(*corev1.ConfigMap); ok {
					redacted := object.DeepCopy()
					redacted.Data = nil
					batch[i].Object = redacted
				}
			}
			return batch, nil
		})
	}}
	inLevelWorld(t, sourcestest.Options{}, controller.Options{Stages: []controller.Stage{redact}}, func(w *levelWorld) {
		w.create("x")
		w.change("x")
		w.begin()
		w.reach(cache.Converged, time.Minute)
		object, found := cached[*corev1.ConfigMap](w.manager.Client(), types.NamespacedName{Namespace: "a", Name: "x"})
		if !found || object.Data != nil {
			t.Errorf("the cache holds %v, want the object without data", object)
		}
	})
}

func TestAStageThatIsWrongIsRefused(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		_, err := controller.NewManager(w.server.Config(), nil, controller.Options{Stages: []controller.Stage{{Name: "cache", Run: delayed(0).Run}}})
		if err == nil || !strings.Contains(err.Error(), `a stage of Stages has the name "cache" of another stage; give it a name of its own`) {
			t.Errorf("the error is %v", err)
		}
	})
}

// object names an object of the namespace of these tests.
func object(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "a", Name: name}
}

func TestATimerFeedsAController(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		ticks := streams.MapOnReceive(sources.Interval(time.Hour), func(due []time.Time) ([]types.NamespacedName, error) {
			return slices.Repeat([]types.NamespacedName{object("x")}, len(due)), nil
		})
		w.create("x")
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{}), controller.From("timer", ticks)))
		w.run()
		w.reach(cache.Converged, time.Minute)
		before := w.count()
		w.wait(5*time.Hour + time.Minute)
		if got := w.count() - before; got != 5 {
			t.Errorf("there were %d attempts in five hours, want 5", got)
		}
		w.reach(cache.Converged, time.Minute)
		w.must(w.manager.Remove(w.t.Context(), "configs"))
		w.wait(3 * time.Hour)
		if got := w.count() - before; got != 5 {
			t.Errorf("there were %d attempts, want none after the controller was removed", got-5)
		}
	})
}

func TestAnObservableFeedsAControllerThatIsAddedLater(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.begin()
		w.reach(cache.Converged, time.Minute)
		observable := streams.Of(object("x"), object("y")).Observable()
		var mu sync.Mutex
		var got []string
		w.must(w.manager.Add("fed", func(_ context.Context, request operators.Request) (time.Duration, error) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, request.Name)
			return 0, nil
		}, controller.For(&corev1.ConfigMap{}), controller.From("observable", streams.From[types.NamespacedName](observable))))
		w.wait(time.Minute)
		mu.Lock()
		slices.Sort(got)
		if !slices.Equal(got, []string{"x", "y"}) {
			t.Errorf("%v were reconciled, want x and y", got)
		}
		mu.Unlock()
		w.reach(cache.Converged, time.Minute)
	})
}

func TestAFeedThatPanicsIsObservedAgainAfterABackoff(t *testing.T) {
	var observed atomic.Int64
	feed := streams.Create(func(ctx context.Context, out streams.Sink[types.NamespacedName]) {
		if times := observed.Add(1); times < 4 {
			panic(fmt.Sprint("bus ", times))
		}
		out.Send([]types.NamespacedName{object("x")})
		<-ctx.Done()
	})
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{}), controller.From("bus", feed)))
		w.run()
		w.wait(5 * time.Second)
		if w.count() != 0 || observed.Load() > 3 {
			t.Errorf("there are %d attempts after %d observations: the backoff is too short", w.count(), observed.Load())
		}
		w.wait(15 * time.Second)
		w.reach(cache.Converged, time.Minute)
		if w.count() != 1 || observed.Load() != 4 || len(w.failed) != 3 || !strings.Contains(w.failed[2].Error(), "bus 3") {
			t.Errorf("there are %d attempts and the failures %v after %d observations", w.count(), w.failed, observed.Load())
		}
		w.must(w.manager.Remove(w.t.Context(), "configs"))
		w.wait(time.Hour)
		if observed.Load() != 4 {
			t.Errorf("the feed of a controller that was removed is observed %d times", observed.Load())
		}
	})
}

func TestAnErrorOfAFeedIsReportedAndDoesNotEndIt(t *testing.T) {
	broken := errors.New("broken")
	feed := streams.Create(func(ctx context.Context, out streams.Sink[types.NamespacedName]) {
		out.Error(broken)
		out.Send([]types.NamespacedName{object("x")})
		<-ctx.Done()
	})
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{}), controller.From("bus", feed)))
		w.run()
		w.reach(cache.Converged, time.Minute)
		if w.count() != 1 || len(w.failed) != 1 || !errors.Is(w.failed[0], broken) || !strings.Contains(w.failed[0].Error(), "From bus") {
			t.Errorf("there were %d attempts and the errors %v, want one attempt and one error that names the stream", w.count(), w.failed)
		}
		if err := w.manager.Add("nameless", w.noting, controller.For(&corev1.ConfigMap{}), controller.From("", feed)); err == nil {
			t.Error("a stream without a name was taken")
		}
	})
}

// A stream that floods a controller ends with it, and lets others work.
func TestAFeedThatFloodsLetsOthersWorkAndEnds(t *testing.T) {
	flood := streams.Create(func(_ context.Context, out streams.Sink[types.NamespacedName]) {
		for i := 0; ; i++ {
			if !out.Send([]types.NamespacedName{object(fmt.Sprint("flood-", i%100))}) {
				return
			}
			if i%100 == 0 {
				<-time.After(time.Millisecond)
			}
		}
	})
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.begin()
		w.must(w.manager.Add("flooded", func(context.Context, operators.Request) (time.Duration, error) { return 0, nil },
			controller.For(&corev1.ConfigMap{}), controller.From("flood", flood)))
		w.wait(100 * time.Millisecond)
		w.create("x")
		w.wait(100 * time.Millisecond)
		w.mu.Lock()
		_, read := w.read["x"]
		w.mu.Unlock()
		if !read {
			t.Error("another controller's object was not reconciled within 100 ms")
		}
		w.below(cache.Settled, "while requests pour in")
		w.must(w.manager.Remove(w.t.Context(), "flooded"))
		w.reach(cache.Converged, time.Minute)
	})
}

func TestManyFollowTheOpenEndsOfAManager(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		followers := lifecycle.New(w.t.Context())
		var events, changes []string
		var results, levels atomic.Int64
		for range 3 {
			followers.Go("results", func(ctx context.Context) error {
				return streams.ForEach(ctx, w.manager.Results(), func(batch []operators.Result) { results.Add(int64(len(batch))) }, func(error) {})
			})
		}
		followers.Go("events", func(ctx context.Context) error {
			return streams.ForEach(ctx, w.manager.Events(), func(batch []streams.Event) {
				for _, event := range batch {
					events = append(events, event.Type.String()+" "+event.Key.Name)
				}
			}, func(error) {})
		})
		followers.Go("changes", func(ctx context.Context) error {
			return streams.ForEach(ctx, w.manager.Changes(), func(batch []streams.Change) {
				for _, change := range batch {
					changes = append(changes, change.Type.String()+" "+change.Key.Name)
				}
			}, func(error) {})
		})
		followers.Go("stalled", func(ctx context.Context) error {
			return streams.ForEach(ctx, w.manager.Results(), func([]operators.Result) { <-ctx.Done() }, func(error) {})
		})
		ctx, stop := context.WithCancel(w.t.Context())
		followers.Go("levels", func(context.Context) error {
			return streams.ForEach(ctx, w.manager.Levels(), func(batch []cache.Level) { levels.Add(int64(len(batch))) }, func(error) {})
		})
		synctest.Wait()
		w.create("x")
		w.begin()
		w.reach(cache.Converged, time.Minute)
		synctest.Wait() // Otherwise the next change may come before the observers of levels have seen this one.
		for range 3000 {
			w.change("x")
			w.wait(50 * time.Millisecond)
		}
		w.reach(cache.Converged, time.Minute)
		synctest.Wait()
		w.isTrue("at the end")
		stop()
		w.group.Stop()
		_ = w.group.Wait()
		followers.Stop() // Only the stalled one needs it: the others end with the manager.
		if err := followers.Wait(); err != nil {
			t.Error(err)
		}
		if results.Load() != 3*3001 || levels.Load() < 4 {
			t.Errorf("three observers got %d results and another %d levels, want 9003 and some", results.Load(), levels.Load())
		}
		if !slices.Contains(events, "Listed x") || !slices.Contains(events, "Applied x") || changes[0] != "Added x" || len(changes) != 3001 {
			t.Errorf("got %d events and %d changes, want all of them", len(events), len(changes))
		}
	})
}

func TestTheHotStreamsEndWithRunWhileTheyAreObserved(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		var ended atomic.Int32
		followers := lifecycle.New(w.t.Context())
		defer followers.Stop()
		observe := func() {
			follow(followers, w.manager.Events(), &ended)
			follow(followers, w.manager.Changes(), &ended)
			follow(followers, w.manager.Results(), &ended)
			follow(followers, w.manager.Levels(), &ended)
		}
		observe() // Before Run.
		w.create("x")
		w.begin()
		w.reach(cache.Converged, time.Minute)
		observe()
		w.wait(time.Minute)
		if ended.Load() > 0 {
			t.Errorf("%d observations ended while the manager runs", ended.Load())
		}
		w.group.Stop()
		w.must(w.group.Wait())
		observe() // After Run.
		synctest.Wait()
		if ended.Load() != 12 {
			t.Errorf("%d of 12 observations have ended when Run has returned", ended.Load())
		}
		followers.Stop()
		w.must(followers.Wait())
	})
}

// follow observes a stream to its end, and counts the end.
func follow[T any](group *lifecycle.Group, stream streams.Stream[T], ended *atomic.Int32) {
	group.Go("observer", func(ctx context.Context) error {
		defer ended.Add(1)
		return streams.ForEach(ctx, stream, func([]T) {}, func(error) {})
	})
}

// Nothing can go on behind a stage that panicked, so Run must not go on without it.
func TestAStageThatPanicsEndsTheManagerWithItsError(t *testing.T) {
	broken := controller.Stage{Name: "broken", Run: func(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
		return streams.MapOnReceive(events, func([]streams.Event) ([]streams.Event, error) { panic("broken stage") })
	}}
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{
			Stages: []controller.Stage{broken}, OnError: func(error) {}, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := manager.Add("idle", func(context.Context, operators.Request) (time.Duration, error) { return 0, nil }, controller.For(&corev1.ConfigMap{})); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := manager.Run(ctx); err == nil || !strings.Contains(err.Error(), "broken stage") {
			t.Errorf("Run returned %v, want the panic of the stage", err)
		}
	})
}
