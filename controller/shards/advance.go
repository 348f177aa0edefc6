package shards

import (
	"slices"
	"time"
)

// slotState is what a slot is to a member.
type slotState uint8

const (
	free      slotState = iota
	claimed             // the claim is to be stored, or is stored and not checked
	confirmed           // no other living member claims it, and its objects are to be read
	owning              // work may begin
	draining            // no more work begins, and the claim is withdrawn when the work in flight has ended
)

// step is what a member has to do next.
type step struct {
	joined bool      // the Lease is held
	wanted Set       // the slots to claim
	check  bool      // a stored claim is to be checked against the claims of others
	next   time.Time // when the Lease of another member expires, or zero
}

// advance moves each slot to its next state. checked is when the Leases were listed, or zero. Claims that were
// stored before are then confirmed, unless the list shows the same claim of another member that was living at
// that time. A Lease that has expired since may have been renewed after the list.
func (m *Member) advance(now time.Time, leaving bool, checked time.Time) (next step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.term != nil && !m.term.allows(now) {
		m.lose()
	}
	m.counts.Members = 0
	if m.term == nil {
		return step{wanted: m.draining(now)}
	}
	if next.joined, next.check = true, m.mayLag; m.view.listed {
		at := now
		if !checked.IsZero() {
			at = checked
		}
		next.check = m.advanceSlots(at, leaving, !checked.IsZero()) || m.mayLag
	}
	for slot, state := range m.states {
		if state != free {
			next.wanted.add(slot)
		}
	}
	next.next = m.view.next(now)
	for slot, state := range m.states {
		if state == draining && m.isHeld(slot, now) && (next.next.IsZero() || m.held[slot].Before(next.next)) {
			next.next = m.held[slot]
		}
	}
	return next
}

// isHeld reports whether a write of the past may still take effect in a slot. The claim of the slot is kept for so long.
func (m *Member) isHeld(slot int, at time.Time) bool { return at.Before(m.held[slot]) }

// hold keeps the claim of a slot until a time.
func (m *Member) hold(slot int, until time.Time) {
	if m.held[slot].Before(until) {
		m.held[slot] = until
	}
}

// given returns the state of a slot in which no work has begun, and that is given away.
func (m *Member) given(slot int, at time.Time) slotState {
	if m.isHeld(slot, at) {
		return draining
	}
	return free
}

// draining returns the slots of a lost term that are claimed until it could have ended for others. The caller holds the lock.
func (m *Member) draining(now time.Time) (slots Set) {
	for slot := range m.states {
		if m.isHeld(slot, now) {
			m.states[slot] = draining
			slots.add(slot)
		} else {
			m.states[slot] = free
		}
	}
	return slots
}

// advanceSlots moves each slot to its next state, by the members that are living now. The caller holds the
// lock.
func (m *Member) advanceSlots(at time.Time, leaving, checked bool) (check bool) {
	var taken, before Set // claimed by others, and by others whose identities sort first
	var members []string
	for _, other := range m.view.living(at) {
		for slot := range other.Slots.All() {
			taken.add(slot)
			if other.Identity < m.options.Identity {
				before.add(slot)
			}
		}
		if !other.Leaving && !other.gone {
			members = append(members, other.Identity)
		}
	}
	if !leaving {
		members = append(members, m.options.Identity)
	}
	m.counts.Members = len(members)
	slices.Sort(members)
	if !slices.Equal(members, m.members) {
		m.members, m.target = members, Set{}
		if owner, exists := owners(members); exists {
			for slot, of := range owner {
				if members[of] == m.options.Identity {
					m.target.add(slot)
				}
			}
		}
	}
	for slot, state := range m.states {
		mine := m.target.Has(slot)
		stored := m.published.Has(slot)
		switch {
		case state == free && mine && !taken.Has(slot):
			m.states[slot] = claimed
		case state == claimed && (!mine || stored && before.Has(slot)):
			m.states[slot] = m.given(slot, at)
		case state == claimed && stored && !taken.Has(slot) && checked:
			m.states[slot] = confirmed
		case state == claimed && stored && !taken.Has(slot):
			check = true
		case state == confirmed && !mine:
			m.states[slot] = m.given(slot, at)
		case state == draining && mine && m.term.busy[slot] == 0 && m.isHeld(slot, at): // No other member is to have it.
			m.states[slot] = claimed
		case state == owning && !mine, state == draining:
			if m.states[slot] = draining; m.term.busy[slot] == 0 && !m.isHeld(slot, at) {
				m.states[slot] = free
				m.counts.Released++
			}
		}
	}
	return check
}

// lose gives all slots up. A request that the API server has accepted may take effect until the Lease would have expired for
// others. So the slots are claimed until then, also if the member is back before that. The caller holds the lock.
func (m *Member) lose() {
	m.log.Warn("the Lease of this replica was not renewed in time; giving all keys up", "identity", m.options.Identity)
	now, until := time.Now(), m.term.until()
	for slot, state := range m.states {
		if state == owning || state == draining && !m.isHeld(slot, now) { // Otherwise it was lost before, and has not come back.
			m.counts.Lost++
		}
		if state >= owning {
			m.hold(slot, until)
		}
		if m.states[slot] = free; m.isHeld(slot, now) {
			m.states[slot] = draining
		}
	}
	m.term.end()
	m.term = nil
	m.published = Set{}
}

// Counts describes a member.
type Counts struct {
	Members                int // that share the slots, as far as this member sees; 0 while it has not joined
	Owned                  int // slots
	Gained, Released, Lost int // slots so far: taken over, handed over, and lost since the Lease was not renewed
}

// Counts returns the counts of the member.
func (m *Member) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := m.counts
	for _, state := range m.states {
		if state == owning {
			counts.Owned++
		}
	}
	return counts
}
