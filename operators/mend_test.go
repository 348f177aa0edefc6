package operators_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mended returns a request that is SpecChanged.
func mended(text string, versions ...string) operators.Request {
	made := request(text, versions...)
	made.SpecChanged = true
	return made
}

// lasting returns a reconciler whose attempts take some time and fail.
func lasting(d time.Duration) operators.Reconciler {
	return func(ctx context.Context, _ operators.Request) (time.Duration, error) {
		wait(ctx, d)
		return 0, errFailed
	}
}

func TestAMendedObjectIsAttemptedAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		takes    time.Duration
		at       []time.Duration
		attempts string
	}{
		"during the backoff":                    {0, []time.Duration{15 * time.Second}, "0s a | 10s a | 15s a | 55s a"},
		"during the attempt":                    {time.Second, []time.Duration{500 * time.Millisecond}, "0s a | 1s a | 22s a | 1m3s a"},
		"twice during the attempt":              {time.Second, []time.Duration{400 * time.Millisecond, 500 * time.Millisecond}, "0s a | 1s a | 22s a | 1m3s a"},
		"twice, the second time after a while":  {0, []time.Duration{12 * time.Second, 40 * time.Second}, "0s a | 10s a | 12s a | 40s a"},
		"twice in a row, the second time later": {0, []time.Duration{12 * time.Second, 13 * time.Second}, "0s a | 10s a | 12s a | 22s a"},
		"many times in a row, later each time": {0, []time.Duration{11 * time.Second, 12 * time.Second, 22 * time.Second, 23 * time.Second, 24 * time.Second},
			"0s a | 10s a | 11s a | 21s a | 41s a"},
	} {
		bubble(t, name, func(t *testing.T) {
			b := newRig(t, lasting(test.takes), backoff(10*time.Second, time.Hour))
			b.in.send(request("a", "1"))
			for _, at := range test.at {
				pass(at - time.Since(b.started))
				b.in.send(mended("a", "2"))
			}
			pass(70*time.Second - time.Since(b.started))
			b.wantAttempts(test.attempts)
			b.stop()
			for i, result := range b.results {
				if result.Attempt != i+1 {
					t.Errorf("attempt %d is number %d in a row", i+1, result.Attempt)
				}
			}
		})
	}
}

func TestAnAttemptForAMendedObjectKnowsItsCausesAndWhenItWasMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, failing(2, errFailed), backoff(time.Minute, time.Hour))
		b.in.send(request("a", "1"))
		pass(10 * time.Second)
		b.in.send(request("a", "2"))
		pass(10 * time.Second)
		b.in.send(mended("a", "3"))
		pass(5 * time.Minute)
		b.wantAttempts("0s a | 20s a | 2m20s a")
		b.wantResults("a:error#1", "a:error#2", "a:success#3")
		b.stop()
		second := b.results[1]
		if at := second.Received.Sub(b.started); requested(second.Request) != "pods/a(1 2 3)" || !second.SpecChanged || at != 20*time.Second {
			t.Errorf("the second attempt was for %s, mended %v, received after %v", requested(second.Request), second.SpecChanged, at)
		}
		if third := b.results[2]; third.SpecChanged || third.Received.Sub(b.started) != 140*time.Second {
			t.Errorf("the third attempt was for %+v", third.Request)
		}
	})
}

func TestASuccessLetsTheNextMendedObjectBeAttemptedAtOnceAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outcomes := []error{errFailed, errFailed, nil, errFailed, nil}
		b := newRig(t, func(context.Context, operators.Request) (time.Duration, error) {
			err := outcomes[0]
			outcomes = outcomes[1:]
			return time.Hour, err // After the success the object still has a task: a requeue.
		}, backoff(10*time.Second, time.Hour))
		b.in.send(request("a"))
		for range 4 {
			pass(time.Second)
			b.in.send(mended("a"))
		}
		pass(8 * time.Second)
		b.in.send(mended("a"))
		pass(time.Second)
		b.in.send(mended("a"))
		b.wantAttempts("0s a | 1s a | 11s a | 12s a | 13s a")
		b.stop()
	})
}

func TestTriggerSaysWhichChangesMend(t *testing.T) {
	with := func(uid string, generation int64) streams.Object {
		made := pod("a", uid, "1")
		made.Generation = generation
		return made
	}
	for name, test := range map[string]struct {
		kind          streams.ChangeType
		before, after streams.Object
		want          bool
	}{
		"an object that is new":           {streams.Added, nil, with("1", 1), true},
		"another generation":              {streams.Updated, with("1", 1), with("1", 2), true},
		"the same generation":             {streams.Updated, with("1", 2), with("1", 2), false},
		"another object of the name":      {streams.Updated, with("1", 1), with("2", 1), true},
		"any change without generations":  {streams.Updated, with("1", 0), with("1", 0), true},
		"nothing new without generations": {streams.Unchanged, with("1", 0), with("1", 0), false},
		"an object that is gone":          {streams.Removed, with("1", 1), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			made := change(1, test.before, test.after)
			made.Type = test.kind
			cluster := operators.Rule{Controller: "sets", Kind: podKind, Map: operators.Owner(setKind)}
			for _, rules := range [][]operators.Rule{{self}, {self, self}, {self, cluster}} {
				requests, _ := streams.Collect(t.Context(), operators.Trigger(streams.Of(made), operators.NewRules(rules...)))
				if len(requests) != 1 || requests[0].SpecChanged != test.want {
					t.Errorf("got %+v, want one that is mended: %v", requests, test.want)
				}
			}
		})
	}
	t.Run("not another object's owner", func(t *testing.T) {
		requests, _ := streams.Collect(t.Context(), operators.Trigger(streams.Of(change(1, nil, owned("a", "!x"))), operators.NewRules(owners)))
		if len(requests) != 1 || requests[0].SpecChanged {
			t.Errorf("got %+v, want one that is not mended", requests)
		}
	})
}

// cluster is one object, whose changes reach a Trigger with a lag.
type cluster struct {
	in     feed[streams.Change]
	ctx    context.Context
	mu     sync.Mutex
	object *metav1.PartialObjectMetadata
	wrote  int
}

// write makes a change, as an attempt or as another client, and returns its version.
func (c *cluster) write(lag time.Duration, spec bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrote++
	next := c.object.DeepCopy()
	next.ResourceVersion = fmt.Sprint(c.wrote)
	if spec && next.Generation > 0 {
		next.Generation++
	}
	made := change(c.wrote, c.object, next)
	c.object = next
	time.AfterFunc(lag, func() {
		select {
		case c.in <- []streams.Change{made}:
		case <-c.ctx.Done():
		}
	})
	return next.ResourceVersion
}

func (c *cluster) record(ctx context.Context, version string, sole bool) {
	operators.RecordWrite(ctx, operators.Write{Verb: "patch", Key: podKey("a"), ResourceVersion: version, Exclusive: sole})
}

// attempts runs a reconciler for the object over some time, and returns when its attempts started.
func (c *cluster) attempts(t *testing.T, controller operators.Controller, over time.Duration) string {
	c.in = newFeed[streams.Change]()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.ctx = ctx
	reconcile, starts := controller.Reconcile, newLog()
	controller.Reconcile = func(ctx context.Context, request operators.Request) (time.Duration, error) {
		starts.add(request.Name)
		return reconcile(ctx, request)
	}
	controllers := operators.NewControllers(map[string]operators.Controller{"pods": controller})
	options := operators.ReconcileOptions{Workers: 2, Backoff: operators.Backoff{First: 50 * time.Millisecond, Max: time.Minute, Jitter: -1}}
	results := operators.Reconcile(operators.Trigger(c.in.stream(), operators.NewRules(self)), controllers, options)
	reader := parallel(t, func(context.Context) { _, _ = streams.Collect(ctx, results) })
	c.in.send(change(0, nil, c.object))
	pass(over)
	cancel()
	_ = reader.Wait()
	return starts.String()
}

func TestWritesOfFailingAttemptsDoNotBypassTheBackoff(t *testing.T) {
	const over = 10 * time.Minute
	object := func(generation int64) *metav1.PartialObjectMetadata {
		made := pod("a", "a", "0")
		made.Generation = generation
		return made
	}
	for _, ignoreEchoes := range []bool{false, true} {
		for _, takes := range []time.Duration{0, 70 * time.Millisecond} {
			for name, test := range map[string]struct {
				generation int64
				spec       bool
			}{"spec": {1, true}, "annotation or status": {1, false}, "without generations": {0, false}} {
				for _, lag := range []time.Duration{0, 10 * time.Millisecond, 60 * time.Millisecond, 3 * time.Second} {
					bubble(t, fmt.Sprintf("%s, ignoring echoes %v, taking %v, lag %v", name, ignoreEchoes, takes, lag), func(t *testing.T) {
						c := &cluster{object: object(test.generation)}
						got := c.attempts(t, operators.Controller{IgnoreEchoes: ignoreEchoes, Reconcile: func(ctx context.Context, _ operators.Request) (time.Duration, error) {
							for i := range 2 {
								c.record(ctx, c.write(lag, test.spec), i == 0)
								wait(ctx, takes/2)
							}
							return 0, errFailed
						}}, over)
						without := &cluster{object: object(test.generation)}
						want := without.attempts(t, operators.Controller{Reconcile: lasting(takes)}, over)
						if got != want {
							t.Errorf("attempts at\n%s, want those of the backoff alone:\n%s", got, want)
						}
					})
				}
			}
		}
	}
}

// Another client answers each write with a write that looks like a mended object. Without
// generations, the two look the same.
func TestAnswersToWritesOfFailingAttemptsAreNoHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{object: pod("a", "a", "0")}
		got := c.attempts(t, operators.Controller{Reconcile: func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			c.record(ctx, c.write(10*time.Millisecond, false), true)
			c.write(20*time.Millisecond, false)
			return 0, errFailed
		}}, 10*time.Minute)
		if n := strings.Count(got, " a"); n > 25 {
			t.Errorf("there were %d attempts within 10 minutes: %s", n, got)
		}
	})
}

func TestAForeignChangeAmongOwnWritesMends(t *testing.T) {
	for name, at := range map[string]time.Duration{"during the attempt": 1500 * time.Millisecond, "during the backoff": 10 * time.Second} {
		bubble(t, name, func(t *testing.T) {
			b := newRig(t, writing(0, errFailed), backoff(time.Hour, 2*time.Hour))
			b.in.send(request("b", "1"))
			pass(at)
			b.in.send(mended("b", "10"))
			pass(time.Second)
			b.wantAttempts("0s b") // The write was the attempt's own.
			b.in.send(mended("b", "9", "10"))
			pass(time.Second)
			if got, want := strings.Count(b.attempts.String(), "b"), 2; got != want {
				t.Errorf("attempts %s, want %d", b.attempts, want)
			}
			b.stop()
		})
	}
}

func TestAForeignChangeMendsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, writing(0, errFailed), backoff(time.Hour, 2*time.Hour))
		b.in.send(request("b", "1"))
		pass(1500 * time.Millisecond)
		b.in.send(mended("b", "9"))
		pass(2 * time.Second)
		b.in.send(mended("b", "10")) // The write of the attempt in flight itself.
		pass(2*time.Hour + 5*time.Second)
		b.wantAttempts("0s b | 2s b | 2h0m4s b")
		b.stop()
	})
}
