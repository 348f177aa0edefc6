package operators

import (
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Rules is what [Trigger] goes by. It may be changed at any time, from any goroutine, and
// what is read of it is never locked: a batch of changes is judged by the rules as they
// were when it came. Make it with [NewRules].
type Rules struct {
	mu     sync.Mutex // of who changes it
	byKind atomic.Pointer[rulesByKind]
}

type rulesByKind map[schema.GroupKind][]Rule

// NewRules makes rules.
func NewRules(rules ...Rule) *Rules {
	made := &Rules{}
	made.byKind.Store(&rulesByKind{})
	made.Add(rules...)
	return made
}

// Add adds rules. The changes that Trigger gets from then on go by them.
func (r *Rules) Add(rules ...Rule) {
	r.change(func(changed rulesByKind) {
		for _, rule := range rules {
			changed[rule.Kind] = append(changed[rule.Kind], rule)
		}
	})
}

// Remove removes the rules of a controller. What they have asked for may still be on its
// way: see [Controllers].
func (r *Rules) Remove(controller string) {
	r.change(func(changed rulesByKind) {
		for kind, rules := range changed {
			kept := slices.DeleteFunc(rules, func(rule Rule) bool { return rule.Controller == controller })
			if changed[kind] = kept; len(kept) == 0 {
				delete(changed, kind)
			}
		}
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
