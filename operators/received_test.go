package operators_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

func TestReceivedIsCalledAfterEachItemWasTakenIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newFeed[operators.Request]()
		flow := &operators.StageStats{}
		gate := make(chan struct{})
		var mu sync.Mutex
		var calls []string
		options := operators.ReconcileOptions{Workers: 1, Stats: flow, Start: gate, Received: func() {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, fmt.Sprintf("%d in %d waiting", flow.In.Load(), flow.Waiting.Load()))
		}}
		// The receiver may make nothing of an item.
		requests := streams.MapOnReceive(in.stream(), func(batch []operators.Request) ([]operators.Request, error) {
			if batch[0].Name == "nothing" {
				return nil, nil
			}
			return batch, nil
		})
		items := operators.Reconcile(requests, only(takes(0)), options).Observe(t.Context())
		want := func(want ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(calls, ", "); got != strings.Join(want, ", ") {
				t.Errorf("called with %s, want %s", got, strings.Join(want, ", "))
			}
			calls = nil
		}
		in.send(request("a"), request("b"))
		want("2 in 2 waiting")
		in.send(request("nothing"))
		want("2 in 2 waiting")
		in.send(request("a"))
		want("3 in 2 waiting")
		close(gate)
		synctest.Wait()
		for len(items) < cap(items) { // The receiver stalls, and an error waits for it.
			in.send(request("filler"))
		}
		in.send(request("filler"))
		mu.Lock()
		calls = nil
		mu.Unlock()
		in <- errFailed
		synctest.Wait()
		mu.Lock()
		got := len(calls)
		mu.Unlock()
		if got != 1 {
			t.Errorf("called %d times for an error that waits for the receiver, want 1", got)
		}
		close(in)
		for range items { // Read to the end.
		}
	})
}
