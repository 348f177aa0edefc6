package operators

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// FailingAfter is the number of failures in a row after which a key counts as failing: while
// it backs off it no longer counts as waiting, so that a key which never succeeds does not
// keep everything from being settled.
const FailingAfter = 3

// Unfinished holds the keys whose last attempt did not succeed or asked for another one: keys
// that back off, that ended with a [Terminal] error, or that wait for a requeue. A key enters
// when an attempt ends. It leaves when a later attempt succeeds and asks for no other one,
// when its controller is removed, and when the run ends.
//
// The zero value is empty and ready for use. Its methods may be called from any goroutine.
type Unfinished struct {
	mu    sync.Mutex
	keys  table[*unfinished, struct{}]
	total UnfinishedCount
	by    map[string]*UnfinishedCount
}

// UnfinishedCount counts keys of [Unfinished].
type UnfinishedCount struct {
	Keys     int // all of them
	Failing  int // those that failed FailingAfter times in a row or more, and back off
	Terminal int // those that ended with a Terminal error
}

// UnfinishedKey is one key whose last attempt failed.
type UnfinishedKey struct {
	Controller string
	types.NamespacedName
	Failures int  // in a row
	Terminal bool // no attempt follows without a change
	Err      error
}

// unfinished is the entry of one key of one run. Only its schedule changes it, with the lock
// of Unfinished.
type unfinished struct {
	UnfinishedKey
}

func (u *unfinished) failing() bool { return !u.Terminal && u.Failures >= FailingAfter }

// Count returns the counts of all controllers.
func (u *Unfinished) Count() UnfinishedCount {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.total
}

// CountOf returns the counts of one controller.
func (u *Unfinished) CountOf(controller string) UnfinishedCount {
	u.mu.Lock()
	defer u.mu.Unlock()
	if known := u.by[controller]; known != nil {
		return *known
	}
	return UnfinishedCount{}
}

// Failing returns the keys that are failing or ended with a Terminal error, sorted by
// controller, namespace and name, and no more than most of them.
func (u *Unfinished) Failing(most int) []UnfinishedKey {
	u.mu.Lock()
	defer u.mu.Unlock()
	first := make([]UnfinishedKey, 0, min(max(most, 0), u.total.Failing+u.total.Terminal))
	for known := range u.keys.items {
		if !known.Terminal && !known.failing() {
			continue
		}
		at, _ := slices.BinarySearchFunc(first, known.UnfinishedKey, compareKeys)
		if at >= most {
			continue
		}
		if len(first) == most {
			first = first[:most-1]
		}
		first = slices.Insert(first, at, known.UnfinishedKey)
	}
	return first
}

func compareKeys(a, b UnfinishedKey) int {
	return cmp.Or(
		strings.Compare(a.Controller, b.Controller),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name))
}

// note enters a key, or notes a change of one that is there.
func (u *Unfinished) note(known *unfinished, now UnfinishedKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by == nil {
		u.by = map[string]*UnfinishedCount{}
	}
	if _, found := u.keys.items[known]; found {
		u.count(known, -1)
	}
	known.UnfinishedKey = now
	u.keys.set(known, struct{}{})
	u.count(known, 1)
}

// forget takes keys out.
func (u *Unfinished) forget(known *unfinished) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keys.delete(known)
	u.count(known, -1)
}

func (u *Unfinished) count(known *unfinished, n int) {
	by := u.by[known.Controller]
	if by == nil {
		by = &UnfinishedCount{}
		u.by[known.Controller] = by
	}
	for _, count := range [...]*UnfinishedCount{&u.total, by} {
		count.Keys += n
		if known.failing() {
			count.Failing += n
		}
		if known.Terminal {
			count.Terminal += n
		}
	}
	if by.Keys == 0 {
		delete(u.by, known.Controller)
	}
}
