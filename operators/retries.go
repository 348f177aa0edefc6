package operators

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// Retries asks rules again that panicked when [Trigger] asked them about a change, and sends
// the requests that come of it: run it beside Trigger, with [streams.MergeWith]. It asks again
// after a backoff, until the rule answers or is removed, and nobody but the rule that
// panicked. Each failure is a [streams.Error]. The stream ends with its context only.
//
// Without Retries a change is lost for a rule that panics: rules keep it from the call of
// Retries on. The request of a rule that answers counts as received when it was asked.
//
//	(rule panics for a) . (backoff) . (again) . (twice the backoff) . (it answers)  =>  . . . error . . [request a]
//
// It panics on a backoff out of its range: see [ReconcileOptions.Validate].
func Retries(rules *Rules, backoff Backoff) streams.Stream[Request] {
	backoff, err := backoff.withDefaults()
	if err != nil {
		panic(fmt.Errorf("retries: %w", err))
	}
	rules.asks.keep(backoff)
	return streams.Create(func(ctx context.Context, out streams.Sink[Request]) {
		asks := rules.asks
		defer asks.notify() // Another observation may have to go on.
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
			case <-asks.news:
			case <-timer.C:
				if !asks.askAll(out) {
					return
				}
			}
		}
	})
}

// askAll asks about all that is due. It is false when the observation has ended.
func (a *asks) askAll(out streams.Sink[Request]) bool {
	for {
		now := time.Now()
		taken, changes := a.take(now)
		if taken == nil {
			return true
		}
		requests, failed, errs := taken.again(changes, now)
		sent := out.Send(requests) // Also without any: whoever waits for the answer may look again.
		if !sent {
			failed = changes // For the next observation.
		} else {
			a.flow.Out.Add(int64(len(requests)))
		}
		a.giveBack(taken, failed, time.Now())
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

// again asks the rule about changes, and returns the requests of those that it answers, and the
// others.
func (k *ask) again(changes []streams.Change, now time.Time) (requests []Request, failed []streams.Change, errs []error) {
	for i := range changes {
		before := len(requests)
		if err := concerned(k.rule, &changes[i], &requests, before); err != nil {
			requests = requests[:before] // All of it is asked again.
			failed = append(failed, changes[i])
			errs = append(errs, failure(k.rule, &changes[i], err))
			continue
		}
		for j := before; j < len(requests); j++ {
			requests[j].Received = now
		}
	}
	return requests, failed, errs
}

// failure returns the error of a rule that panicked.
func failure(rule *Rule, change *streams.Change, err error) error {
	return &streams.Error{Source: "rule of " + rule.Controller, Key: change.Key, Err: err}
}
