package recording

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// covered is what the events of a source cover: a kind, in a namespace or in all of them.
type covered struct {
	kind      schema.GroupKind
	namespace string
}

// folding finds out which objects exist after the records of some files, and which versions of objects a later event
// still needs.
type folding struct {
	ordinal  int // of object records so far
	live     map[covered]map[streams.Key]version
	versions map[covered]string // of the last list, bookmark or event
	listing  map[covered]map[streams.Key]version
	waiting  map[streams.Key][]version // versions that no event has applied yet, oldest first
	watched  map[schema.GroupKind]bool // watches on demand
	position uint64
	at       int64
}

type version struct {
	version string
	ordinal int
	at      int64 // when it was recorded
}

// longestWaiting is how long a version may wait for the event that applies it, in nanoseconds. The debounce holds an event
// for a minute at most. A stage of the program may drop the event: then none applies the version.
const longestWaiting = int64(10 * time.Minute)

// fold writes what the records of files leave behind: the answers about resources, and the objects.
func fold(files []string, write func(*Record) error) error {
	of := &folding{
		live: map[covered]map[streams.Key]version{}, versions: map[covered]string{}, listing: map[covered]map[streams.Key]version{},
		waiting: map[streams.Key][]version{}, watched: map[schema.GroupKind]bool{},
	}
	served := map[string]*Record{} // the last answer about resources, by path
	for _, file := range files {
		if _, err := readFile(file, func(record *Record) error {
			if record.Served != nil {
				served[record.Served.Path] = record
			}
			of.take(record)
			return nil
		}); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(served)) {
		if err := write(served[path]); err != nil {
			return err
		}
	}
	for kind := range of.watched {
		if err := write(&Record{At: of.at, Position: of.position, Watch: &Watch{Kind: kind}}); err != nil {
			return err
		}
	}
	wanted := of.wanted()
	ordinal := 0
	for _, file := range files {
		if _, err := readFile(file, func(record *Record) error {
			if record.Object == nil {
				return nil
			}
			ordinal++
			if !wanted[ordinal] {
				return nil
			}
			return write(record)
		}); err != nil {
			return err
		}
	}
	return of.lists(write)
}

// take takes in a record.
func (f *folding) take(record *Record) {
	f.position, f.at = max(f.position, record.Position), max(f.at, record.At)
	switch {
	case record.Object != nil:
		f.ordinal++
		f.waiting[record.Object.Key] = append(f.waiting[record.Object.Key], version{record.Object.ResourceVersion, f.ordinal, record.At})
	case record.Watch != nil && record.Watch.Ended:
		delete(f.watched, record.Watch.Kind)
		for scope := range f.live {
			if scope.kind == record.Watch.Kind {
				delete(f.live, scope)
				delete(f.versions, scope)
			}
		}
	case record.Watch != nil:
		f.watched[record.Watch.Kind] = true
	}
	for i := range record.Events {
		f.apply(&record.Events[i])
	}
}

// apply takes in an event of the cache.
func (f *folding) apply(event *Event) {
	scope := covered{event.Key.GroupKind, event.Key.Namespace}
	switch event.Type {
	case streams.ListStart:
		f.listing[scope] = map[streams.Key]version{}
	case streams.Listed:
		for _, at := range f.scopesOf(event.Key, f.listing) {
			f.listing[at][event.Key] = f.find(event)
		}
	case streams.ListEnd:
		if list, begun := f.listing[scope]; begun {
			f.live[scope] = list
			delete(f.listing, scope)
		}
		f.versions[scope] = event.ResourceVersion
	case streams.Applied, streams.Deleted:
		found := f.find(event)
		for _, at := range f.scopesOf(event.Key, f.live) {
			if f.versions[at] = event.ResourceVersion; event.Type == streams.Deleted {
				delete(f.live[at], event.Key)
			} else {
				f.live[at][event.Key] = found
			}
		}
	case streams.Bookmark:
		if f.live[scope] != nil {
			f.versions[scope] = event.ResourceVersion
		}
	}
}

// scopesOf returns the scopes that cover an object: the one of its namespace, or the one of all.
func (f *folding) scopesOf(key streams.Key, among map[covered]map[streams.Key]version) (found []covered) {
	for _, namespace := range slices.Compact([]string{key.Namespace, ""}) {
		if scope := (covered{key.GroupKind, namespace}); among[scope] != nil {
			return []covered{scope}
		}
	}
	return nil
}

// find returns the version of an event's object, and forgets the versions before it: events of one object keep their
// order.
func (f *folding) find(event *Event) version {
	waiting := f.waiting[event.Key]
	for i := range waiting {
		if waiting[i].version == event.ResourceVersion {
			found := waiting[i]
			if waiting = waiting[i+1:]; len(waiting) == 0 {
				delete(f.waiting, event.Key)
			} else {
				f.waiting[event.Key] = waiting
			}
			return found
		}
	}
	return version{event.ResourceVersion, 0, event.Received}
}

// wanted returns the ordinals of the object records that are kept.
func (f *folding) wanted() map[int]bool {
	wanted := map[int]bool{}
	for _, objects := range f.live {
		for _, object := range objects {
			wanted[object.ordinal] = true
		}
	}
	for _, versions := range f.waiting {
		for _, object := range versions {
			if f.at-object.at <= longestWaiting {
				wanted[object.ordinal] = true
			}
		}
	}
	return wanted
}

// lists writes a list for each scope.
func (f *folding) lists(write func(*Record) error) error {
	scopes := slices.SortedFunc(maps.Keys(f.live), func(a, b covered) int {
		return cmp.Or(cmp.Compare(a.kind.String(), b.kind.String()), cmp.Compare(a.namespace, b.namespace))
	})
	for _, scope := range scopes {
		of := streams.Key{GroupKind: scope.kind}
		of.Namespace = scope.namespace
		events := []Event{{Type: streams.ListStart, Key: of, Received: f.at}}
		for key, object := range f.live[scope] {
			if object.ordinal > 0 {
				events = append(events, Event{Type: streams.Listed, Key: key, ResourceVersion: object.version, HasObject: true, Received: f.at})
			}
		}
		slices.SortFunc(events[1:], func(a, b Event) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
		events = append(events, Event{Type: streams.ListEnd, Key: of, ResourceVersion: f.versions[scope], Received: f.at})
		if err := write(&Record{At: f.at, Position: f.position, Events: events}); err != nil {
			return err
		}
	}
	return nil
}
