package controller_test

import (
	"fmt"
	"strconv"

	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The naive side of the model: an API server that remembers everything, and a source for
// each kind that tells of it, late, twice or in lists.

var modelKinds = [...]schema.GroupKind{{Kind: "Hero"}, {Kind: "Horse"}, {Kind: "Weapon"}}

// thingsOfKind is how many names there are of each kind.
const thingsOfKind = 4

// world is the API server.
type world struct {
	version int
	uids    int
	things  []*thing
	logs    [len(modelKinds)][]streams.Event // what a watch of a kind tells, from the start
	sources [len(modelKinds)]*teller
	wrong   error // the first promise that was broken
}

// thing is one name of a kind, with all that it ever was.
type thing struct {
	kind   int
	key    streams.Key
	facts  []fact
	floor  int            // the fact that readers have seen: they must not see an earlier one
	told   streams.Object // by the changes of the cache
	causes map[int]bool   // of those changes, by version; 0 stands for those that were left out
}

// fact is what a thing was from a version on; a nil object is none.
type fact struct {
	version int
	object  *metav1.PartialObjectMetadata
}

func newWorld() *world {
	w := &world{version: 1} // 0 is no version.
	for kind := range modelKinds {
		w.sources[kind] = &teller{world: w, kind: kind, uids: map[types.UID]bool{}, listedUIDs: map[types.UID]bool{}, deletedUIDs: map[types.UID]bool{}, deletions: map[int]int{}}
		for i := range thingsOfKind {
			name := types.NamespacedName{Namespace: string("xy"[i%2]), Name: string(rune('a' + i))}
			w.things = append(w.things, &thing{kind: kind, key: streams.Key{GroupKind: modelKinds[kind], NamespacedName: name}, facts: []fact{{}}, causes: map[int]bool{}})
		}
	}
	return w
}

// neighbour is another thing of the same kind.
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

// at is the place of the fact at a version.
func (t *thing) at(version int) int {
	at := len(t.facts) - 1
	for t.facts[at].version > version {
		at--
	}
	return at
}

// from is the place of the first fact, from a place on, that is an object or its absence;
// -1 if there is none.
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

// described is an object as uid@version.
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

// remove deletes a thing. Nobody is told if it is missed.
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

// teller is a source: it tells of its kind what stands in the log of the server.
type teller struct {
	world     *world
	kind      int
	connected bool // it tells at once what happens
	listed    bool // it has told a whole list
	place     int  // in the log: what it has told
	oldest    int  // in the log: what its last list told, so that it never goes back before
	upTo      int  // the version up to which it has told everything
	behind    bool // its last list was older than it could be
	rest      []streams.Event
	outbox    []streams.Event // a batch in the making
	lastList  int             // how many events it had told before

	events      int
	uids        map[types.UID]bool // that it told of one by one
	listedUIDs  map[types.UID]bool // that its lists told of
	deletedUIDs map[types.UID]bool // whose deletion it told of
	deletions   map[int]int        // how often it told of a deletion, by version
	created     []creation
	applied     []application
}

// application is an event of the type Applied, which told something new.
type application struct {
	key     streams.Key
	version int
	event   int // how many the source had told before
}

// creation is the first event of an object that a source told of one by one, and that told
// something new.
type creation struct {
	uid   types.UID
	event int // how many the source had told before
}

func versionOf(resourceVersion string) int {
	version, err := strconv.Atoi(resourceVersion)
	if err != nil {
		panic(err)
	}
	return version
}

func (s *teller) tell(told ...streams.Event) {
	for _, event := range told {
		switch event.Type {
		case streams.ListStart:
			s.lastList = s.events
		case streams.Listed:
			s.listedUIDs[event.Object.GetUID()] = true
		case streams.Applied, streams.Deleted:
			if uid := event.Object.GetUID(); !s.uids[uid] {
				s.uids[uid] = true
				// An object that came and went before what a list told may be told of again, and is no news.
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
	s.outbox = append(s.outbox, told...)
}

// catchUp tells what has happened since it told something last.
func (s *teller) catchUp() {
	if s.connected {
		s.tell(s.world.logs[s.kind][s.place:]...)
		s.place = len(s.world.logs[s.kind])
	}
}

// resume connects anew, at the place where it was or some events before it.
func (s *teller) resume(repeated int) {
	if !s.listed || s.rest != nil {
		s.list()
		return
	}
	s.place = max(s.oldest, s.place-repeated)
	s.connected = true
	s.catchUp()
}

// repeat tells one event anew, the third last, and is cut off.
func (s *teller) repeat() {
	if s.place-3 < s.oldest || !s.listed || s.rest != nil {
		return
	}
	s.place -= 3
	s.tell(s.world.logs[s.kind][s.place])
	s.place++
	s.connected = false
}

// listAt is a list at a version, asked for when the server was where it is now.
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

// after is the place in the log after a version.
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

// begin tells half a list. What it says next is the rest of it, or another list.
func (s *teller) begin() {
	list := s.listAt(s.world.version)
	s.tell(list[:(len(list)+1)/2]...)
	s.rest = list[(len(list)+1)/2:]
	s.oldest = len(s.world.logs[s.kind])
	s.connected = false
}

func (s *teller) finish() {
	if s.rest == nil {
		return
	}
	s.tell(s.rest...)
	s.rest = nil
	s.place, s.connected, s.listed = s.oldest, true, true
	s.catchUp()
}

// listOld tells a list that is a number of events old, as from a server that lags, and
// what happened since.
func (s *teller) listOld(age int) {
	log := s.world.logs[s.kind]
	if len(log) <= age {
		s.list()
		return
	}
	version := versionOf(log[len(log)-1-age].ResourceVersion)
	s.rest = nil
	s.tell(s.listAt(version)...)
	s.oldest = s.after(version)
	s.place, s.connected, s.listed = s.oldest, true, true
	s.catchUp()
}

// bookmark tells that all up to now has been told.
func (s *teller) bookmark() {
	if s.connected {
		s.tell(streams.Event{
			Type: streams.Bookmark, Source: modelKinds[s.kind].Kind, Key: streams.Key{GroupKind: modelKinds[s.kind]},
			ResourceVersion: strconv.Itoa(s.world.version),
		})
	}
}
