package scenario

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// traffic sums up the requests of a contender to the API server in a window of time.
type traffic struct {
	Writes, Needless, Failed, Reads int
	Verbs                           map[string]int // all compared calls, not reads alone; "delete" includes deletions of collections
	In, Out                         int64          // bytes of the bodies of these calls: to the API server, and from it
}

// trafficIn sums up the calls that arrived and the events that passed in the interval [from, to).
// started is when the contender was started.
//
// The lists that fill a cache are not reads: the lists of a resource that arrived before its first
// watch since started. If they were, a cache that streams its first list as watch events would
// count no read. A cache that lists in pages would count one read per page. A list after the
// first watch is a read, and so is every list of a resource that is not watched.
func trafficIn(record proxy.Record, started, from, to time.Time) traffic {
	within := func(at time.Time) bool { return !at.Before(from) && at.Before(to) }
	sum := traffic{Verbs: map[string]int{}}
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
		if !call.IsWatch() { // The bytes of a watch are counted with its events.
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
		if within(event.At) && event.IsCompared() {
			sum.Out += event.Bytes
		}
	}
	return sum
}

// requestsIn returns how many requests arrived in the interval [from, to), with watches and with requests about no
// resource, such as discovery. Requests about Events, leases and reviews do not count.
func requestsIn(record proxy.Record, from, to time.Time) (n int) {
	for _, call := range slices.Concat(record.Calls, record.Open) {
		if !call.At.Before(from) && call.At.Before(to) && (call.Verb == "" || call.IsCompared()) {
			n++
		}
	}
	return n
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

// firstWatches returns when each resource was first watched since the given time. A refused watch
// does not count, because a list takes its place.
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
	for _, call := range record.Open { // Their status codes are not recorded yet.
		note(call)
	}
	return first
}

// trigger reports whether the next write for the event's object is a reaction to the event. It also
// returns the time from which the reaction is measured. It is called once for each event, in the
// order of the events.
type trigger func(proxy.Event) (from time.Time, reacts bool)

// change is one generation of an object.
type change struct {
	Object     types.NamespacedName
	Generation int64
}

// newGeneration returns a trigger for the first event of each generation. The reaction is measured
// from the event, or from the time in intended if that holds the change. Events before since do not
// trigger.
func newGeneration(resource string, since time.Time, intended map[change]time.Time) trigger {
	latest := map[types.NamespacedName]int64{}
	return func(event proxy.Event) (time.Time, bool) {
		object := types.NamespacedName{Namespace: event.Namespace, Name: event.Name}
		if event.Resource != resource || (event.Type != "ADDED" && event.Type != "MODIFIED") || event.Generation <= latest[object] {
			return time.Time{}, false
		}
		latest[object] = event.Generation
		from, known := intended[change{object, event.Generation}]
		if !known {
			from = event.At
		}
		return from, !event.At.Before(since)
	}
}

// writtenVersions returns a trigger for the first event of each version in the map. The map holds the
// resource versions that writes of another client produced, each with the resource that was
// written.
func writtenVersions(versions map[uint64]string) trigger {
	seen := map[uint64]bool{}
	return func(event proxy.Event) (time.Time, bool) {
		resource, written := versions[event.Version]
		if !written || event.Resource != resource || event.Type == "BOOKMARK" || seen[event.Version] {
			return time.Time{}, false
		}
		seen[event.Version] = true
		return event.At, true
	}
}

// reactionsIn returns the time from each event that triggers until the next write for the event's
// object. A write of any resource counts, since an object and its children have the same name.
// unanswered counts the events that no write followed.
func reactionsIn(record proxy.Record, by trigger) (reactions []time.Duration, unanswered int) {
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
		if from, reacts := by(event); reacts {
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

// quantile returns the smallest value such that at least the given share of all values are not
// greater. It returns 0 for no values.
func quantile[T cmp.Ordered](values []T, share float64) T {
	if len(values) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}
