package streams

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Object is a Kubernetes object. Once it travels on a stream it is immutable: many
// readers hold it at once. Whoever wants to change it changes a deep copy.
type Object interface {
	metav1.Object
	runtime.Object
}

// Key names one object of the cluster: its kind and its "metanamespace" key.
type Key struct {
	schema.GroupKind
	types.NamespacedName
}

// String is the key for people, such as "StatefulSet.apps default/pegasus".
func (k Key) String() string {
	if k.Namespace == "" {
		return k.GroupKind.String() + " " + k.Name
	}
	return k.GroupKind.String() + " " + k.NamespacedName.String()
}

// KeyOf is the key of an object of a kind.
func KeyOf(kind schema.GroupKind, object metav1.Object) Key {
	return Key{kind, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}}
}

// EventType says what an event tells. 0 is no event: see [JoinCauses].
type EventType uint8

// The vocabulary of a source. A list is a ListStart, its Listed objects and a ListEnd,
// with nothing of the same source between them; it replaces all that the source said
// before. A source that starts a list anew has given up the one before.
//
// A source covers one namespace, or all. Its list events, bookmarks, Disconnected and
// Connected have that namespace in Key.Namespace, empty for all, and no name: a list of a
// namespace replaces what was said of that namespace, and of no other.
//
// Disconnected is told once, when the source has lost the API server or is refused: what it
// told may be outdated from then on. It is never told before the first list. It ends with
// what comes first:
//
//   - Connected: the source goes on from where it was. What it missed follows, and all that
//     it told is current once a bookmark or a list has reached the ResourceVersion of
//     Connected, which the API server reported as current then.
//   - A ListStart, of a list that replaces all that was told. There is no Connected then.
//
// While it is disconnected, a source tells of no objects. That a connection ends and is
// opened again at once is no loss, and not told.
//
// A ListStart has Reset set if the current version of the server is older than one that the
// source has seen: the cluster was restored from a backup. Versions from before it do not
// compare with those that follow. The list replaces all that the source said, also objects that
// seem newer.
//
// Received of ListStart is when the source asked for the list, and Received of
// ListEnd, Bookmark and Connected when the server answered: the source vouches for the
// version as of that time.
const (
	ListStart    EventType = iota + 1 // ResourceVersion was current when the list was asked for; without one, the list is current
	Listed                            // an object that the list holds
	ListEnd                           // the list is complete, at ResourceVersion
	Applied                           // an object was created or changed
	Deleted                           // an object is gone; Object is its last state
	Bookmark                          // the source has seen everything up to ResourceVersion
	Disconnected                      // the source has lost what it tells of
	Connected                         // the source has it back; ResourceVersion was current then
)

var eventTypes = [...]string{"Unknown", "ListStart", "Listed", "ListEnd", "Applied", "Deleted", "Bookmark", "Disconnected", "Connected"}

func (t EventType) String() string {
	if int(t) >= len(eventTypes) {
		return eventTypes[0]
	}
	return eventTypes[t]
}

// Event is something that a source saw. The events of one key come in the order in
// which the API server made them.
type Event struct {
	Type            EventType
	Reset           bool   // of ListStart: the server's versions went back
	Source          string // which source saw it, for people and metrics
	Key             Key    // of events without an object: the kind and the namespace that they speak for
	Object          Object // of Listed, Applied and Deleted
	ResourceVersion string
	Received        time.Time // when the source got it, or the first of those in Coalesced
	Coalesced       []Cause   // the events that this one replaced on the way, oldest first
}

// Cause is what is left of an event when only its effects matter.
type Cause struct {
	Type            EventType
	Key             Key
	ResourceVersion string
	Received        time.Time
}

// Causes is the event as causes: what it replaced on its way, then itself.
func (e Event) Causes() []Cause {
	return JoinCauses(e.Coalesced, []Cause{e.cause()})
}

// maxCauses bounds the causes of one event or request: enough to tell a person what
// happened, and independent of how long a reader stalls.
const maxCauses = 16

// JoinCauses is first and second, in order, in a slice that may be one of theirs and is
// not to be changed. Beyond 16 the oldest are left out; a cause of type 0, with nothing
// else in it, stands for those.
func JoinCauses(first, second []Cause) []Cause {
	switch {
	case len(first) == 0:
		return second
	case len(second) == 0:
		return first
	}
	joined := make([]Cause, 0, len(first)+len(second))
	joined = append(append(joined, first...), second...)
	if len(joined) > maxCauses {
		joined = joined[len(joined)-maxCauses:]
		joined[0] = Cause{}
	}
	return joined
}

// Coalesce makes a later event out of what an event of the same key and the later one come to:
// the later, with the causes of both, received when the first was. It may use the memory
// of Coalesced of the first, which must have come of Coalesce, or be nil.
func (e *Event) Coalesce(later *Event) {
	folded, received := appendCauses(e.Coalesced, e.cause()), e.Received
	*e = *later
	e.Coalesced, e.Received = appendCauses(folded, later.Coalesced...), received
}

func (e *Event) cause() Cause { return Cause{e.Type, e.Key, e.ResourceVersion, e.Received} }

// appendCauses is JoinCauses in the memory of the first.
func appendCauses(causes []Cause, more ...Cause) []Cause {
	causes = append(causes, more...)
	if excess := len(causes) - maxCauses; excess > 0 {
		causes = slices.Delete(causes, 0, excess)
		causes[0] = Cause{}
	}
	return causes
}

// OlderVersion says whether resource version a is older than b. Kubernetes promises since 1.35
// that versions of one kind are comparable; what is not in their form is never older.
func OlderVersion(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// ChangeType says what a change did to the cache.
type ChangeType uint8

// The vocabulary of the cache.
const (
	Added     ChangeType = iota + 1
	Updated              // Old became New
	Removed              // Old is gone
	Unchanged            // the cache is as it was, yet something happened to the key
)

var changeTypes = [...]string{"Unknown", "Added", "Updated", "Removed", "Unchanged"}

func (t ChangeType) String() string {
	if int(t) >= len(changeTypes) {
		return changeTypes[0]
	}
	return changeTypes[t]
}

// Change is what an event did to the cache. The changes of one key come in order, after
// readers of the cache can see them.
type Change struct {
	Type     ChangeType
	Key      Key
	Old, New Object    // nil where there is none
	Causes   []Cause   // the events it is made of, oldest first
	Received time.Time // when the oldest of them was received
}

// Error is a failure on a stream: of a source, or of the handling of one object.
type Error struct {
	Source string // the source or operator
	Key    Key    // empty where the failure is of no single object
	Err    error
}

func (e *Error) Error() string {
	if e.Key == (Key{}) {
		return fmt.Sprintf("%s: %v", e.Source, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.Source, e.Key, e.Err)
}

// Unwrap is the failure itself.
func (e *Error) Unwrap() error { return e.Err }
