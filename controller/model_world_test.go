package controller_test

import (
	"fmt"
	"strconv"

	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// This file is the naive side of the model: an API server that remembers everything, and a source
// for each kind. A source emits events late, twice or in lists.

var modelKinds = [...]schema.GroupKind{{Kind: "Hero"}, {Kind: "Horse"}, {Kind: "Weapon"}}

// thingsOfKind is the number of names of each kind.
const thingsOfKind = 4

// world is the API server of the model.
type world struct {
	version int
	uids    int
	things  []*thing
	logs    [len(modelKinds)][]streams.Event // all events of a watch of each kind, from the start
	sources [len(modelKinds)]*teller
	wrong   error // the first promise that was broken
}

// thing is one name of a kind, with all its states so far.
type thing struct {
	kind   int
	key    streams.Key
	facts  []fact
	floor  int            // the index of the last fact that readers have seen: they must not see an earlier one
	last   streams.Object // the object after the last change that the cache yielded
	causes map[int]bool   // the causes of these changes, by version; 0 stands for causes that were left out
}

// fact is the state of a thing from a version on. The object is nil if there was none.
type fact struct {
	version int
	object  *metav1.PartialObjectMetadata
}

func newWorld() *world {
	w := &world{version: 1} // 0 is not a version.
	for kind := range modelKinds {
		w.sources[kind] = &teller{world: w, kind: kind, uids: map[types.UID]bool{}, listedUIDs: map[types.UID]bool{}, deletedUIDs: map[types.UID]bool{}, deletions: map[int]int{}}
		for i := range thingsOfKind {
			name := types.NamespacedName{Namespace: string("xy"[i%2]), Name: string(rune('a' + i))}
			w.things = append(w.things, &thing{kind: kind, key: streams.Key{GroupKind: modelKinds[kind], NamespacedName: name}, facts: []fact{{}}, causes: map[int]bool{}})
		}
	}
	return w
}

// neighbour returns another thing of the same kind.
func (w *world) neighbour(of *thing) *thing {
	for _, thing := range w.things {
		if thing != of && thing.kind == of.kind {
			return thing
		}
	}
	return of
}

func (w *world) broken(format string, details ...any) {
	if w.wrong == nil {
		w.wrong = fmt.Errorf(format, details...)
	}
}

func (t *thing) now() *metav1.PartialObjectMetadata { return t.facts[len(t.facts)-1].object }

// at returns the index of the fact at a version.
func (t *thing) at(version int) int {
	at := len(t.facts) - 1
	for t.facts[at].version > version {
		at--
	}
	return at
}

// from returns the index of the first fact, at place or later, that has the object, or no object if
// that is nil; -1 if there is none.
func (t *thing) from(place int, object streams.Object) int {
	for ; place < len(t.facts); place++ {
		fact := t.facts[place]
		if object == nil && fact.object == nil {
			return place
		}
		if object != nil && fact.object != nil && object.GetUID() == fact.object.UID && object.GetResourceVersion() == fact.object.ResourceVersion {
			return place
		}
	}
	return -1
}

func (f fact) String() string {
	if f.object == nil {
		return "nothing"
	}
	return described(f.object)
}

// described returns an object as uid@version.
func described(object streams.Object) string {
	if object == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s@%s", object.GetUID(), object.GetResourceVersion())
}

// change creates or changes a thing.
func (w *world) change(t *thing) {
	w.version++
	after := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: t.key.Namespace, Name: t.key.Name, ResourceVersion: strconv.Itoa(w.version),
		Labels: map[string]string{"colour": colours[w.version%len(colours)]},
	}}
	if before := t.now(); before != nil {
		after.UID = before.UID
	} else {
		w.uids++
		after.UID = types.UID("u" + strconv.Itoa(w.uids))
	}
	t.facts = append(t.facts, fact{w.version, after})
	w.logs[t.kind] = append(w.logs[t.kind], w.event(streams.Applied, t, after))
}

var colours = []string{"red", "blue", "green"}

// remove deletes a thing. If the deletion is missed, no watch has an event of it.
func (w *world) remove(t *thing, missed bool) {
	before := t.now()
	if before == nil {
		return
	}
	w.version++
	t.facts = append(t.facts, fact{version: w.version})
	if !missed {
		last := *before
		last.ResourceVersion = strconv.Itoa(w.version)
		w.logs[t.kind] = append(w.logs[t.kind], w.event(streams.Deleted, t, &last))
	}
}

func (w *world) event(kind streams.EventType, t *thing, object *metav1.PartialObjectMetadata) streams.Event {
	return streams.Event{
		Type: kind, Source: modelKinds[t.kind].Kind, Key: t.key, Object: object, ResourceVersion: object.ResourceVersion,
	}
}

// teller is a source: it emits the events in the log of its kind.
type teller struct {
	world     *world
	kind      int
	connected bool            // it emits events at once
	listed    bool            // it has emitted a complete list
	place     int             // how much of the log it has emitted
	oldest    int             // how much of the log its last list covered: it never goes back before that
	upTo      int             // the version up to which it has emitted everything
	behind    bool            // its last list or bookmark was older than the server
	rest      []streams.Event // the second half of a list
	outbox    []streams.Event // events that are emitted and not sent yet
	lastList  int             // how many events it had emitted before its last list

	events      int
	uids        map[types.UID]bool // of events of single objects
	listedUIDs  map[types.UID]bool // of lists
	deletedUIDs map[types.UID]bool // of deletions
	deletions   map[int]int        // how often it emitted a deletion, by version
	created     []creation
	applied     []application
}

// application is an event of type Applied that was new: no earlier list or bookmark had covered it.
type application struct {
	key     streams.Key
	version int
	event   int // how many events the source had emitted before
}

// creation is the first event of a single object, if that was new.
type creation struct {
	uid   types.UID
	event int // how many events the source had emitted before
}

func versionOf(resourceVersion string) int {
	version, err := strconv.Atoi(resourceVersion)
	if err != nil {
		panic(err)
	}
	return version
}

// emit puts events into the outbox, and records what the promises are checked by.
func (s *teller) emit(events ...streams.Event) {
	for _, event := range events {
		switch event.Type {
		case streams.ListStart:
			s.lastList = s.events
		case streams.Listed:
			s.listedUIDs[event.Object.GetUID()] = true
		case streams.Applied, streams.Deleted:
			if uid := event.Object.GetUID(); !s.uids[uid] {
				s.uids[uid] = true
				// A repeated event of an object that was deleted before the last list is not new.
				if !s.listedUIDs[uid] && versionOf(event.ResourceVersion) > s.upTo {
					s.created = append(s.created, creation{uid, s.events})
				}
			}
			if event.Type == streams.Applied && versionOf(event.ResourceVersion) > s.upTo {
				s.applied = append(s.applied, application{event.Key, versionOf(event.ResourceVersion), s.events})
			}
			if event.Type == streams.Deleted {
				s.deletedUIDs[event.Object.GetUID()] = true
				s.deletions[versionOf(event.ResourceVersion)]++
			}
		case streams.ListEnd, streams.Bookmark:
			s.behind = versionOf(event.ResourceVersion) < s.world.version
			s.upTo = max(s.upTo, versionOf(event.ResourceVersion))
		}
		s.events++
	}
	s.outbox = append(s.outbox, events...)
}

// catchUp emits the events of the log that were not emitted yet, if the source is connected.
func (s *teller) catchUp() {
	if s.connected {
		s.emit(s.world.logs[s.kind][s.place:]...)
		s.place = len(s.world.logs[s.kind])
	}
}

// resume reconnects, at the place in the log where the source was, or some events before it. A
// source without a complete list lists instead.
func (s *teller) resume(repeated int) {
	if !s.listed || s.rest != nil {
		s.list()
		return
	}
	s.place = max(s.oldest, s.place-repeated)
	s.connected = true
	s.catchUp()
}

// repeat emits the third last event again, and disconnects.
func (s *teller) repeat() {
	if s.place-3 < s.oldest || !s.listed || s.rest != nil {
		return
	}
	s.place -= 3
	s.emit(s.world.logs[s.kind][s.place])
	s.place++
	s.connected = false
}

// listAt returns a list at a version, requested at the current version of the server.
func (s *teller) listAt(version int) []streams.Event {
	of := streams.Event{Source: modelKinds[s.kind].Kind, Key: streams.Key{GroupKind: modelKinds[s.kind]}}
	start, end := of, of
	start.Type, start.ResourceVersion = streams.ListStart, strconv.Itoa(s.world.version)
	end.Type, end.ResourceVersion = streams.ListEnd, strconv.Itoa(version)
	list := []streams.Event{start}
	for _, thing := range s.world.things {
		if object := thing.facts[thing.at(version)].object; thing.kind == s.kind && object != nil {
			list = append(list, s.world.event(streams.Listed, thing, object))
		}
	}
	return append(list, end)
}

// after returns the index in the log of the first event after a version.
func (s *teller) after(version int) int {
	log := s.world.logs[s.kind]
	place := len(log)
	for place > 0 && versionOf(log[place-1].ResourceVersion) > version {
		place--
	}
	return place
}

func (s *teller) list() {
	s.begin()
	s.finish()
}

// begin emits the first half of a list. The next events are its second half, or another list.
func (s *teller) begin() {
	list := s.listAt(s.world.version)
	s.emit(list[:(len(list)+1)/2]...)
	s.rest = list[(len(list)+1)/2:]
	s.oldest = len(s.world.logs[s.kind])
	s.connected = false
}

func (s *teller) finish() {
	if s.rest == nil {
		return
	}
	s.emit(s.rest...)
	s.rest = nil
	s.place, s.connected, s.listed = s.oldest, true, true
	s.catchUp()
}

// listOld emits a list that is age events old, as a server that lags does, and then the events
// since.
func (s *teller) listOld(age int) {
	log := s.world.logs[s.kind]
	if len(log) <= age {
		s.list()
		return
	}
	version := versionOf(log[len(log)-1-age].ResourceVersion)
	s.rest = nil
	s.emit(s.listAt(version)...)
	s.oldest = s.after(version)
	s.place, s.connected, s.listed = s.oldest, true, true
	s.catchUp()
}

// bookmark emits a bookmark of the current version, if the source is connected.
func (s *teller) bookmark() {
	if s.connected {
		s.emit(streams.Event{
			Type: streams.Bookmark, Source: modelKinds[s.kind].Kind, Key: streams.Key{GroupKind: modelKinds[s.kind]},
			ResourceVersion: strconv.Itoa(s.world.version),
		})
	}
}
