package operators_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
)

func TestTheBackoffStaysAtItsMaximumHoweverOftenAnAttemptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures = 1100 // 2^1100 is beyond all numbers that a wait may be counted in.
		b := newRig(t, failing(failures, errFailed), backoff(time.Minute, 24*time.Hour))
		b.in.send(request("a"))
		pass(failures * 24 * time.Hour)
		if len(b.results) != failures+1 {
			t.Fatalf("there were %d attempts, want %d", len(b.results), failures+1)
		}
		for i, result := range b.results[11:failures] { // 2^11 minutes are more than a day.
			if result.RequeueAfter != 24*time.Hour {
				t.Fatalf("after %d failures it waits %v, want 24h", i+12, result.RequeueAfter)
			}
		}
		b.stop()
	})
}

func TestOfDelayedAttemptsTheOneThatIsDueFirstGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delays := map[string]time.Duration{"a": time.Second, "b": 500 * time.Millisecond, "c": 250 * time.Millisecond, "d": 100 * time.Millisecond}
		b := newRig(t, func(_ context.Context, request operators.Request) (time.Duration, error) {
			delay := delays[request.Name]
			delete(delays, request.Name)
			return delay, nil
		}, operators.ReconcileOptions{Workers: 1})
		b.in.send(request("a"), request("b"), request("c"))
		pass(200 * time.Millisecond)
		b.in.send(request("d")) // Due after the others have begun to wait, and at 300 ms, between them.
		pass(2 * time.Second)
		b.wantAttempts("0s a b c | 200ms d | 250ms c | 300ms d | 500ms b | 1s a")
		b.stop()
	})
}
