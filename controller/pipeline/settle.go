package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/internal/secrets"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// The pipeline is the work that the level of sync depends on.
var _ cache.Work = (*Pipeline)(nil)

// Busy implements [cache.Work].
func (p *Pipeline) Busy() bool {
	return p.eachHeld(func(string, string, int64) bool { return false })
}

// Unfinished implements [cache.Work].
func (p *Pipeline) Unfinished() bool {
	objects, _ := p.options.Rules.PendingRetries()
	return objects > 0 || p.unfinished.Count().Keys > 0
}

// OnActivity implements [cache.Work]: it makes TrackQuiet wait for another quiet period. While
// TrackQuiet waits, it asks the cache for the last activity instead: waking it up for each batch
// costs CPU.
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
		if _, failing := p.options.Rules.PendingRetries(); failing > 0 {
			pending = append(pending, fmt.Sprintf("objects for which a map function fails (%d)", failing))
		}
	}
	return pending
}

// Failing returns descriptions of up to ten keys that failed three times in a row or more. They have the
// reasons of the errors without their messages, because each client may read the readiness, and messages
// may quote objects.
func (p *Pipeline) Failing() (keys []string) {
	for _, key := range p.unfinished.Failing(namedKeys) {
		keys = append(keys, fmt.Sprintf("%s %s (failed %d times, at last by %s; the log has the error)", key.Controller, key.NamespacedName, key.Failures, reasonOf(key.Err)))
	}
	return keys
}

// Failure describes a key whose last attempt failed, without the message of the error.
type Failure struct {
	operators.UnfinishedKey
	Reason string // a word, such as Conflict or "a panic"
}

// Failures returns the first most keys of a controller whose last attempt failed.
func (p *Pipeline) Failures(controller string, most int) (failures []Failure) {
	for _, key := range p.unfinished.FailedOf(controller, most) {
		failures = append(failures, Failure{key, reasonOf(key.Err)})
	}
	return failures
}

// reasonOf returns a short word for an error.
func reasonOf(err error) string {
	var panicked *lifecycle.PanicError
	switch reason := secrets.ReasonOf(err); {
	case errors.As(err, &panicked):
		return "a panic"
	case errors.Is(err, operators.ErrTimeout):
		return "its timeout"
	case reason != "":
		return reason
	}
	return "an error"
}

// UnfinishedOf returns the controller's objects whose last attempt did not succeed, or asked for another
// one, in no order.
func (p *Pipeline) UnfinishedOf(controller string) []types.NamespacedName {
	return p.unfinished.ObjectsOf(controller)
}

// CountUnfinished returns the number of the controller's keys whose last attempt did not succeed, or
// asked for another one.
func (p *Pipeline) CountUnfinished(controller string) operators.UnfinishedCount {
	return p.unfinished.CountOf(controller)
}

// TrackQuiet sets the cache to Settled whenever the pipeline has held nothing for the quiet period,
// until ctx ends. Only TrackQuiet takes that step. The stage where something happens marks the cache
// active, which takes the step back.
func (p *Pipeline) TrackQuiet(ctx context.Context) error {
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
	calm := operators.Settle(activity, operators.SettleOptions{Quiet: held.Loop().QuietPeriod, Busy: p.Busy, Last: held.LastActive})
	return streams.ForEach(ctx, calm, func(states []bool) {
		// The cache refuses if something happened since operators.Settle looked.
		if states[len(states)-1] && !held.Settle(held.Loop().QuietPeriod()) {
			p.OnActivity()
		}
	}, func(error) {}) // The activity is made by the function above, which sends no errors.
}
