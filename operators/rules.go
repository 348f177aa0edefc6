package operators

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Rules is what [Trigger] goes by. It may be changed at any time, from any goroutine, and
// what is read of it is never locked: a batch of changes is judged by the rules as they
// were when it came. Make it with [NewRules].
type Rules struct {
	mu     sync.Mutex // of who changes it
	byKind atomic.Pointer[rulesByKind]
	all    *Rules // what it is a part of: see Of
	asks   *asks
}

// rulesByKind is one state of the rules. A rule keeps its pointer from Add to Remove.
type rulesByKind map[schema.GroupKind][]*Rule

// NewRules makes rules.
func NewRules(rules ...Rule) *Rules {
	made := &Rules{asks: newAsks()}
	made.all = made
	made.byKind.Store(&rulesByKind{})
	made.Add(rules...)
	return made
}

// Add adds rules. The changes that Trigger gets from then on go by them.
func (r *Rules) Add(rules ...Rule) {
	r.change(func(changed rulesByKind) {
		for _, rule := range rules {
			changed[rule.Kind] = append(changed[rule.Kind], &rule)
		}
	})
}

// Remove removes the rules of a controller, which are not asked again either. Requests that
// they made may still be in flight: see [Controllers].
func (r *Rules) Remove(controller string) {
	r.change(func(changed rulesByKind) {
		for kind, rules := range changed {
			kept := slices.DeleteFunc(rules, func(rule *Rule) bool { return rule.Controller == controller })
			if changed[kind] = kept; len(kept) == 0 {
				delete(changed, kind)
			}
		}
	})
	r.asks.remove(controller)
}

// Of returns the rules that a controller has now. A [Trigger] can ask them about changes of
// the past. Where they panic, [Retries] of all the rules asks them again.
func (r *Rules) Of(controller string) *Rules {
	part := &Rules{all: r.all, asks: r.asks}
	theirs := rulesByKind{}
	for kind, rules := range *r.byKind.Load() {
		for _, rule := range rules {
			if rule.Controller == controller {
				theirs[kind] = append(theirs[kind], rule)
			}
		}
	}
	part.byKind.Store(&theirs)
	return part
}

// Stats counts what rules are asked again: In are the objects for which a rule panicked first,
// Waiting those that wait for the rule to be asked again, Running those that it is asked about
// now, and Out the requests that come of it. An object for which a rule has panicked
// FailingAfter times in a row no longer counts as Waiting. See [Retries].
func (r *Rules) Stats() *StageStats { return &r.asks.flow }

// Unanswered returns for how many objects a rule is to be asked again, each rule by itself, and
// for how many of them it has panicked FailingAfter times in a row or more. See [Retries].
func (r *Rules) Unanswered() (objects, failing int) {
	r.asks.mu.Lock()
	defer r.asks.mu.Unlock()
	return len(r.asks.known), r.asks.failing
}

// failed notes that a rule panicked for a change.
func (r *Rules) failed(rule *Rule, change *streams.Change) {
	r.asks.failed(rule, change, func(rule *Rule) bool {
		return slices.Contains((*r.all.byKind.Load())[rule.Kind], rule)
	})
}

// change publishes a copy that is changed.
func (r *Rules) change(change func(rulesByKind)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := rulesByKind{}
	for kind, rules := range *r.byKind.Load() {
		changed[kind] = slices.Clone(rules)
	}
	change(changed)
	r.byKind.Store(&changed)
}
