package controller_test

import (
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"k8s.io/apimachinery/pkg/types"
)

// oracleThing is one name of a kind, with every state that a watch of it could show.
type oracleThing struct {
	letter byte
	kind   *oracleKind
	name   types.NamespacedName
	states []oracleState

	floor     int // the newest state that readers have seen
	delivered int // the newest state that a watch has delivered to the manager
}

// oracleState is what a thing was for a time: the token of its object, or "" for nothing.
type oracleState struct {
	token string
	until time.Time // zero while it lasts
}

func (t *oracleThing) now() string { return t.states[len(t.states)-1].token }

// become notes a state that begins now.
func (t *oracleThing) become(token string) {
	if t.now() != token {
		t.begin(token)
	}
}

func (t *oracleThing) begin(token string) {
	t.states[len(t.states)-1].until = time.Now()
	t.states = append(t.states, oracleState{token: token})
}

// find returns the place of the first state, from a place on, that has a token and lasted
// until after a time; -1 if there is none.
func (t *oracleThing) find(from int, token string, after time.Time) int {
	for place := from; place < len(t.states); place++ {
		state := &t.states[place]
		if state.token == token && (state.until.IsZero() || state.until.After(after)) {
			return place
		}
	}
	return -1
}

// visible returns the token of an object of the server, as a watch shows it.
func (o *oracle) visible(thing *oracleThing) string {
	object := thing.kind.make(thing.name)
	if o.server.Get(object) != nil || !o.watches(thing) {
		return ""
	}
	if o.options.selects && thing.kind == o.configs && object.GetLabels()[oracleLabel] == "" {
		return ""
	}
	return object.GetAnnotations()[oracleToken]
}

// watches reports whether a namespace of the manager has the thing.
func (o *oracle) watches(thing *oracleThing) bool {
	if len(o.options.namespaces) == 0 || !thing.kind.namespaced {
		return true
	}
	for _, namespace := range o.options.namespaces {
		if namespace == thing.name.Namespace {
			return true
		}
	}
	return false
}

// look takes the present state of a thing into its history. Each key has one writer at a
// time, so that no state is missed.
func (o *oracle) look(thing *oracleThing) { thing.become(o.visible(thing)) }

// read reads a thing from the cache, as reconcilers do, and checks that its readers do not go
// back in time. It returns "" for nothing. The lock is held.
func (o *oracle) read(thing *oracleThing) (token string) {
	store := o.manager.Cache().Store(thing.kind.group)
	if store == nil {
		return ""
	}
	listed := store.Level() >= cache.Listed // Before the read: until the first list nothing is known.
	if object, found := store.Get(thing.name); found {
		token = object.GetAnnotations()[oracleToken]
	}
	if !listed && token == "" {
		return ""
	}
	place := thing.find(thing.floor, token, time.Time{})
	if place < 0 { // A write of ours may not be in the history yet.
		o.look(thing)
		place = thing.find(thing.floor, token, time.Time{})
	}
	if place < 0 {
		o.broken("readers of %c see %q after %q", thing.letter, token, thing.states[thing.floor].token)
		return token
	}
	thing.floor = place
	return token
}

// wrote notes an own write that was answered: readers see it, or something newer, from now on.
// The lock is held.
func (o *oracle) wrote(thing *oracleThing, token string) {
	o.look(thing)
	if place := thing.find(thing.floor, token, time.Time{}); place >= 0 { // Otherwise no watch shows it.
		thing.floor = place
		o.read(thing)
	}
}

// came notes an event that a watch has delivered.
func (o *oracle) came(thing *oracleThing, token string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	place := thing.find(thing.delivered, token, time.Time{})
	if place < 0 {
		o.look(thing)
		place = thing.find(thing.delivered, token, time.Time{})
	}
	thing.delivered = max(thing.delivered, place)
}

// backUp records the state of the server. The lock is held.
func (o *oracle) backUp() {
	o.snapshot, o.snapshotGone = o.server.Snapshot(), nil
	for _, kind := range o.kinds {
		o.snapshotGone = append(o.snapshotGone, kind.gone)
	}
}

// restore sets the server back. Every state of the old timeline ends. The lock is held.
func (o *oracle) restore() {
	o.server.Restore(o.snapshot)
	for _, thing := range o.things {
		thing.begin(o.visible(thing))
	}
	for i, kind := range o.kinds {
		kind.gone = o.snapshotGone[i]
		for _, path := range kind.paths {
			path.behind, path.relisted = path.told, false
		}
	}
}

// quarantined reports whether a source may not know yet that the versions went back. Until
// then nobody writes: where versions are used again before a source has looked, no client of
// the API can notice. The lock is held.
func (o *oracle) quarantined() bool {
	for _, kind := range o.kinds {
		for _, path := range kind.paths {
			if path.behind {
				return true
			}
		}
	}
	return false
}

// endQuarantine notes the sources whose new list is in the cache. The lock is held, and all
// are at rest.
func (o *oracle) endQuarantine() {
	if o.mapping > 0 || o.handling > 0 {
		return // The list may wait behind that.
	}
	for _, kind := range o.kinds {
		for _, path := range kind.paths {
			path.behind = path.behind && !path.relisted
		}
	}
}
