package controller_test

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	watchLag = 5 * time.Second
	emitEach = 250 * time.Millisecond // a watch that lags emits its events in portions
)

// lagging is an API server whose watch emits each event 5 s late, and a cache behind it.
type lagging struct {
	cache  *cache.Cache
	store  *cache.Store
	inlet  *streams.Queue[streams.Event]
	group  *lifecycle.Group
	echoes atomic.Int64
	queued chan struct{} // has a token while behind is not empty

	mu      sync.Mutex
	version int
	uids    int
	objects map[types.NamespacedName]*metav1.PartialObjectMetadata
	behind  []late
}

// late is an event that the watch has yet to emit.
type late struct {
	at    time.Time
	event streams.Event
}

func newLagging(t *testing.T) *lagging {
	t.Helper()
	made, err := cache.New(cache.LoopOptions{}, noLog)
	if err != nil {
		t.Fatal(err)
	}
	s := &lagging{cache: made, inlet: streams.NewQueue[streams.Event](), queued: make(chan struct{}, 1), version: 1,
		objects: map[types.NamespacedName]*metav1.PartialObjectMetadata{}}
	s.store = made.Add(modelKinds[0], cache.ByOwner)
	s.group = lifecycle.New(t.Context())
	t.Cleanup(s.group.Stop)
	return s
}

// events returns the events of the watch, behind the debounce of a manager.
func (s *lagging) events() streams.Stream[streams.Event] {
	return operators.Debounce(streams.Create(s.inlet.Drain), operators.DebounceOptions{Window: operators.DefaultWindow})
}

// applied applies events to a cache, and returns what they changed.
func applied(to *cache.Cache, in streams.Stream[streams.Event]) streams.Stream[streams.Change] {
	return streams.MapOnReceive(in, func(batch []streams.Event) ([]streams.Change, error) { return to.Apply(batch), nil })
}

// follow has the watch emit an empty list, and then the events that are due, one portion each time.
func (s *lagging) follow(portion time.Duration) {
	s.group.Go("watch", func(ctx context.Context) error {
		s.inlet.Put(ctx, s.of(streams.ListStart, "1"), s.of(streams.ListEnd, "1"))
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-s.queued:
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(max(portion, s.wait())):
				s.inlet.Put(ctx, s.due(time.Now())...)
			}
		}
	})
}

// wait returns how long it is until the next event is due, or 0 without one.
func (s *lagging) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.behind) == 0 {
		return 0
	}
	return time.Until(s.behind[0].at)
}

func (s *lagging) due(now time.Time) (events []streams.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.behind) && !s.behind[n].at.After(now) {
		events = append(events, s.behind[n].event)
		n++
	}
	if s.behind = s.behind[n:]; len(s.behind) > 0 {
		s.queue()
	}
	return events
}

// of returns an event of the kind as a whole, such as a bookmark.
func (s *lagging) of(kind streams.EventType, version string) streams.Event {
	return streams.Event{Type: kind, Source: "lagging", Key: streams.Key{GroupKind: modelKinds[0]}, ResourceVersion: version}
}

// emit has the watch emit an event of an object after the lag. The caller holds s.mu.
func (s *lagging) emit(kind streams.EventType, object *metav1.PartialObjectMetadata) {
	event := s.of(kind, object.ResourceVersion)
	event.Key, event.Object = streams.KeyOf(modelKinds[0], object), object
	s.behind = append(s.behind, late{time.Now().Add(watchLag), event})
	s.queue()
}

func (s *lagging) queue() {
	select {
	case s.queued <- struct{}{}:
	default:
	}
}

// write creates or changes an object and returns the answer of the server.
func (s *lagging) write(name types.NamespacedName, owner types.UID) *metav1.PartialObjectMetadata {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	after := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: name.Namespace, Name: name.Name, ResourceVersion: strconv.Itoa(s.version),
		OwnerReferences: []metav1.OwnerReference{{UID: owner}},
	}}
	if before := s.objects[name]; before != nil {
		after.UID = before.UID
	} else {
		s.uids++
		after.UID = types.UID("u" + strconv.Itoa(s.uids))
	}
	s.objects[name] = after
	s.emit(streams.Applied, after)
	return after
}

// remove deletes an object and returns its uid.
func (s *lagging) remove(name types.NamespacedName) types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := *s.objects[name]
	delete(s.objects, name)
	s.version++
	last.ResourceVersion = strconv.Itoa(s.version)
	s.emit(streams.Deleted, &last)
	return last.UID
}

// writer writes objects of its own namespace, and reads each at once.
type writer struct {
	*lagging
	namespace string
	names     int
	next      int
	held      []string // the version of each object, or "" if there is none
	pairs     int
	deleted   int
	wrong     error
}

// pair writes the next object and reads it by name. Every 50th write is a deletion, if the object
// exists. After every 16th write the object is also read by its index, and after every 1024th in a
// list. No time may pass during the reads.
func (w *writer) pair() {
	at := w.next % w.names
	name, owner := types.NamespacedName{Namespace: w.namespace, Name: "n" + strconv.Itoa(at)}, types.UID("o"+strconv.Itoa(at/10))
	w.next++
	if w.held[at] != "" && w.next%50 == 0 {
		uid := w.remove(name)
		w.store.RecordDeletion(name, uid, time.Time{})
		w.held[at] = ""
		w.deleted++
	} else {
		answer := w.lagging.write(name, w.owned(owner))
		w.store.RecordWrite(answer, time.Time{}, time.Time{})
		w.held[at] = answer.ResourceVersion
	}
	before := time.Now()
	w.want("Get", name, at, w.get(name))
	if w.next%16 == 0 {
		w.inList("ByIndex", w.store.ByIndex(cache.OwnerIndex, string(w.owned(owner))), name, at)
	}
	if w.next%1024 == 0 {
		w.inList("List", w.store.List(w.namespace), name, at)
	}
	if waited := time.Since(before); waited != 0 {
		w.wrong = fmt.Errorf("reading %v took %v", name, waited)
	}
	w.pairs++
}

func (w *writer) owned(owner types.UID) types.UID { return types.UID(w.namespace) + "/" + owner }

func (w *writer) get(name types.NamespacedName) string {
	object, found := w.store.Get(name)
	if !found {
		return ""
	}
	return object.GetResourceVersion()
}

func (w *writer) want(how string, name types.NamespacedName, at int, got string) {
	if got != w.held[at] {
		w.wrong = fmt.Errorf("%s of %v says version %q, want %q", how, name, got, w.held[at])
	}
}

func (w *writer) inList(how string, list []streams.Object, name types.NamespacedName, at int) {
	got := ""
	for _, object := range list {
		if object.GetName() == name.Name {
			got = object.GetResourceVersion()
		}
	}
	w.want(how, name, at, got)
}

var ownWrites = flag.Int("own-writes", defaultOwnWrites, "number of own writes that are made and read behind a watch that lags: 1600 or more, best a multiple of 200")

// Eight writers make 2,000 writes a second, so 10,000 are pending at any time.
func TestAMillionReadsSeeOwnWritesThatTheWatchTellsFiveSecondsLate(t *testing.T) {
	const writers, each = 8, 25 // each of them, at each tick of 100 ms
	synctest.Test(t, func(t *testing.T) {
		s := newLagging(t)
		s.cache.OnEcho(func(_ schema.GroupKind, latency time.Duration) {
			s.echoes.Add(1)
			if latency < watchLag || latency > watchLag+emitEach+2*operators.DefaultWindow {
				t.Errorf("an own write was pending for %v", latency)
			}
		})
		s.group.Go("cache", func(ctx context.Context) error {
			return streams.ForEach(ctx, applied(s.cache, s.events()), func([]streams.Change) {}, func(err error) { t.Error(err) })
		})
		s.follow(emitEach)
		if err := s.cache.Wait(t.Context(), cache.OwnWritesVisible); err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		var all []*writer
		writing := lifecycle.New(t.Context())
		for i := range writers {
			w := &writer{lagging: s, namespace: "w" + strconv.Itoa(i), names: 2500, held: make([]string, 2500)}
			all = append(all, w)
			writing.Go("writer", func(ctx context.Context) error {
				ticker := time.NewTicker(100 * time.Millisecond)
				defer ticker.Stop()
				for w.pairs < *ownWrites/writers && w.wrong == nil {
					<-ticker.C
					for range each {
						w.pair()
					}
				}
				return w.wrong
			})
		}
		if err := writing.Wait(); err != nil {
			t.Error(err)
		}
		if level := s.cache.Level(); level != cache.Current {
			t.Errorf("with own writes pending the level is %v", level)
		}
		if elapsed, want := time.Since(started), time.Duration(*ownWrites/writers/each)*100*time.Millisecond; elapsed != want {
			t.Errorf("it took %v, want %v: a write or a read has waited", elapsed, want)
		}
		<-time.After(watchLag + time.Second)
		synctest.Wait()
		if level := s.cache.Level(); level != cache.OwnWritesVisible {
			t.Errorf("when the watch has emitted everything, the level is %v", level)
		}
		s.checkAll(t, all)
		s.group.Stop()
		if err := s.group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// checkAll checks that the cache holds what the server holds, and that the watch has passed each
// write that was answered with an object once.
func (s *lagging) checkAll(t *testing.T, all []*writer) {
	t.Helper()
	pairs, deletions := 0, 0
	for _, w := range all {
		pairs += w.pairs
		deletions += w.deleted
	}
	if echoes := int(s.echoes.Load()); pairs < *ownWrites || echoes != pairs-deletions {
		t.Errorf("of %d writes, %d of them deletions, %d have been passed", pairs, deletions, echoes)
	}
	if held := s.store.List(""); len(held) != len(s.objects) {
		t.Errorf("the cache has %d objects, the server %d", len(held), len(s.objects))
	}
	for name, object := range s.objects {
		if held, _ := s.store.Get(name); held != streams.Object(object) {
			t.Errorf("the cache has %v, the server %s", held, object.ResourceVersion)
		}
	}
}

// A selector hides an object, and with it an own write, from the watch. Nothing waits for the
// write, and the next bookmark removes it from the cache.
func TestAnOwnWriteThatASelectorHidesStallsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLagging(t)
		s.group.Go("cache", func(ctx context.Context) error {
			return streams.ForEach(ctx, applied(s.cache, s.events()), func([]streams.Change) {}, func(err error) { t.Error(err) })
		})
		s.follow(emitEach)
		if err := s.cache.Wait(t.Context(), cache.OwnWritesVisible); err != nil {
			t.Fatal(err)
		}
		hidden := types.NamespacedName{Namespace: "w", Name: "hidden"}
		answer := s.write(hidden, "o")
		s.mu.Lock()
		s.behind[0].event = s.of(streams.Bookmark, "1") // The selector hides the event.
		s.mu.Unlock()
		s.store.RecordWrite(answer, time.Time{}, time.Time{})
		w := &writer{lagging: s, namespace: "w", names: 20, held: make([]string, 20)}
		started := time.Now()
		for range 600 { // a minute
			w.pair()
			if object, found := s.store.Get(hidden); !found || object != streams.Object(answer) {
				t.Fatalf("the own write is not seen %v after it: %v", time.Since(started), object)
			}
			<-time.After(100 * time.Millisecond)
		}
		<-time.After(watchLag + time.Second)
		if w.wrong != nil || s.cache.Level() != cache.Current {
			t.Errorf("with one own write pending the level is %v: %v", s.cache.Level(), w.wrong)
		}
		s.inlet.Put(t.Context(), s.of(streams.Bookmark, strconv.Itoa(s.version)))
		synctest.Wait()
		if _, found := s.store.Get(hidden); found || s.cache.Level() != cache.OwnWritesVisible {
			t.Errorf("after the bookmark the level is %v, and the own write is visible: %v", s.cache.Level(), found)
		}
		s.group.Stop()
		if err := s.group.Wait(); err != nil {
			t.Error(err)
		}
	})
}
