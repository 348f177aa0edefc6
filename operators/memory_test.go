package operators_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// heap returns how much of the heap is in use.
func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // The second run frees what sync.Pool keeps.
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// keptByMaps bounds what is left of a million keys: a map keeps the room of 16,384 keys.
const keptByMaps = 9e6

// noMore fails the test if the heap in use has grown by more than most bytes since before.
func noMore(t *testing.T, before, most int) {
	t.Helper()
	if grown := heap() - before; grown > most {
		t.Errorf("the heap has grown by %.1f MB, want %.1f MB at most", float64(grown)/1e6, float64(most)/1e6)
	}
}

// sendMany sends many values in batches. value makes each from its number.
func sendMany[T any](in feed[T], value func(i int) T) {
	const size = 1000
	for i := 0; i < keysThatComeAndGo; {
		batch := make([]T, 0, size)
		for range size {
			batch = append(batch, value(i))
			i++
		}
		in <- batch
	}
	synctest.Wait()
}

func TestReconcileKeepsNoMemoryOfKeysThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		fail := true
		controllers := only(func(context.Context, operators.Request) (time.Duration, error) {
			mu.Lock()
			defer mu.Unlock()
			if fail {
				return 0, errFailed
			}
			return 0, nil
		})
		in := newFeed[operators.Request]()
		gate := make(chan struct{})
		flow, unfinished := &operators.StageStats{}, &operators.Unfinished{}
		results := operators.Reconcile(in.stream(), controllers, operators.ReconcileOptions{
			Workers: 2, Start: gate, Stats: flow, Unfinished: unfinished,
			Backoff: operators.Backoff{First: time.Minute, Max: time.Minute, Jitter: -1},
		})
		ctx, cancel := context.WithCancel(t.Context())
		reader := parallel(t, func(context.Context) {
			_ = streams.ForEach(ctx, results, func(batch []operators.Result) { streams.Recycle(batch) }, func(err error) { t.Error(err) })
		})
		in.send(request("first"))
		before := heap()
		sendMany(in, func(i int) operators.Request {
			made := operators.Request{Controller: "pods"}
			made.Name = strconv.Itoa(i)
			return made
		})
		if waiting := flow.Waiting.Load(); waiting != keysThatComeAndGo+1 {
			t.Errorf("%d wait at the gate", waiting)
		}
		close(gate)
		synctest.Wait()
		if waiting, count := flow.Waiting.Load(), unfinished.Count(); waiting != keysThatComeAndGo+1 || count.Keys != keysThatComeAndGo+1 {
			t.Errorf("%d back off, and %d are unfinished", waiting, count.Keys)
		}
		mu.Lock()
		fail = false
		mu.Unlock()
		pass(time.Hour)
		if flow.Busy() {
			t.Errorf("in the end %d wait", flow.Waiting.Load())
		}
		noMore(t, before, keptByMaps)
		cancel()
		_ = reader.Wait()
	})
}

func TestDebounceKeepsNoMemoryOfKeysThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newFeed[streams.Event]()
		flow := &operators.StageStats{}
		events := operators.Debounce(in.stream(), operators.DebounceOptions{Window: time.Second, Stats: flow})
		ctx, cancel := context.WithCancel(t.Context())
		reader := parallel(t, func(context.Context) {
			_ = streams.ForEach(ctx, events, func(batch []streams.Event) { streams.Recycle(batch) }, func(err error) { t.Error(err) })
		})
		in.send(event("first@1"))
		before := heap()
		object := pod("any", "", "1")
		for range 2 { // The second event of each key waits for the end of the window.
			sendMany(in, func(i int) streams.Event {
				made := streams.Event{Type: streams.Applied, Source: "1", Object: object, ResourceVersion: "1"}
				made.Key.GroupKind, made.Key.Name = podKind, strconv.Itoa(i)
				return made
			})
		}
		if waiting := flow.Waiting.Load(); waiting != keysThatComeAndGo {
			t.Errorf("%d wait for the end of the window", waiting)
		}
		pass(time.Hour)
		if flow.Busy() || flow.Out.Load() != 2*keysThatComeAndGo+1 {
			t.Errorf("in the end %d wait, and %d are out", flow.Waiting.Load(), flow.Out.Load())
		}
		noMore(t, before, keptByMaps)
		cancel()
		_ = reader.Wait()
	})
}

func TestNamesOfControllersThatAreGoneAreNotKept(t *testing.T) {
	controllers := operators.NewControllers(nil)
	setAndRemove := func(from, to int) time.Duration {
		started := time.Now()
		for i := from; i < to; i++ {
			name := fmt.Sprint("controller-", i)
			controllers.Set(name, operators.Controller{})
			controllers.Remove(name)
		}
		return time.Since(started)
	}
	setAndRemove(0, 2000)
	first := setAndRemove(2000, 4000)
	before := heap()
	setAndRemove(4000, 100_000)
	noMore(t, before, 1e6)
	if last := setAndRemove(100_000, 102_000); last > 10*first+100*time.Millisecond {
		t.Errorf("2000 took %v at first, and %v in the end", first, last)
	}
}
