package cache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTheLevelRisesWithWhatIsKnown(t *testing.T) {
	c, store := newCache(t)
	check := func(when string, want cache.Level) {
		t.Helper()
		if level := c.Level(); level != want {
			t.Errorf("%s the level is %v, want %v", when, level, want)
		}
	}
	check("at first", cache.Starting)
	events := list("9", "7", object("a/x", "u@6"))
	c.Apply(events[:2])
	check("during the list", cache.Starting)
	c.Apply(events[2:])
	check("after a list older than what the server reported", cache.Listed)
	c.Apply([]streams.Event{bookmark("8")})
	check("after a bookmark before that", cache.Listed)
	c.Apply([]streams.Event{applied("a/y", "v@10")}) // It may have overtaken earlier events.
	check("after an event behind that", cache.Listed)
	c.Apply([]streams.Event{bookmark("9")})
	check("after a bookmark of that version", cache.OwnWritesVisible)
	wrote(store, "a/z", "w@11")
	check("after an own write", cache.Current)
	c.Apply([]streams.Event{applied("a/z", "w@11")})
	check("after its echo", cache.OwnWritesVisible)
	c.Settle(0)
	check("when all is calm", cache.Settled)
	wrote(store, "a/z", "w@12")
	check("after an own write during the calm", cache.Current)
	c.MarkActive()
	c.Apply([]streams.Event{applied("a/z", "w@12")})
	check("when calm has ended", cache.OwnWritesVisible)
}

func TestAListAsNewAsTheServerReportedIsCurrent(t *testing.T) {
	for _, version := range []string{"9", "10"} {
		c, _ := newCache(t)
		c.Apply(list("9", version))
		if level := c.Level(); level != cache.OwnWritesVisible {
			t.Errorf("after a list at %s of what was at 9 the level is %v", version, level)
		}
	}
}

func TestAListThatHasNoVersionToReachIsCurrent(t *testing.T) {
	c, _ := newCache(t)
	check := func(when string, want cache.Level) {
		t.Helper()
		if level := c.Level(); level != want {
			t.Errorf("%s the level is %v, want %v", when, level, want)
		}
	}
	events := list("", "7", object("a/x", "u@6"))
	c.Apply(events[:2])
	check("during the list", cache.Starting)
	c.Apply(events[2:])
	check("after the list", cache.OwnWritesVisible)
	c.Apply(list("9", "8"))
	check("after a list that is not current", cache.Listed)
	c.Apply(list("", "8")) // Only the list before it had a version to reach.
	check("after another without a version", cache.OwnWritesVisible)
	c.Apply([]streams.Event{event(streams.Disconnected, "")})
	check("without the server", cache.Listed)
	c.Apply(list("", "9"))
	check("after a list on its return", cache.OwnWritesVisible)
}

func TestTheLevelIsThatOfTheSlowestKind(t *testing.T) {
	c, _ := newCache(t)
	jobs := schema.GroupKind{Group: "batch", Kind: "Job"}
	c.Add(jobs)
	c.Settle(0)
	c.Apply(list("", "5"))
	if level := c.Level(); level != cache.Starting {
		t.Errorf("with one kind of two the level is %v", level)
	}
	same(t, "pending", c.Pending(cache.Listed), []string{"Job.batch"})
	events := list("9", "7")
	for i := range events {
		events[i].Key.GroupKind = jobs
	}
	c.Apply(events)
	if level := c.Level(); level != cache.Listed {
		t.Errorf("with a list that is not current the level is %v", level)
	}
	same(t, "pending for Listed", c.Pending(cache.Listed), nil)
	same(t, "pending for Settled", c.Pending(cache.Settled), []string{"Job.batch"})
}

func TestACacheWithoutKindsStaysAtItsStart(t *testing.T) {
	made, err := cache.New(cache.LoopOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	made.Settle(0)
	if level := made.Level(); level != cache.Starting {
		t.Errorf("the level is %v", level)
	}
}

func TestLevelsHaveNames(t *testing.T) {
	var names []string
	for level := cache.Starting; level <= cache.Converged+1; level++ {
		text, err := level.MarshalText()
		if err != nil || string(text) != level.String() {
			t.Errorf("%v is %s in text: %v", level, text, err)
		}
		names = append(names, level.String())
	}
	same(t, "names", names, []string{"Starting", "Listed", "Current", "OwnWritesVisible", "Settled", "Converged", "Unknown"})
}

func TestWaitReturnsAtTheLevelAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newCache(t)
		group := lifecycle.New(t.Context())
		returned := false
		group.Go("wait", func(ctx context.Context) error {
			err := c.Wait(ctx, cache.Current)
			returned = true
			return err
		})
		for _, events := range [][]streams.Event{list("9", "7"), {bookmark("8")}} {
			c.Apply(events)
			synctest.Wait()
			if returned {
				t.Fatalf("it returned at level %v", c.Level())
			}
		}
		c.Apply([]streams.Event{bookmark("9")})
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		if err := c.Wait(t.Context(), cache.Listed); err != nil {
			t.Errorf("waiting for a level that is reached fails: %v", err)
		}
	})
}

func TestWaitEndsWithItsContextAndSaysWhereItStood(t *testing.T) {
	c, _ := newCache(t)
	c.Apply(list("9", "7"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	err := c.Wait(ctx, cache.Current)
	if !errors.Is(err, cause) || !strings.Contains(fmt.Sprint(err), "whose level is Listed") {
		t.Errorf("the error is %v", err)
	}
}

// Each change of the level waits until all receivers have read the one before.
func TestEachObserverOfLevelsGetsEachChangeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := newCache(t)
		levels := c.Levels()
		group := lifecycle.New(t.Context())
		observers := make([][]cache.Level, 2)
		for i := range observers {
			group.Go("observer", func(ctx context.Context) error {
				return streams.ForEach(ctx, levels,
					func(batch []cache.Level) { observers[i] = append(observers[i], batch...) },
					func(err error) { t.Errorf("levels fail: %v", err) })
			})
		}
		for _, step := range []func(){
			func() {},
			func() { c.Apply(list("9", "7")) },
			func() { c.Apply([]streams.Event{applied("a/x", "u@8")}) }, // The level stays the same.
			func() { c.Apply([]streams.Event{bookmark("9")}) },
			func() { wrote(store, "a/x", "u@10") },
			func() { c.Apply([]streams.Event{applied("a/x", "u@10")}) },
			func() { c.Settle(0) },
			func() { c.Settle(0) },
			func() { c.MarkActive() },
		} {
			step()
			synctest.Wait()
		}
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		want := []cache.Level{cache.Starting, cache.Listed, cache.OwnWritesVisible, cache.Current, cache.OwnWritesVisible, cache.Settled, cache.OwnWritesVisible}
		for i, got := range observers {
			if !slices.Equal(got, want) {
				t.Errorf("observer %d got %v, want %v", i, got, want)
			}
		}
	})
}

func TestLevelsGoesOnFromWhereTheCacheIs(t *testing.T) {
	c, _ := newCache(t)
	c.Apply(list("", "5"))
	ctx, cancel := context.WithCancel(t.Context())
	var got []cache.Level
	err := streams.ForEach(ctx, c.Levels(), func(batch []cache.Level) {
		got = append(got, batch...)
		cancel()
	}, func(err error) { t.Error(err) })
	if err != nil || !slices.Equal(got, []cache.Level{cache.OwnWritesVisible}) {
		t.Errorf("got %v and %v", got, err)
	}
}

// A receiver that stalls must not make the writer wait.
func TestAReceiverOfLevelsThatStallsGetsTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newCache(t)
		ctx, cancel := context.WithCancel(t.Context())
		items := c.Levels().Observe(ctx)
		c.Apply(list("", "5"))
		for i := range 100 {
			if i%2 == 0 {
				c.Settle(0)
			} else {
				c.MarkActive()
			}
			synctest.Wait()
		}
		c.Settle(0)
		synctest.Wait()
		var last cache.Level
		for range 100 {
			select {
			case item := <-items:
				batch, err := streams.Values[cache.Level](item)
				if err != nil {
					t.Error(err)
				}
				last = batch[len(batch)-1]
			default:
			}
			synctest.Wait()
		}
		if last != cache.Settled {
			t.Errorf("the last level is %v, want Settled", last)
		}
		cancel()
		for range items { //nolint:revive // Until its end.
		}
	})
}

func TestACalmThatIsTooYoungIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newCache(t)
		c.Apply(list("", "5"))
		<-time.After(99 * time.Millisecond)
		if c.Settle(100*time.Millisecond) || c.Level() == cache.Settled {
			t.Error("it is settled 99 ms after the last event, want 100 ms")
		}
		<-time.After(time.Millisecond)
		if !c.Settle(100*time.Millisecond) || c.Level() != cache.Settled {
			t.Error("it is not settled after 100 ms")
		}
		c.Apply([]streams.Event{bookmark("6")})
		if c.Level() != cache.Settled {
			t.Error("a bookmark has ended the calm")
		}
		c.Apply([]streams.Event{applied("a/x", "u@7")})
		if level := c.Level(); level != cache.OwnWritesVisible {
			t.Errorf("with an event that readers see the level is %v", level)
		}
	})
}
