package operators

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// FailingAfter is the number of failures in a row after which a key counts as failing. While such a
// key backs off it does not count as waiting, so that a key which never succeeds does not hold up
// Settled.
const FailingAfter = 3

// Unfinished holds the keys whose last attempt did not succeed or asked for another one. Such a key
// backs off, has ended with a [Terminal] error, or waits for a requeue.
//
// A key enters when an attempt ends. It leaves when a later attempt succeeds and asks for no other
// one, when its controller is removed, and when the run ends.
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
	Failed   int // keys whose last attempt failed
	Failing  int // keys that failed FailingAfter times in a row or more, and back off
	Terminal int // keys that ended with a Terminal error
}

// UnfinishedKey is one key whose last attempt failed.
type UnfinishedKey struct {
	Controller string
	types.NamespacedName
	Failures int  // in a row
	Terminal bool // no attempt follows without a change
	Err      error
	Due      time.Time // of a key that backs off, when the next attempt is due
}

// unfinished is the entry of one key in one run. Only the schedule of that run changes it, with the
// lock of Unfinished held.
type unfinished struct {
	UnfinishedKey
}

// failing reports whether the key counts as failing.
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

// Failing returns the keys that are failing or ended with a Terminal error, sorted by controller,
// namespace and name. It returns the first most of them.
func (u *Unfinished) Failing(most int) []UnfinishedKey {
	return u.first(most, func(known *unfinished) bool { return known.Terminal || known.failing() })
}

// FailedOf returns the keys of one controller whose last attempt failed, sorted and limited as by Failing.
func (u *Unfinished) FailedOf(controller string, most int) []UnfinishedKey {
	return u.first(most, func(known *unfinished) bool { return known.Controller == controller && known.Err != nil })
}

// ObjectsOf returns the objects of the keys of one controller, in no order.
func (u *Unfinished) ObjectsOf(controller string) (objects []types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by[controller] == nil {
		return nil
	}
	for known := range u.keys.items {
		if known.Controller == controller {
			objects = append(objects, known.NamespacedName)
		}
	}
	return objects
}

// first returns the first most of the keys that are wanted.
func (u *Unfinished) first(most int, wanted func(*unfinished) bool) []UnfinishedKey {
	u.mu.Lock()
	defer u.mu.Unlock()
	var first []UnfinishedKey
	for known := range u.keys.items {
		if !wanted(known) {
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

// compareKeys orders keys by controller, namespace and name.
func compareKeys(a, b UnfinishedKey) int {
	return cmp.Or(
		strings.Compare(a.Controller, b.Controller),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name))
}

// note adds a key, or updates a key that is there.
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

// backsOff records when the next attempt of a key is due. It does nothing if the key is not tracked.
func (u *Unfinished) backsOff(known *unfinished, due time.Time) {
	if known == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	known.Due = due
}

// forget removes a key.
func (u *Unfinished) forget(known *unfinished) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keys.delete(known)
	u.count(known, -1)
}

// count adds a key n times to the counts.
func (u *Unfinished) count(known *unfinished, n int) {
	by := u.by[known.Controller]
	if by == nil {
		by = &UnfinishedCount{}
		u.by[known.Controller] = by
	}
	for _, count := range [...]*UnfinishedCount{&u.total, by} {
		count.Keys += n
		if known.Err != nil {
			count.Failed += n
		}
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
