package operators_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// Only the latest state of each object in a burst passes, with the states that it replaced as
// causes. Deletions always pass.
func ExampleDebounce() {
	burst := streams.Of(
		event("pegasus@1"),
		event("chimera@2"),
		event("pegasus@3"),
		event("pegasus@4"),
		event("-chimera@5"),
	)
	out := operators.Debounce(burst, operators.DebounceOptions{Window: operators.DefaultWindow})
	_ = streams.ForEach(context.Background(), out, func(events []streams.Event) {
		for _, event := range events {
			fmt.Println(event.Type, event.Key.Name, "at version", event.ResourceVersion, "for", len(event.Causes()), "events")
		}
	}, nil)
	// Output:
	// Applied pegasus at version 4 for 3 events
	// Deleted chimera at version 5 for 2 events
}

// Trigger turns each change into a request for each object that the change concerns.
func ExampleTrigger() {
	changes := streams.Of(
		change(1, nil, owned("pegasus-0", "!pegasus")),
		change(2, nil, owned("pegasus-1", "!pegasus")),
		change(3, nil, owned("chimera-0", "!chimera")),
	)
	requests := operators.Trigger(changes, operators.NewRules(operators.Rule{
		Controller: "statefulset",
		Kind:       podKind,
		Map:        operators.Owner(setKind),
	}))
	_ = streams.ForEach(context.Background(), requests, func(requests []operators.Request) {
		for _, request := range requests {
			fmt.Println(request.Controller, request.Name, "for", request.Causes[0].Key.Name)
		}
	}, nil)
	// Output:
	// statefulset pegasus for pegasus-0
	// statefulset pegasus for pegasus-1
	// statefulset chimera for chimera-0
}

// Every attempt yields a result. An attempt that fails is repeated after a backoff.
func ExampleReconcile() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The stream lasts until the example ends it.
	requests := streams.Create(func(ctx context.Context, out streams.Sink[operators.Request]) {
		out.Send([]operators.Request{{Controller: "horses", NamespacedName: podName("pegasus")}})
		<-ctx.Done()
	})
	tries := 0
	results := operators.Reconcile(requests, operators.NewControllers(map[string]operators.Controller{
		"horses": {Reconcile: func(context.Context, operators.Request) (time.Duration, error) {
			if tries++; tries < 3 {
				return 0, errors.New("no wings yet")
			}
			return 0, nil
		}},
	}), operators.ReconcileOptions{Backoff: operators.Backoff{First: time.Millisecond, Jitter: -1}})
	_ = streams.ForEach(ctx, results, func(results []operators.Result) {
		for _, result := range results {
			fmt.Println("attempt", result.Attempt, result.Outcome, "again after", result.RequeueAfter)
			if result.Outcome == operators.Succeeded {
				cancel()
			}
		}
	}, nil)
	// Output:
	// attempt 1 error again after 1ms
	// attempt 2 error again after 2ms
	// attempt 3 success again after 0s
}

// Settle reports when a stream has become quiet.
func ExampleSettle() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	activity := streams.Create(func(ctx context.Context, out streams.Sink[string]) {
		out.Send([]string{"something happened"})
		<-ctx.Done()
	})
	settled := operators.Settle(activity, operators.SettleOptions{
		Quiet: func() time.Duration { return 10 * time.Millisecond },
	})
	_ = streams.ForEach(ctx, settled, func(states []bool) {
		for _, calm := range states {
			fmt.Println("settled:", calm)
			if calm {
				cancel()
			}
		}
	}, nil)
	// Output:
	// settled: false
	// settled: true
}
