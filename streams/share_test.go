package streams_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
	"pgregory.net/rapid"
)

// latest returns options whose snapshot is the last published value.
func latest(buffer int) streams.ShareOptions[int, []int] {
	return streams.ShareOptions[int, []int]{
		Fold:   func(_, batch []int) []int { return batch[len(batch)-1:] },
		Replay: slices.Clone[[]int],
		Buffer: buffer,
	}
}

// manual creates a stream that forwards the steps of a channel: []int or an error.
func manual(steps <-chan any, observations, running *atomic.Int32) streams.Stream[int] {
	return streams.Create(func(ctx context.Context, out streams.Sink[int]) {
		observations.Add(1)
		if running.Add(1) > 1 {
			panic("two observations overlap")
		}
		defer running.Add(-1)
		for {
			select {
			case <-ctx.Done():
				<-time.After(time.Second) // The input is slow to end.
				return
			case step, open := <-steps:
				switch step := step.(type) {
				case []int:
					out.Send(step)
				case error:
					out.Error(step)
				}
				if !open {
					return
				}
			}
		}
	})
}

// shared is a Share over a manual stream.
type shared struct {
	steps                 chan any
	observations, running atomic.Int32
	stream                streams.Stream[int]
}

func newShared(options streams.ShareOptions[int, []int]) *shared {
	s := &shared{steps: make(chan any)}
	s.stream = streams.Share(manual(s.steps, &s.observations, &s.running), options)
	return s
}

func (s *shared) send(steps ...any) {
	for _, step := range steps {
		s.steps <- step
	}
	synctest.Wait()
}

// there returns the items that wait in the channel of an observation.
func there(items <-chan rxgo.Item) (values []string) {
	synctest.Wait()
	for len(items) > 0 {
		values = append(values, taken[int](<-items))
		synctest.Wait()
	}
	return values
}

func TestALateObserverOfAShareGetsASnapshotAndTheTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(latest(100))
		first := s.stream.Observe(t.Context())
		synctest.Wait()
		s.send([]int{1, 2}, errFirst, []int{3})
		second := s.stream.Observe(t.Context())
		synctest.Wait()
		s.send([]int{4}, errSecond)
		close(s.steps)
		if got, want := there(first), []string{"[1 2]", "!first", "[3]", "[4]", "!second"}; !slices.Equal(got, want) {
			t.Errorf("the first got %v, want %v", got, want)
		}
		if got, want := there(second), []string{"[3]", "[4]", "!second"}; !slices.Equal(got, want) {
			t.Errorf("the second got %v, want %v", got, want)
		}
		if got := s.observations.Load(); got != 1 {
			t.Errorf("the input was observed %d times", got)
		}
	})
}

func TestWithoutFoldALateObserverOfAShareGetsTheTailOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(streams.ShareOptions[int, []int]{})
		first := s.stream.Observe(t.Context())
		synctest.Wait()
		s.send([]int{1})
		second := s.stream.Observe(t.Context())
		synctest.Wait()
		s.send([]int{2})
		close(s.steps)
		if got, want := fmt.Sprint(there(first), there(second)), "[[1] [2]] [[2]]"; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestAStuckObserverOfAShareChangesNothingForTheOthersAndIsResynchronised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(latest(4))
		stuck := s.stream.Observe(t.Context())
		quick := s.stream.Observe(t.Context())
		var want []string
		for i := range 100 {
			s.send([]int{i})
			if got := there(quick); !slices.Equal(got, []string{fmt.Sprintf("[%d]", i)}) {
				t.Fatalf("got %v after sending %d", got, i)
			}
		}
		s.send(errFirst)
		there(quick)
		// The channel of the stuck observer holds 8 items, and its goroutine waits with the ninth.
		for i := range 9 {
			want = append(want, fmt.Sprintf("[%d]", i))
		}
		want = append(want, "!"+(&streams.Lagged{Missed: 91, Errors: 1}).Error(), "[99]")
		if got := there(stuck); !slices.Equal(got, want) {
			t.Errorf("the stuck one got %v, want %v", got, want)
		}
		s.send([]int{100}, errSecond)
		close(s.steps)
		if got, want := there(stuck), []string{"[100]", "!second"}; !slices.Equal(got, want) {
			t.Errorf("afterwards the stuck one got %v, want %v", got, want)
		}
		there(quick)
	})
}

func TestAShareWhoseObserversAreAllSlowKeepsItsInputWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var published atomic.Int32
		shared := streams.Share(streams.MapOnReceive(endless(), func(batch []int) ([]int, error) {
			published.Add(int32(len(batch)))
			return batch, nil
		}), streams.ShareOptions[int, []int]{Buffer: 4})
		ctx, cancel := context.WithCancel(t.Context())
		stuck := shared.Observe(ctx)
		synctest.Wait()
		fast := shared.Observe(ctx) // Begins when the stuck observer blocks the input.
		synctest.Wait()
		before := published.Load()
		var got []int
		for range 1000 {
			item := <-fast
			batch, err := streams.Values[int](item)
			if err != nil {
				t.Fatalf("the faster one lost values: %v", err)
			}
			got = append(got, batch...)
		}
		for i, value := range got {
			if value != got[0]+i {
				t.Fatalf("value %d is %d, want %d", i, value, got[0]+i)
			}
		}
		synctest.Wait()
		if before > 200 || int(published.Load()) > int(before)+len(got)+200 {
			t.Errorf("%d values left the input, then %d, of which %d were read", before, published.Load(), len(got))
		}
		cancel()
		there(stuck)
	})
}

func TestAShareOutlivesItsFirstObserverAndEndsWithItsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(latest(100))
		firstCtx, leaveFirst := context.WithCancel(t.Context())
		secondCtx, leaveSecond := context.WithCancel(t.Context())
		first, second := s.stream.Observe(firstCtx), s.stream.Observe(secondCtx)
		synctest.Wait()
		leaveFirst()
		there(first)
		s.send([]int{1})
		if got := there(second); !slices.Equal(got, []string{"[1]"}) {
			t.Errorf("after the first had left, the second got %v", got)
		}
		leaveSecond()
		synctest.Wait()
		if s.running.Load() != 1 {
			t.Error("the input has already ended, which takes a second")
		}
		third := s.stream.Observe(t.Context()) // Waits for the input to end.
		if _, open := <-second; open || s.running.Load() != 0 && s.observations.Load() == 1 {
			t.Error("the last observation ended before the input")
		}
		synctest.Wait()
		s.send([]int{2})
		if got := there(third); !slices.Equal(got, []string{"[2]"}) || s.observations.Load() != 2 {
			t.Errorf("the third, of observation %d, got %v; nothing of the first may be left", s.observations.Load(), got)
		}
		close(s.steps)
	})
}

func TestAnObserverThatWaitsForTheEndOfAShareCanLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(latest(100))
		ctx, leave := context.WithCancel(t.Context())
		first := s.stream.Observe(ctx)
		synctest.Wait()
		leave()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		for range s.stream.Observe(short) { //nolint:revive // Until it is closed.
		}
		if waited := time.Since(start); waited != time.Millisecond {
			t.Errorf("the observer left after %v, want 1ms", waited)
		}
		for range first { //nolint:revive // Virtual time stops when the test has returned.
		}
	})
}

func TestAPanicOfReplayEndsOnlyTheObservationItIsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := latest(100)
		options.Replay = func(state []int) []int {
			if len(state) > 0 && state[0] == 1 {
				panic("broken")
			}
			return slices.Clone(state)
		}
		s := newShared(options)
		first := s.stream.Observe(t.Context())
		synctest.Wait()
		s.send([]int{1})
		if got := flat(t.Context(), s.stream); !slices.Equal(got, []string{"!panic: broken"}) {
			t.Errorf("got %v", got)
		}
		s.send([]int{2})
		close(s.steps)
		if got := there(first); !slices.Equal(got, []string{"[1]", "[2]"}) {
			t.Errorf("the other one got %v", got)
		}
	})
}

func TestShareRefusesOptionsThatMakeNoSense(t *testing.T) {
	noReplay, negative, huge := latest(1), latest(-1), latest(1<<20+1)
	noReplay.Replay = nil
	for want, options := range map[string]streams.ShareOptions[int, []int]{
		"streams.Share: Fold and Replay must be set both or not at all": noReplay,
		"streams.Share: Buffer must be 1 to 1048576, not -1":            negative,
		"streams.Share: Buffer must be 1 to 1048576, not 1048577":       huge,
	} {
		err := lifecycle.Guard(func() error { streams.Share(streams.Of(1), options); return nil })
		if err == nil || err.Error() != "panic: "+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// keyed is a value of a key. Values are numbered in order of publication.
type keyed struct{ key, number int }

// TestObserversOfAShareAgreeWithAModel observes at random times and paces. The values that an
// observer gets must add up to the final state of the input. Between two snapshots it must get every
// value, in order.
func TestObserversOfAShareAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		batches := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 5), 1, 6), 1, 60).Draw(rt, "keys of batches")
		paces := rapid.SliceOfN(rapid.IntRange(0, 12), 1, 5).Draw(rt, "milliseconds an observer takes for an item")
		starts := rapid.SliceOfN(rapid.IntRange(0, 40), len(paces), len(paces)).Draw(rt, "when observers start")
		buffer := rapid.IntRange(1, 12).Draw(rt, "buffer")
		failures := rapid.IntRange(2, 9).Draw(rt, "an error every so many batches")
		synctest.Test(t, func(t *testing.T) {
			model := map[int]keyed{}
			number := 0
			var steps []any
			for i, keys := range batches {
				var batch []keyed
				for _, key := range keys {
					number++
					batch = append(batch, keyed{key, number})
					model[key] = keyed{key, number}
				}
				steps = append(steps, batch, time.Millisecond)
				if i%failures == 0 {
					steps = append(steps, fmt.Errorf("error %d", i))
				}
			}
			steps = append(steps, 100*time.Millisecond) // All observers have started.
			shared := streams.Share(script[keyed](steps...), streams.ShareOptions[keyed, map[int]keyed]{
				Fold: func(state map[int]keyed, batch []keyed) map[int]keyed {
					if state == nil {
						state = map[int]keyed{}
					}
					for _, value := range batch {
						state[value.key] = value
					}
					return state
				},
				Replay: func(state map[int]keyed) []keyed { return slices.Collect(maps.Values(state)) },
				Buffer: buffer,
			})
			group := lifecycle.New(t.Context())
			all := -1
			if buffer > 6 {
				all = number // The values of one instant fit, so an observer that keeps pace gets all.
			}
			group.Go("first", func(ctx context.Context) error {
				return checkShared(ctx, shared, 0, model, all)
			})
			for i, pace := range paces {
				group.Go("observer", func(ctx context.Context) error {
					wait(ctx, time.Duration(starts[i])*time.Millisecond+time.Microsecond)
					return checkShared(ctx, shared, time.Duration(pace)*time.Millisecond, model, -1)
				})
			}
			if err := group.Wait(); err != nil {
				rt.Error(err)
			}
		})
	})
}

// checkShared observes a stream and compares it with the model. Unless all is negative, exactly that
// many values must come, and the observer must not lag.
func checkShared(ctx context.Context, shared streams.Stream[keyed], pace time.Duration, model map[int]keyed, all int) error {
	state := map[int]keyed{}
	last, got, lagged := 0, 0, 0
	snapshot := true // A batch after the start or a Lagged is a snapshot, in any order.
	var failure error
	err := streams.ForEach(ctx, shared, func(batch []keyed) {
		for _, value := range batch {
			switch {
			case snapshot:
				last = max(last, value.number)
			case value.number != last+1:
				failure = errors.Join(failure, fmt.Errorf("%v came after %d", value, last))
			default:
				last = value.number
			}
			state[value.key] = value
		}
		got += len(batch)
		snapshot = false
		wait(ctx, pace)
	}, func(err error) {
		var lag *streams.Lagged
		if errors.As(err, &lag) {
			lagged++
			snapshot = true
			if lag.Missed+lag.Errors <= 0 {
				failure = errors.Join(failure, err)
			}
		}
		wait(ctx, pace)
	})
	if all >= 0 && (got != all || lagged > 0) {
		failure = errors.Join(failure, fmt.Errorf("got %d of %d values, lagged %d times", got, all, lagged))
	}
	if !maps.Equal(state, model) {
		failure = errors.Join(failure, fmt.Errorf("ended with %v, want %v", state, model))
	}
	return errors.Join(err, failure)
}

func TestWhatAnObserverOfAShareLeavesUnreadKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(latest(4))
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		s.stream.Observe(ctx)
		quick := s.stream.Observe(t.Context())
		for i := range 50 {
			if i == 25 {
				leave()
			}
			s.send([]int{i})
			if got := there(quick); !slices.Equal(got, []string{fmt.Sprintf("[%d]", i)}) {
				t.Fatalf("got %v after sending %d", got, i)
			}
		}
		close(s.steps)
	})
}
