package operators_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// each acts by the name of the object. Attempts of "slow" take a minute, and attempts of "failing"
// fail. Attempts of "again" ask for another one after an hour, and attempts of "soon" after a
// second.
func each(ctx context.Context, request operators.Request) (time.Duration, error) {
	switch request.Name {
	case "slow":
		wait(ctx, time.Minute)
	case "failing":
		return 0, errFailed
	case "again":
		return time.Hour, nil
	case "soon":
		return time.Second, nil
	}
	return 0, nil
}

func TestWhatWaitsForAControllerThatIsRemovedIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := &operators.StageStats{}
		b := newRigOf(t, map[string]operators.Controller{
			"pods": {Reconcile: each, Stats: flow},
			"sets": {Reconcile: each},
		}, operators.ReconcileOptions{Workers: 1, Backoff: operators.Backoff{First: 10 * time.Second, Max: 10 * time.Second}})
		b.in.send(request("pods/failing"), request("pods/again"), request("pods/soon"), request("sets/again"))
		b.in.send(request("sets/slow"))
		b.in.send(request("pods/queued"), request("sets/queued"), request("pods/more"))
		b.wantFlow("before", 5, 1)
		if waiting := flow.Waiting.Load(); waiting != 4 {
			t.Errorf("%d of its own wait, want one that backs off, one that is due soon, and two that are queued", waiting)
		}
		b.controllers.Remove("pods")
		synctest.Wait()
		b.wantFlow("when it is removed", 1, 1)
		if flow.Busy() {
			t.Errorf("%d of its own wait", flow.Waiting.Load())
		}
		pass(90 * time.Minute)
		b.wantAttempts("0s failing again again soon slow | 1m0s queued | 1h0m0s again")
		b.stop()
	})
}

func TestRequestsForAControllerThatIsRemovedAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, each, one)
		b.controllers.Remove("nobody")
		b.controllers.Remove("pods")
		b.controllers.Remove("pods")
		b.in.send(request("a"), request("nobody/b"), request("c"))
		b.wantResults("b:terminal#1") // No controller ever had the name.
		b.controllers.Set("pods", b.noting(operators.Controller{Reconcile: each}))
		b.controllers.Set("nobody", b.noting(operators.Controller{Reconcile: each}))
		b.in.send(request("d"), request("nobody/e"))
		b.wantResults("b:terminal#1", "d:success#1", "e:success#1")
		b.stop()
	})
}

func TestOnlyTheLastNamesThatWereRemovedAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRigOf(t, nil, one)
		for i := range 1025 {
			name := fmt.Sprint(i)
			b.controllers.Set(name, b.noting(operators.Controller{Reconcile: each}))
			b.controllers.Remove(name)
		}
		b.in.send(request("0/a"), request("1/b"), request("1024/c"))
		b.wantResults("a:terminal#1")
		b.stop()
	})
}

// What waits for a controller is dropped with the controller. That also holds if its name is
// forgotten before Reconcile sees the change.
func TestAControllerOfWhichTheNameIsForgottenIsStillRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := make(chan struct{})
		b := newRig(t, takes(time.Minute), operators.ReconcileOptions{Workers: 1, Received: func() { <-looks }})
		b.in.send(request("a"), request("b"))
		b.controllers.Remove("pods")
		for i := range 2000 {
			name := fmt.Sprint(i)
			b.controllers.Set(name, operators.Controller{Reconcile: each})
			b.controllers.Remove(name)
		}
		close(looks)
		synctest.Wait()
		b.wantFlow("after it was removed", 0, 1)
		pass(2 * time.Hour)
		b.wantAttempts("0s a")
		b.in.send(request("c"))
		b.wantResults("a:success#1", "c:terminal#1")
		b.stop()
	})
}

// The sender of a request sets the controller first. Reconcile may see either one first.
func TestARequestNeverOvertakesItsController(t *testing.T) {
	for range 1000 {
		controllers := operators.NewControllers(nil)
		in := streams.Create(func(_ context.Context, out streams.Sink[operators.Request]) {
			controllers.Set("pods", operators.Controller{Reconcile: each})
			out.Send([]operators.Request{request("a")})
		})
		results, _ := streams.Collect(t.Context(), operators.Reconcile(in, controllers, one))
		if len(results) != 1 || results[0].Err != nil {
			t.Fatalf("got %+v", results)
		}
	}
}

func TestAnAttemptInFlightOfAControllerThatIsRemovedIsTheLast(t *testing.T) {
	for name, ends := range map[string]operators.Reconciler{
		"succeeds":        func(context.Context, operators.Request) (time.Duration, error) { return 0, nil },
		"fails":           func(context.Context, operators.Request) (time.Duration, error) { return 0, errFailed },
		"panics":          func(context.Context, operators.Request) (time.Duration, error) { panic("planned") },
		"asks for repeat": func(context.Context, operators.Request) (time.Duration, error) { return time.Second, nil },
	} {
		bubble(t, name, func(t *testing.T) {
			flow := &operators.StageStats{}
			b := newRigOf(t, map[string]operators.Controller{"pods": {Stats: flow, Reconcile: func(ctx context.Context, request operators.Request) (time.Duration, error) {
				wait(ctx, time.Minute)
				return ends(ctx, request)
			}}}, one)
			b.in.send(request("a"))
			b.in.send(request("a")) // It asks for another attempt.
			b.controllers.Remove("pods")
			b.in.send(request("a"))
			b.wantFlow("during the attempt", 0, 1)
			pass(time.Hour)
			b.wantFlow("after it", 0, 0)
			b.wantAttempts("0s a")
			if len(b.results) != 1 || b.results[0].RequeueAfter != 0 || flow.Busy() {
				t.Errorf("the results are %+v, and %d wait and %d run", b.results, flow.Waiting.Load(), flow.Running.Load())
			}
			b.stop()
		})
	}
}

func TestTwoControllersOfOneNameDoNotOverlapForAnObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := &operators.StageStats{}, &operators.StageStats{}
		slowly := func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			wait(ctx, time.Minute)
			return 0, errFailed
		}
		b := newRigOf(t, map[string]operators.Controller{"pods": {Reconcile: slowly, Stats: before}},
			operators.ReconcileOptions{Workers: 4, Backoff: operators.Backoff{First: time.Hour, Max: time.Hour}})
		b.in.send(request("a"))
		b.in.send(request("b")) // In a batch of its own, so that the order of the two attempts is certain.
		b.in.send(request("a", "1"))
		b.controllers.Set("pods", b.noting(operators.Controller{Reconcile: takes(time.Second), Stats: after}))
		b.in.send(request("a", "2"), request("c"))
		pass(time.Hour / 2)
		// The new controller does not repeat the failures of the old one. A request to the old one
		// during the attempt is dropped.
		b.wantAttempts("0s a b c | 1m0s a")
		last := b.results[len(b.results)-1]
		if resulted(last) != "a:success#1" || requested(last.Request) != "pods/a(2)" {
			t.Errorf("the last result is %s of %s", resulted(last), requested(last.Request))
		}
		for _, flow := range []*operators.StageStats{before, after} {
			if flow.Busy() || flow.Out.Load() != 2 {
				t.Errorf("%d wait, %d run and %d are done of one, want 2 done", flow.Waiting.Load(), flow.Running.Load(), flow.Out.Load())
			}
		}
		b.stop()
	})
}

func TestEachObservationFollowsTheControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controllers := operators.NewControllers(nil)
		flow := &operators.StageStats{}
		var readers []*lifecycle.Group
		in := []feed[operators.Request]{newFeed[operators.Request](), newFeed[operators.Request]()}
		for i := range in {
			readers = append(readers, parallel(t, func(ctx context.Context) {
				_, errs := streams.Collect(ctx, operators.Reconcile(in[i].stream(), controllers, operators.ReconcileOptions{
					Stats: flow, Backoff: operators.Backoff{First: time.Hour, Max: time.Hour},
				}))
				if len(errs) > 0 {
					t.Error(errs)
				}
			}))
		}
		controllers.Set("pods", operators.Controller{Reconcile: each})
		in[0].send(request("failing"))
		in[1].send(request("failing"))
		if waiting := flow.Waiting.Load(); waiting != 2 {
			t.Errorf("%d wait, want one of each observation", waiting)
		}
		controllers.Remove("pods")
		synctest.Wait()
		if waiting := flow.Waiting.Load(); waiting != 0 {
			t.Errorf("%d wait for a controller that is removed", waiting)
		}
		for i := range in {
			close(in[i])
			_ = readers[i].Wait()
		}
		controllers.Set("pods", operators.Controller{Reconcile: each}) // No observation is subscribed any more.
	})
}

// busy is a controller of a random test. It checks that attempts do not overlap.
type busy struct {
	mu      sync.Mutex
	running map[string]bool
	overlap bool
}

func (b *busy) reconcile(ctx context.Context, request operators.Request) (time.Duration, error) {
	key := request.Controller + "/" + request.Name
	b.mu.Lock()
	b.overlap = b.overlap || b.running[key]
	b.running[key] = true
	b.mu.Unlock()
	wait(ctx, time.Duration(1+rand.IntN(20))*time.Millisecond)
	b.mu.Lock()
	delete(b.running, key)
	b.mu.Unlock()
	switch rand.IntN(4) {
	case 0:
		return 0, errFailed
	case 1:
		return time.Duration(1+rand.IntN(20)) * time.Millisecond, nil
	case 2:
		panic("planned")
	}
	return 0, nil
}

// Run this test with -race. Controllers come and go at random. In the end nothing is left over, and
// the controllers that are there work.
func TestControllersMayComeAndGoAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controls := &busy{running: map[string]bool{}}
		b := newRigOf(t, nil, operators.ReconcileOptions{Workers: 3, Backoff: modelBackoff})
		flows := map[string][]*operators.StageStats{}
		names := []string{"x", "y", "z"}
		set := func(name string) {
			flow := &operators.StageStats{}
			flows[name] = append(flows[name], flow)
			b.controllers.Set(name, operators.Controller{Reconcile: controls.reconcile, Stats: flow, IgnoreEchoes: rand.IntN(2) == 0})
		}
		for _, name := range names {
			set(name)
		}
		for range 3000 {
			name := names[rand.IntN(len(names))]
			switch rand.IntN(8) {
			case 0:
				b.controllers.Remove(name)
			case 1:
				set(name)
			case 2:
				<-time.After(time.Duration(1+rand.IntN(5)) * time.Millisecond)
			default:
				b.in <- []operators.Request{request(fmt.Sprintf("%s/%d", name, rand.IntN(5)))}
			}
		}
		for _, name := range names {
			b.controllers.Remove(name)
		}
		pass(time.Minute)
		b.wantFlow("when all are removed", 0, 0)
		for name, each := range flows {
			for i, flow := range each {
				if flow.Busy() {
					t.Errorf("of %s %d, %d wait and %d run", name, i, flow.Waiting.Load(), flow.Running.Load())
				}
			}
		}
		if controls.overlap {
			t.Error("attempts for one object overlapped")
		}
		done := len(b.results)
		b.controllers.Set("x", operators.Controller{Reconcile: takes(0)})
		b.in.send(request("x/1"))
		if len(b.results) != done+1 || b.results[done].Attempt != 1 {
			t.Errorf("one that is set at the end does not work: %+v", b.results[done:])
		}
		b.stop()
	})
}
