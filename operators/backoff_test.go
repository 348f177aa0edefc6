package operators_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
)

// failing returns a reconciler that fails the first n attempts.
func failing(n int, err error) operators.Reconciler {
	return func(context.Context, operators.Request) (time.Duration, error) {
		if n--; n >= 0 {
			return 0, err
		}
		return 0, nil
	}
}

func backoff(first, most time.Duration) operators.ReconcileOptions {
	return operators.ReconcileOptions{Workers: 1, Backoff: operators.Backoff{First: first, Max: most}}
}

func TestTheBackoffDoublesUpToItsMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, failing(7, errFailed), backoff(time.Second, 10*time.Second))
		b.in.send(request("a", "1"))
		b.wantFlow("during the backoff", 1, 0)
		pass(time.Hour)
		b.wantFlow("after the success", 0, 0)
		b.wantAttempts("0s a | 1s a | 3s a | 7s a | 15s a | 25s a | 35s a | 45s a")
		b.wantResults("a:error#1", "a:error#2", "a:error#3", "a:error#4", "a:error#5", "a:error#6", "a:error#7", "a:success#8")
		var delays []string
		for _, result := range b.results {
			delays = append(delays, result.RequeueAfter.String())
			if result.Outcome == operators.Failed && !errors.Is(result.Err, errFailed) {
				t.Errorf("the error is %v", result.Err)
			}
			if len(result.Causes) != 1 {
				t.Errorf("attempt %d has the causes %v; it is for the first one's, too", result.Attempt, result.Causes)
			}
		}
		if got, want := strings.Join(delays, " "), "1s 2s 4s 8s 10s 10s 10s 0s"; got != want {
			t.Errorf("the results have %s, want %s", got, want)
		}
		b.stop()
	})
}

func TestTheBackoffCountsFromTheEndOfTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			wait(ctx, 5*time.Second)
			return 0, errFailed
		}, backoff(time.Second, time.Minute))
		b.in.send(request("a"))
		pass(20 * time.Second)
		b.wantAttempts("0s a | 6s a | 13s a")
		b.stop()
	})
}

func TestEventsNeitherShortenNorLengthenABackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, failing(3, errFailed), backoff(10*time.Second, time.Hour))
		b.in.send(request("a", "1"))
		for i := range 60 {
			pass(time.Second)
			b.in.send(request("a", fmt.Sprint(i+2)))
		}
		// 10 s, 20 s and 40 s from one failure to the next attempt.
		b.wantAttempts("0s a | 10s a | 30s a")
		pass(time.Hour)
		b.wantAttempts("0s a | 10s a | 30s a | 1m10s a")
		if second := b.results[1]; len(second.Causes) < 9 || second.Causes[0].ResourceVersion != "1" {
			t.Errorf("the second attempt has the causes %v", second.Causes)
		}
		b.stop()
	})
}

func TestAnEventDuringAnAttemptThatFailsDoesNotBypassTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		b := newRig(t, func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			wait(ctx, time.Second)
			if attempts++; attempts == 1 {
				return 0, errFailed
			}
			return 0, nil
		}, backoff(10*time.Second, time.Hour))
		b.in.send(request("a", "1"))
		b.in.send(request("a", "2"))
		pass(time.Hour)
		b.wantAttempts("0s a | 11s a")
		if causes := b.results[1].Causes; len(causes) != 2 || causes[0].ResourceVersion != "1" || causes[1].ResourceVersion != "2" {
			t.Errorf("the second attempt has the causes %v", causes)
		}
		b.stop()
	})
}

func TestASuccessResetsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outcomes := []error{errFailed, errFailed, nil, errFailed, nil}
		b := newRig(t, func(context.Context, operators.Request) (time.Duration, error) {
			err := outcomes[0]
			outcomes = outcomes[1:]
			return 0, err
		}, backoff(time.Second, time.Hour))
		b.in.send(request("a"))
		pass(time.Minute)
		b.in.send(request("a"))
		pass(time.Hour)
		b.wantAttempts("0s a | 1s a | 3s a | 1m0s a | 1m1s a")
		b.wantResults("a:error#1", "a:error#2", "a:success#3", "a:error#1", "a:success#2")
		b.stop()
	})
}

func TestObjectsBackOffEachOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, func(_ context.Context, request operators.Request) (time.Duration, error) {
			if request.Name == "bad" {
				return 0, errFailed
			}
			return 0, nil
		}, backoff(time.Second, time.Hour))
		b.in.send(request("bad"), request("good"))
		pass(1500 * time.Millisecond)
		b.in.send(request("good"))
		pass(2 * time.Second)
		b.wantAttempts("0s bad good | 1s bad | 1.5s good | 3s bad")
		b.stop()
	})
}

func TestJitterSpreadsTheBackoffWithinItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 200
		in := newFeed[operators.Request]()
		controllers := only(failing(objects, errFailed))
		items := operators.Reconcile(in.stream(), controllers, operators.ReconcileOptions{
			Workers: 1,
			Backoff: operators.Backoff{First: 10 * time.Second, Jitter: 0.2},
		}).Observe(t.Context())
		for i := range objects {
			in.send(request(fmt.Sprint(i)))
			result := (<-items).V.([]operators.Result)[0]
			if result.RequeueAfter < 8*time.Second || result.RequeueAfter > 12*time.Second {
				t.Fatalf("a backoff of %v", result.RequeueAfter)
			}
		}
		close(in)
		started := time.Now()
		for range items { //nolint:revive // Until it is closed.
		}
		if took := time.Since(started); took != 0 {
			t.Errorf("the end of the input was followed by %v of backoff", took)
		}
	})
}

func TestRequeueAfterAsksForAnotherAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, func(context.Context, operators.Request) (time.Duration, error) { return time.Minute, nil }, one)
		b.in.send(request("a", "1"))
		b.wantFlow("until the requeue", 0, 0) // A requeue after more than 5 s does not count as waiting.
		pass(150 * time.Second)
		b.wantAttempts("0s a | 1m0s a | 2m0s a")
		b.wantResults("a:requeue_after#1", "a:requeue_after#1", "a:requeue_after#1")
		if second := b.results[1]; second.RequeueAfter != time.Minute || len(second.Causes) != 0 || second.Received.Sub(b.started) != time.Minute {
			t.Errorf("the second result is %+v", second)
		}
		// An event ends the wait. The next attempt starts a minute after the attempt that the event
		// causes.
		b.in.send(request("a", "2"))
		pass(65 * time.Second)
		b.wantAttempts("0s a | 1m0s a | 2m0s a | 2m30s a | 3m30s a")
		b.stop()
	})
}

func TestAnEventEndsTheWaitOfItsObjectOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, func(context.Context, operators.Request) (time.Duration, error) { return time.Minute, nil }, one)
		for _, name := range []string{"a", "b", "c", "d"} {
			b.in.send(request(name))
			pass(time.Second)
		}
		b.in.send(request("c"))
		pass(time.Second)
		b.in.send(request("a"))
		pass(62 * time.Second)
		b.wantAttempts("0s a | 1s b | 2s c | 3s d | 4s c | 5s a | 1m1s b | 1m3s d | 1m4s c | 1m5s a")
		b.stop()
	})
}

func TestOfThoseDueAtOnceTheFirstToWaitGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, func(context.Context, operators.Request) (time.Duration, error) { return time.Minute, nil }, one)
		for i := range 9 {
			b.in.send(request(fmt.Sprint(i)))
		}
		pass(61 * time.Second)
		b.wantAttempts("0s 0 1 2 3 4 5 6 7 8 | 1m0s 0 1 2 3 4 5 6 7 8")
		b.stop()
	})
}

func TestAnEventDuringAnAttemptComesBeforeItsRequeue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		b := newRig(t, func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			wait(ctx, time.Second)
			if attempts++; attempts == 1 {
				return time.Minute, nil
			}
			return 0, nil
		}, one)
		b.in.send(request("a", "1"))
		b.in.send(request("a", "2"))
		pass(time.Hour)
		b.wantAttempts("0s a | 1s a")
		b.stop()
	})
}

func TestATerminalErrorIsNotRetriedUntilAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, func(context.Context, operators.Request) (time.Duration, error) {
			return time.Second, fmt.Errorf("while reconciling: %w", operators.Terminal(errFailed))
		}, backoff(time.Second, time.Hour))
		b.in.send(request("a", "1"))
		pass(time.Hour)
		b.in.send(request("a", "2"))
		pass(time.Hour)
		b.wantAttempts("0s a | 1h0m0s a")
		b.wantResults("a:terminal#1", "a:terminal#1")
		if first := b.results[0]; !errors.Is(first.Err, errFailed) || first.RequeueAfter != 0 {
			t.Errorf("it failed with %v, and is due again after %v; want not at all", first.Err, first.RequeueAfter)
		}
		b.stop()
	})
}

func TestTerminalKeepsNilAndTheError(t *testing.T) {
	if err := operators.Terminal(nil); err != nil {
		t.Errorf("Terminal(nil) = %v", err)
	}
	if err := operators.Terminal(errFailed); err.Error() != errFailed.Error() || !errors.Is(err, errFailed) {
		t.Errorf("Terminal(%v) = %v", errFailed, err)
	}
}

func TestAPanicIsAFailureWithItsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		b := newRig(t, func(context.Context, operators.Request) (time.Duration, error) {
			if attempts++; attempts == 1 {
				panic(errFailed)
			}
			return 0, nil
		}, backoff(time.Second, time.Hour))
		b.in.send(request("a"))
		pass(time.Minute)
		b.wantAttempts("0s a | 1s a")
		b.wantResults("a:error#1", "a:success#2")
		var panicked *lifecycle.PanicError
		if err := b.results[0].Err; !errors.As(err, &panicked) || !errors.Is(err, errFailed) || !strings.Contains(string(panicked.Stack), "backoff_test.go") {
			t.Errorf("got %v, want a PanicError with its stack", err)
		}
		b.stop()
	})
}

func TestAnAttemptThatTakesTooLongIsEndedAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := backoff(time.Second, time.Hour)
		options.Timeout = 5 * time.Second
		b := newRig(t, takes(time.Minute), options)
		b.in.send(request("a"))
		pass(10 * time.Second)
		b.wantAttempts("0s a | 6s a")
		first := b.results[0]
		if want := "the reconcile timed out after 5s: context deadline exceeded"; first.Err.Error() != want {
			t.Errorf("got %q, want %q", first.Err, want)
		}
		if !errors.Is(first.Err, operators.ErrTimeout) || !errors.Is(first.Err, context.DeadlineExceeded) || first.Duration != 5*time.Second {
			t.Errorf("got %v after %v", first.Err, first.Duration)
		}
		b.stop()
	})
}

func TestADeadlineOfTheReconcilersOwnIsNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-ctx.Done()
			return 0, ctx.Err()
		}, one)
		b.in.send(request("a"))
		b.stop()
		if err := b.results[0].Err; !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, operators.ErrTimeout) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnHourOfBackoffAndRequeueTakesNoTimeInATest(t *testing.T) {
	started := time.Now()
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, func(_ context.Context, request operators.Request) (time.Duration, error) {
			if request.Name == "bad" {
				return 0, errFailed
			}
			return 10 * time.Second, nil
		}, backoff(50*time.Millisecond, time.Minute))
		b.in.send(request("bad"), request("good"))
		pass(time.Hour)
		attempts := strings.Count(b.attempts.String(), "good")
		if retries := strings.Count(b.attempts.String(), "bad"); attempts != 361 || retries != 70 {
			t.Errorf("%d requeues and %d retries, want 361 and 70", attempts, retries)
		}
		b.stop()
	})
	if took := time.Since(started); took > time.Second {
		t.Errorf("an hour took %v", took)
	}
}

func TestWhatIsDueAgainSoonIsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := []time.Duration{5 * time.Second, 6 * time.Second, time.Second, 0}
		b := newRig(t, func(context.Context, operators.Request) (time.Duration, error) {
			next := after[0]
			after = after[1:]
			return next, nil
		}, one)
		b.in.send(request("a"))
		pass(time.Second)
		b.wantFlow("due in 5 s", 1, 0)
		pass(5 * time.Second)
		b.wantFlow("due in 6 s", 0, 0)
		b.in.send(request("a"))
		pass(time.Millisecond)
		b.wantFlow("due in 1 s", 1, 0)
		pass(time.Second)
		b.wantFlow("due no more", 0, 0)
		b.wantAttempts("0s a | 5s a | 6s a | 7s a")
		b.stop()
	})
}
