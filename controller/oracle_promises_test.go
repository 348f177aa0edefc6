package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"k8s.io/apimachinery/pkg/types"
)

// The checks in this file compare what the levels promise with what the server held at which time.
// They run while all goroutines are blocked.

// oracleFailures is the number of failures in a row after which a key is named as failing. A key
// with fewer failures counts as pending.
const oracleFailures = 3

// check checks the promises of the current level.
func (o *oracle) check() error {
	level := o.manager.Cache().Level()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.follow()
	o.endQuarantine()
	now := time.Now()
	uncounted := o.manager.Cache().NotCounted()
	o.checkUncounted(uncounted)
	if level >= cache.Listed {
		o.checkKinds(level, uncounted, now)
	}
	if level >= cache.Settled {
		o.checkSettled(level, uncounted, now)
	}
	if o.wrong != nil {
		return fmt.Errorf("at level %v: %w", level, o.wrong)
	}
	return nil
}

// follow reads all things from the cache and records whether one has changed. It resets the record
// of kinds that are not watched. The caller holds o.mu.
func (o *oracle) follow() {
	changed := false
	for i, thing := range o.things {
		held := o.read(thing)
		changed = changed || held != o.held[i] && o.manager.Cache().Store(thing.kind.group) != nil
		o.held[i] = held
	}
	for _, kind := range o.kinds {
		if o.manager.Cache().Store(kind.group) != nil {
			continue
		}
		kind.refused, kind.barred = false, false
		for _, path := range kind.paths {
			path.first, path.behind = time.Time{}, false
		}
	}
	for _, member := range o.members {
		for _, attempt := range member.attempts {
			if dropped := o.thing('l'); attempt.read[dropped] != "" && o.manager.Cache().Store(dropped.kind.group) == nil {
				attempt.read[dropped] = "" // A kind that is no longer wanted cannot be read.
			}
		}
	}
	if changed {
		o.changedAfter = o.restedAt
	}
	o.restedAt = time.Now()
}

// listed reports whether every path of a kind has had a complete list.
func (o *oracle) listed(kind *oracleKind) bool {
	namespaces := o.options.namespaces
	if len(namespaces) == 0 || !kind.namespaced {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		if kind.path(namespace).first.IsZero() {
			return false
		}
	}
	return true
}

// checkUncounted checks that a kind does not count if the server refuses it, and that every other
// kind counts, except for a kind on demand. While a map function or a result is in progress it
// checks nothing. A refusal, or the first list after one, may wait behind it.
func (o *oracle) checkUncounted(uncounted []string) {
	if o.mapping > 0 || o.handling > 0 {
		return
	}
	for _, kind := range o.kinds {
		if o.manager.Cache().Store(kind.group) == nil {
			continue
		}
		switch counts := !slices.Contains(uncounted, kind.group.String()); {
		case !counts && kind != o.demanded && (!kind.refused || o.listed(kind)):
			o.broken("%s does not count; it was refused: %v, and listed: %v", kind.resource, kind.refused, o.listed(kind))
		case counts && kind.barred && !o.anyListed(kind) && o.anyWorks():
			o.broken("%s counts, though the server refuses to list it", kind.resource)
		}
	}
}

// anyWorks reports whether the server refuses no kind of at least one controller. If no controller
// can work, refused kinds count.
func (o *oracle) anyWorks() bool {
	needs := map[string][]string{
		"configs": {"configmaps", "secrets"}, "nodes": {"nodes", "configmaps"}, "secrets": {"secrets"}, "accounts": {"serviceaccounts", "secrets"},
	}
	for name := range o.members {
		if !slices.ContainsFunc(o.kinds, func(kind *oracleKind) bool {
			return slices.Contains(needs[name], kind.resource) && kind.refused && !o.listed(kind)
		}) {
			return true
		}
	}
	return false
}

// anyListed reports whether at least one path of a kind has had a complete list.
func (o *oracle) anyListed(kind *oracleKind) bool {
	for _, path := range kind.paths {
		if !path.first.IsZero() {
			return true
		}
	}
	return false
}

// checkKinds checks the promises of Listed and Current for each kind that counts.
func (o *oracle) checkKinds(level cache.Level, uncounted []string, now time.Time) {
	for _, kind := range o.kinds {
		store := o.manager.Cache().Store(kind.group)
		if store == nil || slices.Contains(uncounted, kind.group.String()) {
			continue
		}
		if !o.listed(kind) {
			o.broken("%s counts, and was not listed", kind.resource)
		}
		for i, thing := range o.things {
			if thing.kind != kind || !o.watches(thing) {
				continue
			}
			path := kind.path(o.pathOf(thing))
			if thing.find(0, o.held[i], path.first.Add(-1)) < 0 {
				o.broken("%c is %q in the cache, which is older than the first list", thing.letter, o.held[i])
			}
			if level >= cache.Current && thing.find(0, o.held[i], now.Add(-o.options.staleness-o.options.slack)) < 0 {
				o.broken("%c is %q in the cache, and has not been that at the server for longer than %v: it is %q", thing.letter, o.held[i], o.options.staleness, thing.now())
			}
		}
	}
}

func (o *oracle) pathOf(thing *oracleThing) string {
	if len(o.options.namespaces) == 0 {
		return ""
	}
	return thing.name.Namespace
}

// checkSettled checks what Settled and Converged promise.
func (o *oracle) checkSettled(level cache.Level, uncounted []string, now time.Time) {
	if o.mapping > 0 {
		o.broken("%d map functions are running", o.mapping)
	}
	if o.handling > 0 {
		o.broken("%d results are being handled", o.handling)
	}
	if pending := o.manager.Cache().Pending(cache.Settled); len(pending) > 0 {
		o.broken("pending is %q", pending)
	}
	if calm, quiet := now.Sub(o.changedAfter), o.manager.Cache().Loop().QuietPeriod(); calm < quiet {
		o.broken("the cache changed at most %v ago, and the quiet period is %v", calm, quiet)
	}
	for i, thing := range o.things {
		store := o.manager.Cache().Store(thing.kind.group)
		if store == nil || slices.Contains(uncounted, thing.kind.group.String()) || !o.watches(thing) {
			continue
		}
		path := thing.kind.path(o.pathOf(thing))
		if thing.find(thing.delivered, o.held[i], path.listed.Add(-1)) < 0 {
			o.broken("%c is %q in the cache, and was delivered as %q", thing.letter, o.held[i], thing.states[thing.delivered].token)
		}
	}
	named := o.manager.Cache().Pending(cache.Converged)
	for _, member := range o.members {
		if !member.leaving {
			o.checkMember(level, member, uncounted, named)
		}
	}
}

// checkMember checks that a controller has nothing left to do.
func (o *oracle) checkMember(level cache.Level, member *oracleMember, uncounted, named []string) {
	if member.running > 0 {
		o.broken("%s has %d attempts in flight", member.name, member.running)
	}
	for key, attempt := range member.attempts {
		backsOff := attempt.failed && !attempt.terminal
		switch {
		case backsOff && attempt.failures < oracleFailures:
			o.broken("%s of %s has failed %d times, and waits", key, member.name, attempt.failures)
		case backsOff && len(named) < 10 && !o.names(named, member, key):
			o.broken("%s of %s keeps failing, and pending is %q", key, member.name, named)
		}
		if level >= cache.Converged && (attempt.failed || attempt.again) {
			o.broken("%s of %s failed: %v, or asked for another attempt: %v", key, member.name, attempt.failed, attempt.again)
		}
	}
	for _, kind := range o.kinds {
		if slices.Contains(oracleNeeds[member.name], kind.resource) && slices.Contains(uncounted, kind.group.String()) {
			return // It waits for that kind.
		}
	}
	for letter, reads := range oracleKeys[member.name] {
		o.checkRead(member, letter, reads)
	}
}

func (o *oracle) names(named []string, member *oracleMember, key types.NamespacedName) bool {
	return slices.ContainsFunc(named, func(line string) bool { return strings.Contains(line, member.name+" "+key.String()+" ") })
}

// checkRead checks that the last attempt of a key has read what the cache holds now. A key that
// backs off after several failures may be behind.
func (o *oracle) checkRead(member *oracleMember, letter byte, reads string) {
	attempt := member.attempts[o.thing(letter).name]
	if attempt != nil && attempt.failed && !attempt.terminal && attempt.failures >= oracleFailures {
		return
	}
	for _, each := range reads {
		thing := o.thing(byte(each))
		held := o.held[each-'a']
		if store := o.manager.Cache().Store(thing.kind.group); store == nil || thing.kind == o.demanded && store.Level() < cache.Current {
			continue
		}
		switch {
		case attempt == nil && held != "":
			o.broken("%s has never reconciled %c, though the cache holds %c as %q", member.name, letter, each, held)
		case attempt != nil && attempt.read[thing] != held:
			o.broken("the last attempt of %s for %c has read %c as %q, and the cache holds %q", member.name, letter, each, attempt.read[thing], held)
		}
	}
}
