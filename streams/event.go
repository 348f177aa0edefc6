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

// Object is a Kubernetes object. An object that was sent on a stream is immutable, because many
// readers hold it at once. A reader that needs to change it must change a deep copy.
type Object interface {
	metav1.Object
	runtime.Object
}

// Key identifies one object of the cluster by its kind, namespace and name.
type Key struct {
	schema.GroupKind
	types.NamespacedName
}

// String formats the key for people, such as "StatefulSet.apps default/pegasus".
func (k Key) String() string {
	if k.Namespace == "" {
		return k.GroupKind.String() + " " + k.Name
	}
	return k.GroupKind.String() + " " + k.NamespacedName.String()
}

// KeyOf returns the key of an object of a kind.
func KeyOf(kind schema.GroupKind, object metav1.Object) Key {
	return Key{kind, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}}
}

// EventType is the type of an [Event]. The zero EventType is no event: see [JoinCauses].
type EventType uint8

// The events that a source emits.
//
// A list is one ListStart, its Listed objects and one ListEnd, with no other event of the same
// source in between. It replaces everything that the source emitted before. A source that starts
// a new list has abandoned the unfinished one before it.
//
// A source covers one namespace, or all. Its list events, bookmarks, Disconnected and Connected
// carry that namespace in Key.Namespace (empty for all), and no name. The list of a namespace
// replaces the objects of that namespace only.
//
// A source emits Disconnected once, when it loses the API server or is refused. The objects that it
// emitted may be stale from then on. Disconnected never precedes the first list. The state ends
// with the first of these events:
//
//   - Connected: the source resumes from where it was, and the events that it missed follow.
//     ResourceVersion is the version that the API server reported as current at that time. The
//     objects are current again once a bookmark or a list has reached that version.
//   - ListStart: the list replaces everything that the source emitted. There is no Connected then.
//
// A disconnected source emits no objects. A connection that ends and is reopened at once is not a
// loss, and causes no event.
//
// A ListStart has Reset set if the server's current version is older than a version that the source
// has seen. The cluster was then restored from a backup. Versions from before the Reset
// cannot be compared with later versions. The list replaces all objects of the source, even objects
// that seem newer.
//
// A source whose [Selection] has grown emits the objects of the new part as Applied, and then Selected. Its
// key is the one of a Bookmark.
//
// The source vouches for its version as of the Received time. For ListStart, that is when the
// source requested the list. For ListEnd, Bookmark and Connected, it is when the server answered.
const (
	ListStart    EventType = iota + 1 // ResourceVersion was current when the list was requested; if it is empty, the list is current
	Listed                            // an object of the list
	ListEnd                           // the list is complete, at ResourceVersion
	Applied                           // an object was created or changed
	Deleted                           // an object is gone; Object is its last state
	Bookmark                          // the source has seen everything up to ResourceVersion
	Disconnected                      // the source has lost the API server, or is refused
	Connected                         // the source has resumed; ResourceVersion was current then
	Selected                          // the source has emitted all objects of the selection whose number is ResourceVersion
)

var eventTypes = [...]string{"Unknown", "ListStart", "Listed", "ListEnd", "Applied", "Deleted", "Bookmark", "Disconnected", "Connected", "Selected"}

func (t EventType) String() string {
	if int(t) >= len(eventTypes) {
		return eventTypes[0]
	}
	return eventTypes[t]
}

// Event is one observation made by a source. The events of one key arrive in the order in which
// the API server produced them.
type Event struct {
	Type            EventType
	Reset           bool   // ListStart only: the server's versions went back
	Source          string // the name of the source, for people and metrics
	Key             Key    // without an object: the kind and the namespace that the event covers
	Object          Object // Listed, Applied and Deleted only
	ResourceVersion string
	Received        time.Time // when the source received the event, or the first event in Coalesced
	Coalesced       []Cause   // the events that this one replaced, oldest first
}

// Cause identifies an event that led to a later event, a change or a request. It carries no
// object.
type Cause struct {
	Type            EventType
	Key             Key
	ResourceVersion string
	Received        time.Time
}

// Causes returns the events that this event replaced, and then the event itself.
func (e Event) Causes() []Cause {
	return JoinCauses(e.Coalesced, []Cause{e.cause()})
}

// maxCauses bounds the causes of one event or request. They are enough to explain to a person what
// happened, and the bound keeps memory independent of how long a reader stalls.
const maxCauses = 16

// JoinCauses returns first followed by second, in a slice that may be one of the two and must not
// be changed. It returns at most 16 causes. If there are more, the oldest are left out, and one
// zero Cause in front stands for them.
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

// Coalesce replaces the event with a later event of the same key. The result is the later event
// with the causes of both, and with the Received time of the first. Coalesce may reuse the memory
// of e.Coalesced, which must be nil or the result of an earlier Coalesce.
func (e *Event) Coalesce(later *Event) {
	folded, received := appendCauses(e.Coalesced, e.cause()), e.Received
	*e = *later
	e.Coalesced, e.Received = appendCauses(folded, later.Coalesced...), received
}

func (e *Event) cause() Cause { return Cause{e.Type, e.Key, e.ResourceVersion, e.Received} }

// appendCauses joins causes as JoinCauses does, but in the memory of the first slice.
func appendCauses(causes []Cause, more ...Cause) []Cause {
	causes = append(causes, more...)
	if excess := len(causes) - maxCauses; excess > 0 {
		causes = slices.Delete(causes, 0, excess)
		causes[0] = Cause{}
	}
	return causes
}

// IsOlderVersion reports whether resource version a is older than b. Versions of one kind are
// comparable since Kubernetes 1.35. The result is false if either one is malformed.
func IsOlderVersion(a, b string) bool {
	if len(a) > len(b) || len(a) == len(b) && a >= b { // The common case of an event needs no look at the digits.
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// ChangeType is the type of a [Change].
type ChangeType uint8

// The changes that the cache emits.
const (
	Added     ChangeType = iota + 1
	Updated              // Old became New
	Removed              // Old is gone
	Unchanged            // the cache did not change, but something happened to the key
)

var changeTypes = [...]string{"Unknown", "Added", "Updated", "Removed", "Unchanged"}

func (t ChangeType) String() string {
	if int(t) >= len(changeTypes) {
		return changeTypes[0]
	}
	return changeTypes[t]
}

// Change is the effect of an event on the cache. The changes of one key are emitted in order, after
// they have become visible to readers of the cache.
type Change struct {
	Type     ChangeType
	Key      Key
	Old, New Object    // nil where there is none
	Causes   []Cause   // the events behind the change, oldest first
	Received time.Time // when the oldest of these events was received
}

// Error is an error notification on a stream: a source failed, or the processing of one object.
type Error struct {
	Source string // the source or stage
	Key    Key    // empty if the failure concerns no single object
	Err    error
}

func (e *Error) Error() string {
	if e.Key == (Key{}) {
		return fmt.Sprintf("%s: %v", e.Source, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.Source, e.Key, e.Err)
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }
