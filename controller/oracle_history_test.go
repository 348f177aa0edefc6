package controller_test

import (
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"k8s.io/apimachinery/pkg/types"
)

// oracleThing is one name of a kind, with every state that a watch could have shown.
type oracleThing struct {
	letter byte
	kind   *oracleKind
	name   types.NamespacedName
	states []oracleState

	floor     int // the newest state that readers have seen
	delivered int // the newest state that a watch has delivered to the manager
}

// oracleState is one state of a thing: the token of its object, or "" if there was none.
type oracleState struct {
	token string
	until time.Time // zero while it lasts
}

func (t *oracleThing) now() string { return t.states[len(t.states)-1].token }

// become records that a state begins now, if it differs from the last one.
func (t *oracleThing) become(token string) {
	if t.now() != token {
		t.begin(token)
	}
}

func (t *oracleThing) begin(token string) {
	t.states[len(t.states)-1].until = time.Now()
	t.states = append(t.states, oracleState{token: token})
}

// find returns the index of the first state, at from or later, that has a token and lasted until
// after a time; -1 if there is none.
func (t *oracleThing) find(from int, token string, after time.Time) int {
	for place := from; place < len(t.states); place++ {
		state := &t.states[place]
		if state.token == token && (state.until.IsZero() || state.until.After(after)) {
			return place
		}
	}
	return -1
}

// visible returns the token of a thing at the server, or "" if the watches do not show the thing.
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

// watches reports whether the manager watches the namespace of a thing.
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

// look adds the current state of a thing to its history. Each key has one writer at a time, so no
// state is missed.
func (o *oracle) look(thing *oracleThing) { thing.become(o.visible(thing)) }

// read reads a thing from the cache, as reconcilers do, and checks that the reads do not go back in
// time. It returns "" if there is no object. The caller holds o.mu.
func (o *oracle) read(thing *oracleThing) (token string) {
	store := o.manager.Cache().Store(thing.kind.group)
	if store == nil {
		return ""
	}
	listed := store.Level() >= cache.Listed // Read before the object: until the first list its absence means nothing.
	if object, found := store.Get(thing.name); found {
		token = object.GetAnnotations()[oracleToken]
	}
	if !listed && token == "" {
		return ""
	}
	place := thing.find(thing.floor, token, time.Time{})
	if place < 0 { // An own write may not be in the history yet.
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

// wrote records an own write that was answered. From now on readers must see it, or a later state.
// The caller holds o.mu.
func (o *oracle) wrote(thing *oracleThing, token string) {
	o.look(thing)
	if place := thing.find(thing.floor, token, time.Time{}); place >= 0 { // Otherwise no watch shows the write.
		thing.floor = place
		o.read(thing)
	}
}

// came records an event that a watch has delivered.
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

// backUp records the state of the server. The caller holds o.mu.
func (o *oracle) backUp() {
	o.snapshot, o.snapshotGone = o.server.Snapshot(), nil
	for _, kind := range o.kinds {
		o.snapshotGone = append(o.snapshotGone, kind.gone)
	}
}

// restore restores the backup. Every state of the old timeline ends. The caller holds o.mu.
func (o *oracle) restore() {
	o.server.Restore(o.snapshot)
	for _, thing := range o.things {
		thing.begin(o.visible(thing))
	}
	for i, kind := range o.kinds {
		kind.gone = o.snapshotGone[i]
		for _, path := range kind.paths {
			path.behind, path.relisted = path.everListed, false
		}
	}
}

// quarantined reports whether a source may not have noticed yet that the versions went back. Until
// it has, the oracle allows no writes: if versions are used again before a source has asked, no
// client of the API can notice the restore. The caller holds o.mu.
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

// endQuarantine ends the quarantine of each path whose new list is in the cache. The caller holds
// o.mu, and all goroutines are blocked.
func (o *oracle) endQuarantine() {
	if o.mapping > 0 || o.handling > 0 {
		return // The new list may wait behind a map function or a result.
	}
	for _, kind := range o.kinds {
		for _, path := range kind.paths {
			path.behind = path.behind && !path.relisted
		}
	}
}
