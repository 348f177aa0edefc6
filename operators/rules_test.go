package operators_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

func TestRulesThatComeAndGoCountForTheChangesAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newFeed[streams.Change]()
		rules := operators.NewRules(self)
		var got []string
		reader := parallel(t, func(ctx context.Context) {
			_ = streams.ForEach(ctx, operators.Trigger(in.stream(), rules),
				func(requests []operators.Request) {
					for _, request := range requests {
						got = append(got, requested(request))
					}
				}, func(err error) { t.Error(err) })
		})
		in.send(change(1, nil, owned("a", "!x")))
		rules.Add(owners, operators.Rule{Controller: "sets", Kind: setKind})
		in.send(change(2, nil, owned("a", "!x")))
		rules.Remove("pods")
		in.send(change(3, nil, owned("a", "!x")))
		rules.Remove("nobody")
		rules.Remove("sets")
		in.send(change(4, nil, owned("a", "!x")))
		rules.Add(self)
		in.send(change(5, nil, owned("a", "!x")))
		close(in)
		_ = reader.Wait()
		if want := []string{"pods/a(1)", "pods/a(2)", "sets/x(2)", "sets/x(3)", "pods/a(5)"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// Run this test with -race.
func TestRulesMayChangeWhileTheyAreApplied(t *testing.T) {
	rules := operators.NewRules(self)
	changing := lifecycle.New(t.Context())
	for _, rule := range []operators.Rule{owners, {Controller: "others", Kind: podKind}} {
		changing.Go("change", func(ctx context.Context) error {
			for ctx.Err() == nil {
				rules.Add(rule)
				rules.Remove(rule.Controller)
			}
			return nil
		})
	}
	for range 1000 {
		got := 0
		requests, errs := streams.Collect(t.Context(), operators.Trigger(streams.Of(change(1, nil, owned("a", "!x"))), rules))
		for _, request := range requests {
			if request.Controller == "pods" {
				got++
			}
		}
		if len(errs) > 0 || got != 1 {
			t.Fatalf("a rule that stays asked for %v: %v", requests, errs)
		}
	}
	changing.Stop()
	_ = changing.Wait()
}
