package cache_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

type pod = *metav1.PartialObjectMetadata

// hiddenApp is the label value that the selector of the watch leaves out.
const hiddenApp = "hidden"

var (
	modelKeys = []string{"a/x", "a/y", "ab/x"}
	modelApps = []string{"red", "blue", hiddenApp}
)

// model is an API server with a watch that lags, and the state that a reader should see. For each
// key that is the newer one of the state that the watch has reported and the state that own writes
// left. Objects that an own deletion removed are left out.
type model struct {
	cache *cache.Cache
	store *cache.Store

	version int
	uids    int
	history []map[string]pod           // the server's state, by version
	behind  map[string][]streams.Event // by key: what the watch has not sent yet
	past    []streams.Event            // what it has sent
	answers []answer                   // to own writes, still in flight

	complete int                  // the version up to which the watch has sent everything
	seen     int                  // the newest version that it has sent
	changes  map[string]pod       // by key
	toldAt   map[string]int       // by key: the version of the last event
	own      map[string]pod       // by key: the newest own write that was answered
	removed  map[types.UID]string // own deletions of what readers saw, that were answered
	replica  map[string]pod       // the state that results from the cache's changes
}

type answer struct {
	key     string
	object  pod
	deleted bool
}

func newModel(t *testing.T) *model {
	m := &model{
		history: []map[string]pod{{}}, behind: map[string][]streams.Event{},
		changes: map[string]pod{}, toldAt: map[string]int{}, own: map[string]pod{},
		removed: map[types.UID]string{}, replica: map[string]pod{},
	}
	m.cache, m.store = newCache(t)
	return m
}

// write changes the server's state, and queues the event that the watch will send.
func (m *model) write(key string, after pod) {
	before := m.history[m.version][key]
	m.version++
	state := map[string]pod{}
	for key, object := range m.history[m.version-1] {
		state[key] = object
	}
	delete(state, key)
	if after != nil {
		after.ResourceVersion = strconv.Itoa(m.version)
		state[key] = after
	}
	m.history = append(m.history, state)
	switch {
	case visible(after):
		m.behind[key] = append(m.behind[key], of(streams.Applied, after))
	case visible(before):
		last := before.DeepCopy()
		last.ResourceVersion = strconv.Itoa(m.version)
		m.behind[key] = append(m.behind[key], of(streams.Deleted, last))
	}
}

func visible(object pod) bool { return object != nil && object.Labels["app"] != hiddenApp }

func versionOf(object pod) int {
	version, err := strconv.Atoi(object.ResourceVersion)
	if err != nil {
		panic(err)
	}
	return version
}

// change makes a random write to the server and returns its answer.
func (m *model) change(t *rapid.T) answer {
	key := rapid.SampledFrom(modelKeys).Draw(t, "key")
	current := m.history[m.version][key]
	if current != nil && rapid.IntRange(0, 2).Draw(t, "how") == 0 {
		m.write(key, nil)
		return answer{key, current, true}
	}
	app := rapid.SampledFrom(modelApps).Draw(t, "app")
	after := object(key, "", app)
	if current != nil {
		after.UID = current.UID
	} else {
		m.uids++
		after.UID = types.UID(fmt.Sprintf("u%d", m.uids))
	}
	m.write(key, after)
	return answer{key, after, false}
}

// deliver brings events of the watch into the model and into the cache.
func (m *model) deliver(t *rapid.T, events ...streams.Event) {
	for _, event := range events {
		if event.Object == nil {
			continue
		}
		key := event.Object.GetNamespace() + "/" + event.Object.GetName()
		m.past = append(m.past, event)
		m.seen = max(m.seen, versionOf(event.Object.(pod)))
		m.toldAt[key] = versionOf(event.Object.(pod))
		m.changes[key] = nil
		if event.Type == streams.Applied {
			m.changes[key] = event.Object.(pod)
		}
	}
	m.apply(t, events)
}

// apply brings events into the cache, and the cache's changes into the replica.
func (m *model) apply(t *rapid.T, events []streams.Event) {
	for _, change := range m.cache.Apply(events) {
		key := change.Key.Namespace + "/" + change.Key.Name
		held := m.replica[key]
		switch change.Type {
		case streams.Added:
			if held != nil {
				t.Fatalf("%s was added, and was there already", key)
			}
			m.replica[key] = change.New.(pod)
		case streams.Updated:
			if held == nil || change.Old != streams.Object(held) || change.New.GetUID() != held.UID {
				t.Fatalf("%s was updated from %s to %s, and was %v", key, stateOf(change.Old), stateOf(change.New), held)
			}
			m.replica[key] = change.New.(pod)
		case streams.Removed:
			if held != nil && change.Old != streams.Object(held) {
				t.Fatalf("%s was removed as %s, and was %s", key, stateOf(change.Old), stateOf(held))
			}
			delete(m.replica, key)
		}
	}
	for uid, key := range m.removed {
		if !m.shows(key, uid) {
			delete(m.removed, uid) // The watch has reported the deletion too.
		}
	}
}

// upTo removes the events from a queue that are no newer than a version, and returns them.
func (m *model) upTo(key string, version int) []streams.Event {
	queue := m.behind[key]
	n := 0
	for n < len(queue) && versionOf(queue[n].Object.(pod)) <= version {
		n++
	}
	m.behind[key] = queue[n:]
	return queue[:n]
}

// reads returns what a reader should see of a key, or nil.
func (m *model) reads(key string) pod {
	object := m.changes[key]
	if own := m.pendingWrite(key); own != nil && (object == nil || versionOf(object) < versionOf(own)) {
		object = own
	}
	if object != nil && m.removed[object.UID] != "" {
		return nil
	}
	return object
}

// pendingWrite returns the own write that the watch has not passed, or nil.
func (m *model) pendingWrite(key string) pod {
	if own := m.own[key]; own != nil && versionOf(own) > max(m.complete, m.toldAt[key]) {
		return own
	}
	return nil
}

// shows reports whether the watch or an own write has an object of a uid.
func (m *model) shows(key string, uid types.UID) bool {
	changed, own := m.changes[key], m.pendingWrite(key)
	return (changed != nil && changed.UID == uid) || (own != nil && own.UID == uid)
}

func (m *model) answered(answer answer) {
	if answer.deleted {
		uid := answer.object.UID
		if m.shows(answer.key, uid) {
			m.removed[uid] = answer.key
		}
		m.store.RecordDeletion(named(answer.key), uid, time.Time{})
		return
	}
	if own := m.pendingWrite(answer.key); own == nil || versionOf(own) < versionOf(answer.object) {
		m.own[answer.key] = answer.object
	}
	m.store.RecordWrite(answer.object, time.Time{}, time.Time{})
}

func (m *model) check(t *rapid.T) {
	var all, first []string
	byApp := map[string][]string{}
	level := cache.OwnWritesVisible
	for _, key := range modelKeys {
		if changed := m.changes[key]; changed != m.replica[key] {
			t.Fatalf("by the changes %s is %v, by the watch %v", key, changed, m.replica[key])
		}
		if own := m.pendingWrite(key); own != nil {
			level = cache.Current
		}
		if changed := m.changes[key]; changed != nil && m.removed[changed.UID] != "" {
			level = cache.Current
		}
		object := m.reads(key)
		if object == nil {
			if now := got(m.store, key); now != "-" {
				t.Fatalf("Get of %s says %s, want nothing", key, now)
			}
			continue
		}
		if now := got(m.store, key); now != stateOf(object) {
			t.Fatalf("Get of %s says %s, want %s", key, now, stateOf(object))
		}
		line := key + " " + stateOf(object)
		all = append(all, line)
		byApp[object.Labels["app"]] = append(byApp[object.Labels["app"]], line)
		if object.Namespace == "a" {
			first = append(first, line)
		}
	}
	compare := func(what string, got []streams.Object, want []string) {
		if !slices.Equal(held(got), want) {
			t.Fatalf("%s has %v, want %v", what, held(got), want)
		}
	}
	compare("List", m.store.List(""), all)
	compare("List of a", m.store.List("a"), first)
	for _, app := range modelApps {
		compare("ByIndex of "+app, m.store.ByIndex("app", app), byApp[app])
	}
	if now := m.cache.Level(); now != level {
		t.Fatalf("the level is %v, want %v", now, level)
	}
}
