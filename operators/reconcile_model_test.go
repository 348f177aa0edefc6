package operators_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"pgregory.net/rapid"
)

// plan is what the attempts of an object do, one after another. Further attempts succeed at once.
type plan []planned

type planned struct {
	takes   time.Duration
	outcome operators.Outcome
	panics  bool
	again   time.Duration // for Requeued
}

func (p planned) run() (time.Duration, error) {
	<-time.After(p.takes)
	switch {
	case p.panics:
		panic("planned")
	case p.outcome == operators.Failed:
		return 0, errFailed
	case p.outcome == operators.Ended:
		return 0, operators.Terminal(errFailed)
	}
	return p.again, nil
}

// at returns what an attempt does. Attempts take whole milliseconds and a few nanoseconds, and
// requests come at whole milliseconds. So the two never happen at the same time.
func (p plan) at(attempt int) planned {
	planned := planned{outcome: operators.Succeeded}
	if attempt < len(p) {
		planned = p[attempt]
	}
	planned.takes += time.Duration(attempt + 1)
	return planned
}

var modelBackoff = operators.Backoff{First: 4 * time.Millisecond, Max: 20 * time.Millisecond, Jitter: -1}

// starts is the model: it returns when the attempts of an object start. The object never waits for
// a worker, and is behind a gate that opens at some time.
func (p plan) starts(requests []arrival, open, until time.Duration) (starts []time.Duration) {
	const never = time.Duration(1 << 62)
	last, early := time.Duration(-1), false // the last start, and whether its request was BeforeSync
	kept := false                           // whether the next request is BeforeSync because the last one was
	// next returns when the gate lets something pass that came since the last start, at from or
	// later.
	next := func(from time.Duration) time.Duration {
		first := never
		for _, request := range requests {
			switch {
			case request.at <= last:
			case request.early:
				first = min(first, request.at)
			default:
				first = min(first, max(request.at, open))
			}
		}
		return max(from, first)
	}
	wait := func(failures int) time.Duration { return min(modelBackoff.First<<(failures-1), modelBackoff.Max) }
	failures, mends := 0, 0
	for now := next(0); now < until; {
		if failures == 0 {
			early = kept
		}
		kept = false
		for _, request := range requests {
			early = early || request.early && request.at > last && request.at <= now
		}
		last = now
		starts = append(starts, now)
		planned := p.at(len(starts) - 1)
		end := now + planned.takes
		switch {
		case planned.panics || planned.outcome == operators.Failed:
			failures++
			due := end + wait(failures)
			for _, request := range requests { // A mended one cuts the backoff short.
				if at := max(request.at, end); request.mended && request.at > last && at < due {
					if mends > 0 {
						at = max(at, end+wait(mends))
					}
					if at < due {
						due = at
						mends++
					}
				}
			}
			if now = due; !early { // A BeforeSync request for the object may come meanwhile.
				now = min(next(due), max(due, open))
			}
			continue
		case planned.outcome == operators.Requeued && early && end < open && !slices.ContainsFunc(requests, func(request arrival) bool { return request.at > last && request.at <= end }):
			kept, now = true, end+planned.again
			for _, request := range requests {
				if request.at > end {
					now = min(now, request.at)
				}
			}
		case planned.outcome == operators.Requeued && next(end) != end:
			now = min(next(end), max(end+planned.again, open))
		default:
			now = next(end)
		}
		failures, mends = 0, 0
	}
	return starts
}

// run is what happened to one object.
type run struct {
	starts, ends []time.Duration
	running      bool
	overlapped   bool
}

type arrival struct {
	at    time.Duration
	name  string
	early bool

	mended bool
}

// lived runs plans against requests. They are behind the gate of all controllers and the gate of
// their own controller, which open at the given times. lived returns what happened by object, and
// the results.
func lived(t *testing.T, plans map[string]plan, arrivals []arrival, workers int, open, own, until time.Duration) (map[string]*run, []operators.Result) {
	started := time.Now()
	runs := map[string]*run{}
	for name := range plans {
		runs[name] = &run{}
	}
	var mu sync.Mutex
	reconcile := func(_ context.Context, request operators.Request) (time.Duration, error) {
		mu.Lock()
		run := runs[request.Name]
		planned := plans[request.Name].at(len(run.starts))
		run.overlapped = run.overlapped || run.running
		run.running = true
		run.starts = append(run.starts, time.Since(started))
		mu.Unlock()
		defer func() {
			mu.Lock()
			run.running = false
			run.ends = append(run.ends, time.Since(started))
			mu.Unlock()
		}()
		return planned.run()
	}
	in := newFeed[operators.Request]()
	flow := &operators.StageStats{}
	gate := make(chan struct{})
	defer time.AfterFunc(open, func() { close(gate) }).Stop()
	controllers := operators.NewControllers(map[string]operators.Controller{"pods": {Reconcile: reconcile, Held: true}})
	defer time.AfterFunc(own, func() { controllers.Open("pods") }).Stop()
	stream := operators.Reconcile(in.stream(), controllers,
		operators.ReconcileOptions{Workers: workers, Backoff: modelBackoff, Start: gate, Stats: flow})
	var results []operators.Result
	ctx, end := context.WithCancel(t.Context())
	reader := parallel(t, func(context.Context) {
		_ = streams.ForEach(ctx, stream, func(batch []operators.Result) { results = append(results, batch...) }, nil)
	})
	for i, arrival := range arrivals {
		pass(arrival.at - time.Since(started))
		made := request(arrival.name, fmt.Sprint(i))
		made.BeforeSync, made.SpecChanged = arrival.early, arrival.mended
		in.send(made)
	}
	pass(until - time.Since(started))
	end()
	_ = reader.Wait()
	if flow.Busy() {
		t.Errorf("at the end %d wait and %d run", flow.Waiting.Load(), flow.Running.Load())
	}
	return runs, results
}

func TestWhateverHappensReconcileKeepsItsPromises(t *testing.T) {
	outcomes := rapid.SampledFrom([]operators.Outcome{operators.Succeeded, operators.Failed, operators.Requeued, operators.Ended})
	milliseconds := rapid.Custom(func(rt *rapid.T) time.Duration {
		return time.Duration(rapid.IntRange(0, 30).Draw(rt, "ms")) * time.Millisecond
	})
	attempt := rapid.Custom(func(rt *rapid.T) planned {
		made := planned{takes: milliseconds.Draw(rt, "takes"), outcome: outcomes.Draw(rt, "outcome")}
		made.panics = made.outcome == operators.Failed && rapid.Bool().Draw(rt, "panics")
		if made.outcome == operators.Requeued {
			made.again = milliseconds.Draw(rt, "again") + time.Millisecond
		}
		return made
	})
	rapid.Check(t, func(rt *rapid.T) {
		workers := rapid.IntRange(1, 3).Draw(rt, "workers")
		plans := map[string]plan{}
		for _, name := range []string{"a", "b", "c"} {
			plans[name] = rapid.SliceOfN(attempt, 0, 8).Draw(rt, name)
		}
		var arrivals []arrival
		var now time.Duration
		for range rapid.IntRange(1, 15).Draw(rt, "requests") {
			now += milliseconds.Draw(rt, "after") + time.Millisecond
			arrivals = append(arrivals, arrival{now, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name"), rapid.Bool().Draw(rt, "early"), rapid.IntRange(0, 3).Draw(rt, "mended") == 0})
		}
		open := time.Duration(rapid.IntRange(0, 200).Draw(rt, "open"))*time.Millisecond + time.Millisecond/2
		own := open + time.Duration(rapid.IntRange(-50, 50).Draw(rt, "own"))*time.Millisecond
		until := now + 10*time.Second
		synctest.Test(t, func(t *testing.T) {
			runs, results := lived(t, plans, arrivals, workers, open, own, until)
			for name, run := range runs {
				if err := checkRun(name, run, plans[name], arrivals, workers, max(open, own), until); err != nil {
					rt.Errorf("%s: %v", name, err)
				}
			}
			if err := checkCauses(results, len(arrivals)); err != nil {
				rt.Error(err)
			}
		})
	})
}

func checkRun(name string, run *run, plan plan, arrivals []arrival, workers int, open, until time.Duration) error {
	if run.overlapped {
		return fmt.Errorf("two attempts overlap")
	}
	var requests []arrival
	for _, arrival := range arrivals {
		if arrival.name == name {
			requests = append(requests, arrival)
		}
	}
	early := func(request arrival) bool { return request.early }
	if len(requests) > 0 && (len(run.starts) == 0 || run.starts[len(run.starts)-1] < requests[len(requests)-1].at) {
		return fmt.Errorf("attempts at %v leave the request at %v without one", run.starts, requests[len(requests)-1])
	}
	if len(run.starts) > 0 && run.starts[0] < open && !slices.ContainsFunc(requests, early) {
		return fmt.Errorf("an attempt starts at %v, before the gate opens at %v", run.starts[0], open)
	}
	// With a worker for each object, the times at which attempts start are certain.
	if want := plan.starts(requests, open, until); workers == 3 && !slices.Equal(run.starts, want) {
		return fmt.Errorf("with requests at %v and the gate at %v attempts start at\n%v, want\n%v", requests, open, run.starts, want)
	}
	return nil
}

// checkCauses checks that each request is a cause of exactly one attempt that did not fail.
func checkCauses(results []operators.Result, requests int) error {
	times := make([]int, requests)
	for _, result := range results {
		for _, cause := range result.Causes {
			var i int
			if _, err := fmt.Sscan(cause.ResourceVersion, &i); err != nil {
				return fmt.Errorf("the cause %v is of no request", cause)
			}
			if result.Outcome != operators.Failed {
				times[i]++
			}
		}
	}
	for i, n := range times {
		if n != 1 {
			return fmt.Errorf("request %d is a cause of %d attempts that did not fail", i, n)
		}
	}
	return nil
}
