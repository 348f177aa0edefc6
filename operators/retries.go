package operators

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// Retries calls rules that panicked in [Trigger] again, with the same change, and emits the
// resulting requests. Run it beside Trigger, with [streams.MergeWith]. It calls the rule that
// panicked, and no other one, after a backoff, until the rule returns or is removed. Each failure
// is emitted as a [streams.Error]. The stream ends with its context only.
//
// Without Retries, a rule that panics misses the change: changes are kept for rules from the call
// of Retries on. A request that results counts as received when the rule was called again.
//
//	(rule panics for a) . (backoff) . (again) . (twice the backoff) . (it returns)  =>  . . . error . . [request a]
//
// It panics if the backoff is out of its range: see [ReconcileOptions.Validate].
func Retries(rules *Rules, backoff Backoff) streams.Stream[Request] {
	backoff, err := backoff.withDefaults()
	if err != nil {
		panic(fmt.Errorf("retries: %w", err))
	}
	rules.asks.keep(backoff)
	return streams.Create(func(ctx context.Context, out streams.Sink[Request]) {
		asks := rules.asks
		defer asks.notify() // Another observation may have to take over.
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		for {
			timer.Stop()
			if due, found := asks.next(); found {
				timer.Reset(time.Until(due))
			}
			select {
			case <-ctx.Done():
				return
			case <-asks.wake:
			case <-timer.C:
				if !asks.askAll(out) {
					return
				}
			}
		}
	})
}

// askAll calls the rules of all asks that are due. It returns false when the observation has ended.
func (a *asks) askAll(out streams.Sink[Request]) bool {
	for {
		now := time.Now()
		taken, changes := a.take(now)
		if taken == nil {
			return true
		}
		requests, failed, errs := taken.again(changes, now)
		sent := out.Send(requests) // Also without requests: a receiver that waits for the answer may look again.
		if !sent {
			failed = changes // For the next observation.
		} else {
			a.stats.Out.Add(int64(len(requests)))
		}
		a.giveBack(taken, failed, time.Now())
		sent = sent && out.Send(nil) // The receiver may look again: the ask is done only now.
		for _, err := range errs {
			if !sent || !out.Error(err) {
				return false
			}
		}
		if !sent {
			return false
		}
	}
}

// again calls the rule for changes. It returns the requests of the changes for which the rule
// returns, and the changes for which it panics.
func (k *ask) again(changes []streams.Change, now time.Time) (requests []Request, failed []streams.Change, errs []error) {
	for i := range changes {
		before := len(requests)
		if err := mapChange(k.rule, &changes[i], &requests, before); err != nil {
			requests = requests[:before] // The rule is called again for all objects of the change.
			failed = append(failed, changes[i])
			errs = append(errs, ruleError(k.rule, &changes[i], err))
			continue
		}
		for j := before; j < len(requests); j++ {
			requests[j].Received = now
		}
	}
	return requests, failed, errs
}

// ruleError returns the error of a rule that panicked.
func ruleError(rule *Rule, change *streams.Change, err error) error {
	return &streams.Error{Source: "rule of " + rule.Controller, Key: change.Key, Err: err}
}
