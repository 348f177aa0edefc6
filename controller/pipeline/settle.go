package pipeline

import (
	"context"
	"fmt"
	"strings"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// The pipeline is the work that the level of sync depends on.
var _ cache.Work = (*Pipeline)(nil)

// Busy implements [cache.Work].
func (p *Pipeline) Busy() bool {
	return p.eachHeld(func(string, string, int64) bool { return false })
}

// Unfinished implements [cache.Work].
func (p *Pipeline) Unfinished() bool {
	objects, _ := p.options.Rules.Unanswered()
	return objects > 0 || p.unfinished.Count().Keys > 0
}

// OnActivity implements [cache.Work]: it makes FollowCalm start the quiet period anew.
func (p *Pipeline) OnActivity() {
	select {
	case p.active <- struct{}{}:
	default:
	}
}

// namedKeys is the number of keys that Failing describes at most.
const namedKeys = 10

// Pending implements [cache.Work].
func (p *Pipeline) Pending(level cache.Level) (pending []string) {
	if level >= cache.Settled {
		p.eachHeld(func(stage, of string, held int64) bool {
			pending = append(pending, fmt.Sprintf("%s (%d)", strings.TrimSpace(stage+" "+of), held))
			return true
		})
	}
	if level >= cache.Converged {
		pending = append(pending, p.Failing()...)
		if count := p.unfinished.Count(); count.Keys > count.Failing+count.Terminal {
			pending = append(pending, fmt.Sprintf("keys that are due again (%d)", count.Keys-count.Failing-count.Terminal))
		}
		if _, failing := p.options.Rules.Unanswered(); failing > 0 {
			pending = append(pending, fmt.Sprintf("objects for which a map function fails (%d)", failing))
		}
	}
	return pending
}

// Failing returns descriptions of up to ten keys that failed three times in a row or more, with their
// errors.
func (p *Pipeline) Failing() (keys []string) {
	for _, key := range p.unfinished.Failing(namedKeys) {
		keys = append(keys, fmt.Sprintf("%s %s (failed %d times: %v)", key.Controller, key.NamespacedName, key.Failures, key.Err))
	}
	return keys
}

// CountUnfinished returns the number of the controller's keys whose last attempt did not succeed, or
// asked for another one.
func (p *Pipeline) CountUnfinished(controller string) operators.UnfinishedCount {
	return p.unfinished.CountOf(controller)
}

// FollowCalm sets the cache to Settled whenever the pipeline has held nothing for the quiet period,
// until ctx ends. Only FollowCalm takes that step. The stage where something happens marks the cache
// active, which takes the step back.
func (p *Pipeline) FollowCalm(ctx context.Context) error {
	held := p.options.Cache
	activity := streams.Create(func(ctx context.Context, out streams.Sink[struct{}]) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.active:
				out.Send([]struct{}{{}})
			}
		}
	})
	calm := operators.Settle(activity, operators.SettleOptions{Quiet: held.Loop().QuietPeriod, Busy: p.Busy})
	return streams.ForEach(ctx, calm, func(states []bool) {
		// The cache refuses if something happened since operators.Settle looked.
		if states[len(states)-1] && !held.Settle(held.Loop().QuietPeriod()) {
			p.OnActivity()
		}
	}, func(error) {}) // The activity is made by the function above, which sends no errors.
}
