package streams_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
)

// reading observes a stream until stop, and collects the items that it received so far.
type reading struct {
	t     *testing.T
	group *lifecycle.Group
	mu    sync.Mutex
	came  []string
}

func read(t *testing.T, stream streams.Stream[int]) *reading {
	t.Helper()
	r := &reading{t: t, group: lifecycle.New(t.Context())}
	r.group.Go("read", func(ctx context.Context) error {
		return streams.ForEach(ctx, stream,
			func(batch []int) { r.add(fmt.Sprint(batch)) },
			func(err error) { r.add("!" + err.Error()) })
	})
	return r
}

func (r *reading) add(item string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came = append(r.came, item)
}

// want compares the items that came since the last call.
func (r *reading) want(when string, want ...string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.came) // Inputs interleave in any order.
	if !slices.Equal(r.came, want) {
		r.t.Errorf("%s %v came, want %v", when, r.came, want)
	}
	r.came = nil
}

func (r *reading) stop() {
	r.t.Helper()
	r.group.Stop()
	if err := r.group.Wait(); err != nil {
		r.t.Error(err)
	}
}

// every sends a value at once and then each second, until its context ends.
func every(value int) streams.Stream[int] {
	return streams.Create(func(ctx context.Context, out streams.Sink[int]) {
		for out.Send([]int{value}) && wait(ctx, time.Second) {
		}
	})
}

func TestInputsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inputs := streams.NewMergeHub[int]()
		removeOne := inputs.Add(every(1))
		synctest.Wait() // An input without an observer does not run.
		r := read(t, inputs.Stream())
		r.want("with the input that was there before", "[1]")
		removeTwo := inputs.Add(every(2))
		r.want("when a second is added", "[2]")
		<-time.After(time.Second)
		r.want("after a second", "[1]", "[2]")
		removeOne()
		<-time.After(time.Second)
		r.want("when the first is removed", "[2]")
		removeTwo()
		<-time.After(time.Hour)
		r.want("when all are removed")
		inputs.Add(every(3))
		r.want("when there is one again", "[3]")
		r.stop()
		r = read(t, inputs.Stream())
		r.want("observed again, with what is left", "[3]")
		r.stop()
	})
}

func TestRemoveReturnsWhenTheInputHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		inputs := streams.NewMergeHub[int]()
		remove := inputs.Add(slowToEnd(&ended)) // It takes a minute.
		r := read(t, inputs.Stream())
		synctest.Wait()
		for range 2 {
			parallel(t, func(context.Context) {
				remove()
				if !ended.Load() {
					t.Error("remove returned before its input")
				}
			})
		}
		inputs.Add(every(2)) // Add must not wait for an input that is slow to end.
		r.want("meanwhile", "[1]", "[2]")
		r.stop()
		if !ended.Load() {
			t.Error("the observation ended before an input that is being removed")
		}
		remove() // A second call does nothing.
	})
}

func TestAnInputThatIsAddedWhenTheObservationEndsDoesNotRunInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		inputs := streams.NewMergeHub[int]()
		inputs.Add(slowToEnd(&ended)) // It takes a minute.
		r := read(t, inputs.Stream())
		synctest.Wait()
		r.group.Stop()
		synctest.Wait()
		remove := inputs.Add(streams.Create(func(context.Context, streams.Sink[int]) { t.Error("it runs") }))
		r.stop()
		remove()
	})
}

func TestRemoveDoesNotWaitForTheReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inputs := streams.NewMergeHub[int]()
		remove := inputs.Add(endless())
		ctx, cancel := context.WithCancel(t.Context())
		items := inputs.Stream().Observe(ctx)
		synctest.Wait() // The channel is full, because it has no reader.
		remove()
		left := len(items)
		for range left {
			<-items
		}
		synctest.Wait()
		if left == 0 || len(items) > 0 {
			t.Errorf("%d items were left, and %d came after the removal", left, len(items))
		}
		cancel()
		for range items { // Until it is closed.
		}
	})
}

func TestAnInputThatEndsOrFailsLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inputs := streams.NewMergeHub[int]()
		r := read(t, inputs.Stream())
		removes := []func(){
			inputs.Add(streams.Of(1)),
			inputs.Add(script[int](errFirst)),
			inputs.Add(script[int]("broken")),
			inputs.Add(every(2)),
		}
		r.want("of all inputs", "!first", "!panic: broken", "[1]", "[2]")
		<-time.After(time.Second)
		r.want("after that", "[2]")
		for _, remove := range removes {
			remove()
		}
		r.stop()
	})
}

func TestEachObservationObservesEachInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inputs := streams.NewMergeHub[int]()
		remove := inputs.Add(every(1))
		first := read(t, inputs.Stream())
		<-time.After(time.Second / 2)
		second := read(t, inputs.Stream())
		inputs.Add(every(2))
		first.want("to the first", "[1]", "[2]")
		second.want("to the second", "[1]", "[2]")
		remove()
		<-time.After(time.Second)
		first.want("to the first", "[2]")
		second.want("to the second", "[2]")
		first.stop()
		<-time.After(time.Second)
		second.want("when the first has ended", "[2]")
		second.stop()
	})
}

// Run it with -race.
func TestInputsMayBeAddedAndRemovedByManyAtOnce(t *testing.T) {
	inputs := streams.NewMergeHub[int]()
	end := errors.New("end")
	changes := lifecycle.New(t.Context())
	for i := range 4 {
		changes.Go("add and remove", func(context.Context) error {
			for range 200 {
				inputs.Add(streams.Of(i))()
				inputs.Add(every(i))()
			}
			return nil
		})
	}
	last := lifecycle.New(t.Context())
	last.Go("end", func(context.Context) error {
		err := changes.Wait()
		inputs.Add(script[int](end))
		return err
	})
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		for range inputs.Stream().Observe(ctx) { // It ends with its context.
		}
		cancel()
	}
	if _, errs := streams.Collect(t.Context(), until(end, inputs.Stream())); len(errs) > 0 {
		t.Error(errs)
	}
	if err := last.Wait(); err != nil {
		t.Error(err)
	}
}
