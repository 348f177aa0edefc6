// Package measure makes numbers of what the proxy recorded. It keeps no state and does no
// input or output.
package measure

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Traffic is what a contender asked of the API server in a window of time.
type Traffic struct {
	Writes, Needless, Failed, Reads int
	Verbs                           map[string]int // calls, also those that are no reads; deletions of collections are among those of objects
	In, Out                         int64          // bytes of bodies of these calls: to the API server, and from it
}

// TrafficIn sums up the calls that came and the events that passed from one time to
// another, of a contender that was started at a third.
//
// The lists with which a cache begins are no reads: those of a resource that came before the
// first watch of it since the contender was started. Otherwise a cache whose first list is
// streamed, as events of a watch, would read nothing, and one that lists in pages the more the
// more pages there are. A list after that watch is a read, as is each of a resource that is not
// watched.
func TrafficIn(record proxy.Record, started, from, to time.Time) Traffic {
	within := func(at time.Time) bool { return !at.Before(from) && at.Before(to) }
	sum := Traffic{Verbs: map[string]int{}}
	for _, call := range slices.Concat(record.Calls, record.Open) {
		if within(call.At) && call.IsCompared() {
			sum.Verbs[verbOf(call)]++
		}
	}
	watched := firstWatches(record, started)
	for _, call := range record.Calls {
		if !within(call.At) || !call.IsCompared() {
			continue
		}
		sum.In += call.In
		if !call.IsWatch() { // Its bytes are those of its events.
			sum.Out += call.Out
		}
		switch {
		case call.IsRead():
			if first, is := watched[resourceOf(call)]; call.Verb != "list" || !is || !call.At.Before(first) {
				sum.Reads++
			}
		case call.IsWrite():
			sum.Writes++
			if call.Needless {
				sum.Needless++
			}
			if call.Code == 0 || call.Code >= 400 {
				sum.Failed++
			}
		}
	}
	for _, event := range record.Events {
		if within(event.At) {
			sum.Out += event.Bytes
		}
	}
	return sum
}

func verbOf(call proxy.Call) string {
	if call.Verb == "deletecollection" {
		return "delete"
	}
	return call.Verb
}

func resourceOf(call proxy.Call) schema.GroupResource {
	return schema.GroupResource{Group: call.Group, Resource: call.Resource}
}

// firstWatches is when each resource was watched first since a time. A watch that was refused
// is none: a list comes in its place.
func firstWatches(record proxy.Record, since time.Time) map[schema.GroupResource]time.Time {
	first := map[schema.GroupResource]time.Time{}
	note := func(call proxy.Call) {
		at, is := first[resourceOf(call)]
		if call.IsWatch() && !call.At.Before(since) && (!is || call.At.Before(at)) {
			first[resourceOf(call)] = call.At
		}
	}
	for _, call := range record.Calls {
		if call.Code > 0 && call.Code < 400 {
			note(call)
		}
	}
	for _, call := range record.Open { // Their answers are not known yet.
		note(call)
	}
	return first
}

// Trigger says whether an event is one that its object's next write reacts to, and from
// when on the reaction counts. It is called once for each event, in their order.
type Trigger func(proxy.Event) (from time.Time, reacts bool)

// Change is one generation of an object.
type Change struct {
	Object     types.NamespacedName
	Generation int64
}

// NewGeneration is the trigger of the first event that tells of a generation. Where it is
// known when a change was meant to be sent, the reaction counts from there.
func NewGeneration(resource string, since time.Time, intended map[Change]time.Time) Trigger {
	latest := map[types.NamespacedName]int64{}
	return func(event proxy.Event) (time.Time, bool) {
		object := types.NamespacedName{Namespace: event.Namespace, Name: event.Name}
		if event.Resource != resource || (event.Type != "ADDED" && event.Type != "MODIFIED") || event.Generation <= latest[object] {
			return time.Time{}, false
		}
		latest[object] = event.Generation
		from, known := intended[Change{object, event.Generation}]
		if !known {
			from = event.At
		}
		return from, !event.At.Before(since)
	}
}

// Versions is the trigger of the events that tell of versions, which are those of
// somebody's writes to the resources that they are given with.
func Versions(versions map[uint64]string) Trigger {
	told := map[uint64]bool{}
	return func(event proxy.Event) (time.Time, bool) {
		resource, written := versions[event.Version]
		if !written || event.Resource != resource || event.Type == "BOOKMARK" || told[event.Version] {
			return time.Time{}, false
		}
		told[event.Version] = true
		return event.At, true
	}
}

// Reactions are the times from each event that triggers one to the first write for its
// object after it, whatever that writes: objects and their children have one name.
// unanswered are the events after which there was none.
func Reactions(record proxy.Record, trigger Trigger) (reactions []time.Duration, unanswered int) {
	events, writes := slices.Clone(record.Events), slices.Clone(record.Calls)
	slices.SortStableFunc(events, func(a, b proxy.Event) int { return a.At.Compare(b.At) })
	writes = slices.DeleteFunc(writes, func(c proxy.Call) bool { return !c.IsWrite() })
	slices.SortStableFunc(writes, func(a, b proxy.Call) int { return a.At.Compare(b.At) })
	waiting := map[types.NamespacedName][]time.Time{}
	react := func(write proxy.Call) {
		object := types.NamespacedName{Namespace: write.Namespace, Name: write.Name}
		for _, from := range waiting[object] {
			reactions = append(reactions, write.At.Sub(from))
		}
		delete(waiting, object)
	}
	for _, event := range events {
		for len(writes) > 0 && writes[0].At.Before(event.At) {
			react(writes[0])
			writes = writes[1:]
		}
		if from, reacts := trigger(event); reacts {
			object := types.NamespacedName{Namespace: event.Namespace, Name: event.Name}
			waiting[object] = append(waiting[object], from)
		}
	}
	for _, write := range writes {
		react(write)
	}
	for _, left := range waiting {
		unanswered += len(left)
	}
	return reactions, unanswered
}

// Quantile is the smallest value that at least a share of all are not above; 0 of none.
func Quantile[T cmp.Ordered](values []T, share float64) T {
	if len(values) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}
