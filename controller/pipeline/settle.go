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

// Stirred implements [cache.Work]: it has FollowCalm look at the calm anew.
func (p *Pipeline) Stirred() {
	select {
	case p.active <- struct{}{}:
	default:
	}
}

// namedKeys bounds the keys that Failing names.
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

// Failing describes up to ten keys that failed three times in a row or more, with their errors.
func (p *Pipeline) Failing() (keys []string) {
	for _, key := range p.unfinished.Failing(namedKeys) {
		keys = append(keys, fmt.Sprintf("%s %s (failed %d times: %v)", key.Controller, key.NamespacedName, key.Failures, key.Err))
	}
	return keys
}

// CountUnfinished counts the keys of a controller whose last attempt did not succeed or asked for
// another one.
func (p *Pipeline) CountUnfinished(controller string) operators.UnfinishedCount {
	return p.unfinished.CountOf(controller)
}

// FollowCalm sets the cache to Settled each time that the pipeline has held nothing for the quiet
// period, until ctx ends. It is the only owner of that step; what ends a calm is noted in the cache
// by the stage where it happens.
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
		// The cache has the last word: it has seen what happened since Settle looked.
		if states[len(states)-1] && !held.Settle(held.Loop().QuietPeriod()) {
			p.Stirred()
		}
	}, func(error) {}) // A plain function makes the activity; it sends no errors.
}
