package controller

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/internal/election"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Unsharded makes the controller reconcile all objects, on every replica, although Options.Shards is set. Its
// kinds are cached whole.
func Unsharded() Option { return option(func(d *definition) { d.unsharded = true }) }

// OnRelease calls a function when this replica has given objects up to other replicas: see Options.Shards. keeps
// reports whether the replica keeps an object. What an operator holds for the others ends there, such as
// connections. While the function runs, no reconcile of these objects does, and one call is made at a time. So
// it should return soon. It is not called without shards, nor when the controller ends.
func OnRelease(release func(keeps func(types.NamespacedName) bool)) Option {
	return option(func(d *definition) { d.release = release })
}

// share is the part of the work that a replica has: see Options.Shards. It implements shards.Share.
type share struct {
	manager     *Manager
	member      *shards.Member
	byNamespace bool

	mu      sync.Mutex
	kept    shards.Set          // slots whose objects the cache holds, or is to hold
	since   [shards.Slots]int64 // of kept: the number with which the slot came
	number  int64               // counts how often the share has grown; see streams.Selection
	begun   bool                // there was a slot
	owned   shards.Set
	changed chan struct{} // closed when kept or owned changes, or a controller is located
}

// newShare creates the share of a manager.
func newShare(m *Manager, options shards.Options) (*share, error) {
	made := &share{manager: m, byNamespace: options.ByNamespace, changed: make(chan struct{})}
	var err error
	made.member, err = shards.New(m.config, m.http, options, made, m.log)
	return made, err
}

// slotOf returns the slot of a reconciled object.
func (s *share) slotOf(object types.NamespacedName) int {
	if s.byNamespace && object.Namespace != "" {
		return shards.SlotOfNamespace(object.Namespace)
	}
	return shards.SlotOf(object.String())
}

// Keep implements shards.Share.
func (s *share) Keep(slots shards.Set) {
	s.mu.Lock()
	if gained := slots.Without(s.kept); gained != (shards.Set{}) {
		s.begun = true
		s.number++
		for slot := range gained.All() {
			s.since[slot] = s.number
		}
	}
	s.kept = slots
	s.notify()
	s.mu.Unlock()
	s.manager.cache.MarkActive()
	s.reselect()
}

// Own implements shards.Share.
func (s *share) Own(slots shards.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned = slots
	s.notify()
}

// notify wakes what follows the share. The caller holds the lock.
func (s *share) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Keys implements shards.Share: it counts the objects in the cache that sharded controllers reconcile.
func (s *share) Keys() (keys int) {
	counted := map[*watched]bool{}
	for _, member := range s.manager.present.Load().members {
		if member.shared == nil || counted[member.shared.reconciled] {
			continue
		}
		counted[member.shared.reconciled] = true
		if store := member.shared.reconciled.store(); store != nil {
			keys += store.Len()
		}
	}
	return keys
}

// shared holds what belongs to the share of a sharded controller.
type shared struct {
	reconciled *watched
	rules      []shareRule
	ctx        context.Context                             // ends with the controller
	located    bool                                        // whether the scope of the reconciled kind is known, or cannot be known now
	ready      [shards.Slots]int64                         // the number with which a slot came whose objects are read; 0 for none
	release    func(keeps func(types.NamespacedName) bool) // see OnRelease; may be nil
	held       shards.Set                                  // the slots whose objects were not released
}

// shareRule says which objects of a kind belong to the share, for one controller.
type shareRule struct {
	of     *watched
	owners func(streams.Object) []types.NamespacedName // nil for the object itself
	whole  bool                                        // all objects belong to it
	from   int64                                       // the number of the selection with which the rule came
}

// newShared returns the rules for the inputs of a controller. watches has the watch of each input.
func newShared(reconciled *watched, inputs []*input, watches []*watched) *shared {
	made := &shared{reconciled: reconciled}
	for i, input := range inputs {
		rule := shareRule{of: watches[i], whole: input.mapFunc != nil || input.changes != nil || input.onDemand}
		if i > 0 && !rule.whole {
			rule.owners = ownerOf(reconciled.kind)
		}
		made.rules = append(made.rules, rule)
	}
	return made
}

// since returns the number of the selection from which on an object belongs to the share by the rule.
func (r *shareRule) since(object streams.Object, of *selected) (since int64, kept bool) {
	if r.whole {
		return r.from, true
	}
	names := []types.NamespacedName{nameOf(object)}
	if r.owners != nil {
		if names = r.owners(object); len(names) == 0 {
			return r.from, true // Its owner is not known, so it may concern any replica.
		}
	}
	for _, name := range names {
		if slot := of.slotOf(name); of.kept.Has(slot) {
			return max(r.from, of.since[slot]), true
		}
	}
	return 0, false
}

// selected is an immutable snapshot of a share, for one kind.
type selected struct {
	kept   shards.Set
	since  [shards.Slots]int64
	slotOf func(types.NamespacedName) int
	rules  []shareRule
}

// keeps returns what streams.Selection.Keeps returns.
func (s *selected) keeps(object streams.Object) (since int64, kept bool) {
	for i := range s.rules {
		if from, keeps := s.rules[i].since(object, s); keeps && (!kept || from < since) {
			since, kept = from, true
		}
	}
	return since, kept
}

// reselect sets the selection of each kind. It is called when the share or the controllers have changed.
func (s *share) reselect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := s.manager.present.Load()
	for _, watched := range present.watches {
		s.selectOf(watched, present)
	}
}

// selectOf sets the selection of a kind. It sets none before it is known what to select: then the watch
// waits. The caller holds the lock.
func (s *share) selectOf(watched *watched, present *present) {
	store := watched.store()
	rules, whole := s.rulesOf(watched, present)
	if store == nil || len(rules) == 0 || !whole && !s.begun {
		return
	}
	made := &selected{kept: s.kept, since: s.since, slotOf: s.slotOf, rules: rules}
	selection := &streams.Selection{Number: made.number(whole), Keeps: made.keeps}
	if s.byNamespace && !whole {
		selection.Server = selectorOf(s.kept)
	}
	store.Select(selection)
	watched.options.Selecting.Set(selection)
}

// rulesOf returns the rules for the objects of a kind, and whether one of them keeps all objects. It returns
// none while a rule is not known so far. The caller holds the lock.
func (s *share) rulesOf(watched *watched, present *present) (rules []shareRule, whole bool) {
	for _, member := range present.members {
		switch needs := slices.Contains(member.watches, watched) || slices.Contains(member.optional, watched); {
		case needs && member.shared == nil:
			rules, whole = append(rules, shareRule{of: watched, whole: true, from: member.from}), true
		case needs && !member.shared.located:
			return nil, false
		case needs:
			for _, rule := range member.shared.rules {
				if rule.of == watched {
					rules, whole = append(rules, rule), whole || rule.whole
				}
			}
		}
	}
	return rules, whole
}

// number returns the number of the last growth of the selection.
func (s *selected) number(whole bool) (number int64) {
	for _, rule := range s.rules {
		switch {
		case !whole:
			number = max(number, rule.from)
		case rule.whole && (number == 0 || rule.from < number):
			number = rule.from
		}
	}
	if !whole {
		for slot := range s.kept.All() {
			number = max(number, s.since[slot])
		}
	}
	return number
}

// selectorOf returns the selector with which an API server sends the objects of the namespaces of slots: see
// metav1.ListOptions.ShardSelector. It also selects the objects without a namespace.
func selectorOf(slots shards.Set) string {
	const width, field = 64 - 8, "object.metadata.namespace" // 256 slots by the highest 8 bits
	unscoped := uint64(0xcbf29ce484222325)                   // the hash of the empty namespace
	ranges := []string{fmt.Sprintf("shardRange(%s, '0x%016x', '0x%016x')", field, unscoped, unscoped+1)}
	for first := 0; first < shards.Slots; first++ {
		if !slots.Has(first) {
			continue
		}
		last := first
		for last+1 < shards.Slots && slots.Has(last+1) {
			last++
		}
		end := fmt.Sprintf("0x%016x", uint64(last+1)<<width)
		if last+1 == shards.Slots {
			end = "0x10000000000000000"
		}
		ranges = append(ranges, fmt.Sprintf("shardRange(%s, '0x%016x', '%s')", field, uint64(first)<<width, end))
		first = last
	}
	return strings.Join(ranges, " || ")
}

// reselect sets the selection of each kind, if the work is shared.
func (m *Manager) reselect() {
	if m.share != nil {
		m.share.reselect()
	}
}

// joins records that a controller is added. Its rules count from then on. The caller holds m.changing.
func (s *share) joins(added *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	if added.from = s.number; added.shared != nil {
		for i := range added.shared.rules {
			added.shared.rules[i].from = s.number
		}
	}
}

// fence is a transport that refuses the writes of a reconcile whose object another replica may reconcile. The API server
// gives the others up before that.
type fence struct{ next http.RoundTripper }

var _ utilnet.RoundTripperWrapper = fence{}

// fenced returns a client whose writes are fenced.
func fenced(client *http.Client) *http.Client {
	return over(client, func(next http.RoundTripper) http.RoundTripper { return fence{next} })
}

// WrappedRoundTripper returns the transport behind the fence.
func (f fence) WrappedRoundTripper() http.RoundTripper { return f.next }

// RoundTrip sends a request, or refuses it.
func (f fence) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		return f.next.RoundTrip(request)
	}
	write, err := shards.BeginWrite(request.Context())
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("the write was not sent: %w", err)
	}
	if write == nil {
		return f.next.RoundTrip(request)
	}
	var until time.Time
	defer func() { write.End(until) }()
	return election.Bounded(f.next, request, write.Left, write.Spare, func(at time.Time) { until = at })
}
