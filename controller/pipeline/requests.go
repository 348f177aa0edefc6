package pipeline

import (
	"sync/atomic"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// trigger adds the stage that turns changes into requests, by the rules of the controllers. It merges
// in the requests of Enqueue and of rules that are retried.
func (p *Pipeline) trigger(changes streams.Stream[streams.Change]) streams.Stream[operators.Request] {
	rules := p.options.Rules
	retries := rules.Stats()
	var others atomic.Int64 // requests that no change made
	p.add(&stage{
		name: "trigger", in: p.sent, waiting: retries.Waiting.Load,
		out: func() int64 { return max(0, p.reconciles.In.Load()-others.Load()) },
		held: func(hold Hold) {
			hold("map functions that failed", retries.Waiting.Load()+retries.Running.Load())
			hold("requests of map functions that were retried", between(retries.Out.Load(), p.intake.retries.Load()))
			hold("requests of streams and of joining controllers", p.intake.asking.Load())
		},
	})
	count := func(requests streams.Stream[operators.Request], unpacked *int64) streams.Stream[operators.Request] {
		return streams.MapOnReceive(requests, func(batch []operators.Request) ([]operators.Request, error) {
			*unpacked += int64(len(batch))
			others.Add(int64(len(batch)))
			return batch, nil
		})
	}
	asked := count(streams.Create(p.asked.Drain), &p.intake.asked)
	retried := count(operators.Retries(rules, p.options.Reconcile.Backoff), &p.intake.retried)
	between := streams.MapOnReceive(streams.Create(p.steps.Drain), func(steps []func()) ([]operators.Request, error) {
		for _, step := range steps {
			step()
		}
		return nil, nil
	})
	return streams.MergeWith(operators.Trigger(changes, rules), streams.Merge(asked, retried, between))
}
