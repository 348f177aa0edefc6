package shards

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	coordinationv1 "k8s.io/api/coordination/v1"
)

// view is what a member has seen of the Leases. It has no clock and starts no timers.
type view struct {
	own     string           // the name of the member's own Lease
	others  map[string]*seen // by the name of the Lease
	listing []*coordinationv1.Lease
	asked   time.Time // when the list was requested that is coming in
	listed  bool      // a list is in
	deleted map[string]deletion
}

// deletion says which Lease was deleted.
type deletion struct {
	version string // of the deletion
	seen    time.Time
}

// seen is another member's Lease.
type seen struct {
	Claim
	lease   *coordinationv1.Lease
	version string
	changed time.Time // when its last change was seen
	gone    bool      // the Lease was deleted, which does not end its claims
}

// expires returns when the Lease counts as expired, unless it changes.
func (s *seen) expires() time.Time { return s.changed.Add(s.Duration) }

// apply takes in an event of the watch.
func (v *view) apply(event *streams.Event, now time.Time) {
	lease, _ := event.Object.(*coordinationv1.Lease)
	switch event.Type {
	case streams.ListStart:
		v.listing, v.asked = nil, event.Received
	case streams.Listed:
		v.listing = append(v.listing, lease)
	case streams.ListEnd:
		v.replace(v.listing, v.asked, now)
		v.listing = nil
	case streams.Applied:
		if known := v.others[lease.Name]; known == nil || !streams.IsOlderVersion(lease.ResourceVersion, known.version) {
			v.put(lease, now)
		}
	case streams.Deleted:
		known := v.others[lease.Name]
		v.deleted[lease.Name] = deletion{event.ResourceVersion, now}
		v.remove(lease.Name, known != nil && (lease.Spec.RenewTime == nil || !lease.Spec.RenewTime.Time.Equal(known.Renewed)), now)
	}
}

// replace takes in a list. What was seen after the list was requested, and is newer, stays.
func (v *view) replace(leases []*coordinationv1.Lease, asked, now time.Time) {
	listed := map[string]bool{}
	for _, lease := range leases {
		listed[lease.Name] = true
		known := v.others[lease.Name]
		gone, wasDeleted := v.deleted[lease.Name]
		switch {
		case wasDeleted && !gone.seen.Before(asked) && streams.IsOlderVersion(lease.ResourceVersion, gone.version):
			// The Lease was deleted while the list was in flight. Its claims would count for its duration again.
		case known == nil || known.changed.Before(asked) || !streams.IsOlderVersion(lease.ResourceVersion, known.version):
			v.put(lease, now)
		}
	}
	maps.DeleteFunc(v.deleted, func(_ string, gone deletion) bool { return gone.seen.Before(asked) })
	for name, known := range v.others {
		if !listed[name] && known.changed.Before(asked) {
			v.remove(name, false, now)
		}
	}
	v.listed = true
}

// put takes in the state of a Lease.
func (v *view) put(lease *coordinationv1.Lease, now time.Time) {
	if lease.Name == v.own {
		return
	}
	if known := v.others[lease.Name]; known != nil && known.version == lease.ResourceVersion {
		return
	}
	claim, err := ClaimOf(lease)
	if err != nil { // Another client has edited the Lease. The claims in it last as if it had been deleted.
		v.remove(lease.Name, true, now)
		return
	}
	v.others[lease.Name] = &seen{Claim: claim, lease: lease, version: lease.ResourceVersion, changed: now}
}

// remove takes in that a Lease is gone. A member that leaves withdraws its claims first. Other claims last
// until the Lease would have expired, because its owner may not know yet. renewed says that the Lease was
// renewed after its last change that was seen.
func (v *view) remove(name string, renewed bool, now time.Time) {
	known := v.others[name]
	if known == nil || known.gone {
		return
	}
	if known.gone = true; renewed {
		known.changed = now
	}
	if known.Slots == (Set{}) || !now.Before(known.expires()) {
		delete(v.others, name)
	}
}

// living returns the other members whose Leases have not expired, by identity. It drops deleted Leases that
// have.
func (v *view) living(now time.Time) (members []*seen) {
	for name, known := range v.others {
		switch {
		case now.Before(known.expires()):
			members = append(members, known)
		case known.gone:
			delete(v.others, name)
		}
	}
	slices.SortFunc(members, func(a, b *seen) int { return strings.Compare(a.Identity, b.Identity) })
	return members
}

// next returns when the next Lease expires that has not expired yet, or zero.
func (v *view) next(now time.Time) (next time.Time) {
	for _, known := range v.others {
		if expires := known.expires(); now.Before(expires) && (next.IsZero() || expires.Before(next)) {
			next = expires
		}
	}
	return next
}
