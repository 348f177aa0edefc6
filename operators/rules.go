package operators

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Rules holds the rules that [Trigger] applies. It may be changed at any time, from any goroutine.
// Readers take no lock: the rules at the time when a batch of changes comes apply to that batch.
// Create it with [NewRules].
type Rules struct {
	mu     sync.Mutex // for writers; readers load byKind
	byKind atomic.Pointer[rulesByKind]
	all    *Rules // the rules that these are a part of: see Of
	asks   *asks
}

// rulesByKind is a snapshot of the rules. A rule keeps its pointer from Add to Remove.
type rulesByKind map[schema.GroupKind][]*Rule

// NewRules creates Rules that hold the given ones.
func NewRules(rules ...Rule) *Rules {
	made := &Rules{asks: newAsks()}
	made.all = made
	made.byKind.Store(&rulesByKind{})
	made.Add(rules...)
	return made
}

// Add adds rules. They apply to the changes that Trigger receives from then on.
func (r *Rules) Add(rules ...Rule) {
	r.change(func(changed rulesByKind) {
		for _, rule := range rules {
			changed[rule.Kind] = append(changed[rule.Kind], &rule)
		}
	})
}

// Remove removes the rules of a controller. Retries does not call them again either. Requests that
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

// ForController returns the current rules of a controller, for example for a [Trigger] over changes of the
// past. If a rule panics there, Retries of r calls it again.
func (r *Rules) ForController(controller string) *Rules {
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

// Stats returns the counts of the objects for which rules are called again: see [Retries].
//
// In counts the objects when a rule first panics for them. Waiting counts the objects that wait for
// another call of the rule. Running counts the objects for which the rule is being called. Out
// counts the requests that result. An object for which a rule has panicked FailingAfter times in a
// row no longer counts as Waiting.
func (r *Rules) Stats() *StageStats { return &r.asks.stats }

// PendingRetries returns the number of objects for which a rule panicked and has to be called again,
// summed over the rules. failing is the number of objects for which a rule has panicked at least
// FailingAfter times in a row. See [Retries].
func (r *Rules) PendingRetries() (objects, failing int) {
	r.asks.mu.Lock()
	defer r.asks.mu.Unlock()
	return len(r.asks.known), r.asks.failing
}

// failed records that a rule panicked for a change.
func (r *Rules) failed(rule *Rule, change *streams.Change) {
	r.asks.failed(rule, change, func(rule *Rule) bool {
		return slices.Contains((*r.all.byKind.Load())[rule.Kind], rule)
	})
}

// change publishes a changed copy.
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
