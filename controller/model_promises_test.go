package controller_test

import (
	"slices"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
)

// observe reads a thing as readers do, and checks that the reads do not go back in time.
func (l *lived) observe(thing *thing) streams.Object {
	l.mu.Lock()
	defer l.mu.Unlock()
	object, _ := l.stores[thing.kind].Get(thing.key.NamespacedName)
	place := thing.from(thing.floor, object)
	if place < 0 {
		l.world.broken("readers see %v as %s after %s", thing.key, described(object), thing.facts[thing.floor])
		return object
	}
	thing.floor = place
	return object
}

// passed records that from now on readers see a fact or a later one, and checks that.
func (l *lived) passed(thing *thing, place int) {
	l.mu.Lock()
	thing.floor = max(thing.floor, place)
	l.mu.Unlock()
	l.observe(thing)
}

func (l *lived) readAll() {
	for _, thing := range l.world.things {
		l.observe(thing)
	}
}

// onChanges checks the changes of the cache: each begins with the object of the last change of its
// key, and readers then see the new object.
func (l *lived) onChanges(changes []streams.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, change := range changes {
		thing := l.thing(change.Key)
		if thing == nil {
			l.world.broken("the cache yields a change of %v, which no source has", change.Key)
			continue
		}
		l.follow(thing, change)
	}
}

func (l *lived) thing(key streams.Key) *thing {
	for _, thing := range l.world.things {
		if thing.key == key {
			return thing
		}
	}
	return nil
}

func (l *lived) follow(thing *thing, change streams.Change) {
	last := change.Causes[len(change.Causes)-1]
	overwritten := change.Type == streams.Unchanged && change.Old != change.New // an own write that the watch did not report
	if last.Type == streams.Deleted && !overwritten {
		l.removals[removal{thing.kind, versionOf(last.ResourceVersion)}]++
	}
	for _, cause := range change.Causes {
		if cause.Type == 0 {
			thing.causes[0] = true
		} else {
			thing.causes[versionOf(cause.ResourceVersion)] = true
		}
	}
	if last.Key != change.Key {
		l.world.broken("the change of %v is caused by %v", change.Key, last.Key)
	}
	for _, object := range []streams.Object{change.Old, change.New} {
		if object != nil {
			l.seen[object.GetUID()] = true
			if streams.KeyOf(change.Key.GroupKind, object) != change.Key {
				l.world.broken("the change of %v has %s/%s", change.Key, object.GetNamespace(), object.GetName())
			}
		}
	}
	switch change.Type {
	case streams.Added:
		if thing.last != nil {
			l.world.broken("%v was added as %s and was there as %s", thing.key, described(change.New), described(thing.last))
		}
		thing.last = change.New
	case streams.Updated:
		if thing.last == nil || change.Old != thing.last || change.New.GetUID() != thing.last.GetUID() ||
			!streams.IsOlderVersion(thing.last.GetResourceVersion(), change.New.GetResourceVersion()) {
			l.world.broken("%v was updated from %s to %s and was %s", thing.key, described(change.Old), described(change.New), described(thing.last))
		}
		thing.last = change.New
	case streams.Removed:
		if thing.last != nil && change.Old != thing.last {
			l.world.broken("%v was removed as %s and was %s", thing.key, described(change.Old), described(thing.last))
		}
		thing.last = nil
	case streams.Unchanged:
		if change.New != thing.last || change.Old != thing.last && !overwritten {
			l.world.broken("%v was repeated as %s and was %s", thing.key, described(change.New), described(thing.last))
		}
		if overwritten && (change.Old == nil || thing.from(0, change.Old) < 0 ||
			change.New != nil && !streams.IsOlderVersion(change.Old.GetResourceVersion(), change.New.GetResourceVersion())) {
			l.world.broken("%v was overwritten as %s by %s, which is not newer", thing.key, described(change.Old), described(change.New))
		}
	}
	if change.New != nil {
		if place := thing.from(0, change.New); place < 0 {
			l.world.broken("%v became %s, a state that the server never had", thing.key, described(change.New))
		} else {
			thing.floor = max(thing.floor, place)
		}
	}
}

// checkVersions checks that everything up to the version that a store claims is in it. The changes
// of a batch become visible together, so it is called between batches.
func (l *lived) checkVersions() {
	for _, thing := range l.world.things {
		version := l.stores[thing.kind].Version()
		if version == "" {
			continue
		}
		if thing.from(thing.at(versionOf(version)), thing.last) < 0 {
			l.world.broken("%v is %s, which is older than the version %s of the store", thing.key, described(thing.last), version)
		}
	}
}

// checkRest checks the promises that hold whenever all goroutines are blocked.
func (l *lived) checkRest() {
	l.readAll()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests.isOpen() { // Else the pipeline may be inside a batch.
		l.checkVersions()
	}
	// The debounce holds at most the errors, and of each source one state of each object, a list and
	// a bookmark. It holds these twice, because the next batch to send is taken out already.
	bound := l.sent
	for _, source := range l.world.sources {
		bound += 2 * (len(source.uids) + len(source.listedUIDs) + 3)
		for _, times := range source.deletions {
			bound += 2 * (times - 1) // Repeated deletions are not folded either.
		}
	}
	if waiting := int(l.count("debounce").Waiting); waiting > bound {
		l.world.broken("%d events wait in the debounce, of at most %d objects, lists and bookmarks", waiting, bound)
	}
	if waiting := int(l.count("reconcile").Waiting); waiting > len(l.world.things) {
		l.world.broken("%d objects of %d wait for a reconcile", waiting, len(l.world.things))
	}
	if l.stores[2].Version() == "" && l.cache.Level() != cache.Starting {
		l.world.broken("the level is %v, and a kind has not been listed", l.cache.Level())
	}
}

// checkEnd checks the promises that hold when the pipeline has ended.
func (l *lived) checkEnd(cut bool) {
	if waiting, running := l.count("debounce").Waiting+l.count("reconcile").Waiting, len(l.running); waiting != 0 || running != 0 {
		l.world.broken("at the end %d wait and %d run", waiting, running)
	}
	if cut {
		return
	}
	l.readAll()
	events := 0
	for _, source := range l.world.sources {
		events += source.events
		l.checkNothingFoldedAway(source)
	}
	if in := int(l.count("debounce").In); in != events {
		l.world.broken("%d events came to the debounce, of %d", in, events)
	}
	if l.errors != l.sent {
		l.world.broken("%d errors came through, of %d", l.errors, l.sent)
	}
	for kind, store := range l.stores {
		l.checkStore(kind, store)
	}
	for to, read := range l.read {
		l.checkReconciled(to, read)
	}
	for _, thing := range l.world.things {
		if to := (target{controllerOf[thing.kind], thing.key.NamespacedName}); l.read[to] == nil && thing.last != nil {
			l.world.broken("%v was never reconciled", to)
		}
	}
	if level := l.cache.Level(); level != cache.OwnWritesVisible {
		l.world.broken("at the end the level is %v", level)
	}
}

var controllerOf = [len(modelKinds)]string{"heroes", "heroes", "weapons"}

// checkNothingFoldedAway checks that no event is lost. Each emitted deletion is a change of its own,
// also if it repeats. Each applied version is a cause of a change, and each object appears in a
// change, unless it was deleted as well. What came before the last list of a source is exempt, as
// the list replaces it.
func (l *lived) checkNothingFoldedAway(source *teller) {
	for version, times := range source.deletions {
		if changes := l.removals[removal{source.kind, version}]; changes != times {
			l.world.broken("the deletion of version %d was emitted %d times and was %d changes", version, times, changes)
		}
	}
	for _, applied := range source.applied {
		thing := l.thing(applied.key)
		if applied.event >= source.lastList && !thing.causes[0] && !thing.causes[applied.version] {
			l.world.broken("version %d of %v caused no change", applied.version, applied.key)
		}
	}
	for _, created := range source.created {
		if created.event >= source.lastList && !source.deletedUIDs[created.uid] && !l.seen[created.uid] {
			l.world.broken("the object %s appeared in no change", created.uid)
		}
	}
}

// checkStore checks that the cache holds what the server holds, by name and by index.
func (l *lived) checkStore(kind int, store *cache.Store) {
	var all []string
	byColours := map[string][]string{}
	for _, namespace := range []string{"x", "y"} {
		var within []string
		for _, thing := range l.world.things {
			if object := thing.now(); thing.kind == kind && object != nil && object.Namespace == namespace {
				line := object.Name + " " + described(object)
				within = append(within, line)
				byColours[object.Labels["colour"]] = append(byColours[object.Labels["colour"]], line)
			}
		}
		l.compare(store.List(namespace), within)
		all = append(all, within...)
	}
	l.compare(store.List(""), all)
	for _, colour := range colours {
		l.compare(store.ByIndex("colour", colour), byColours[colour])
	}
	for _, thing := range l.world.things {
		if now := len(thing.facts) - 1; thing.kind == kind && thing.from(now, thing.last) < 0 {
			l.world.broken("by the changes %v is %s, and on the server %v", thing.key, described(thing.last), thing.facts[now])
		}
	}
}

func (l *lived) compare(held []streams.Object, want []string) {
	var lines []string
	for _, object := range held {
		lines = append(lines, object.GetName()+" "+described(object))
	}
	if !slices.Equal(lines, want) {
		l.world.broken("at the end the cache has %q, the server %q", lines, want)
	}
}

// checkReconciled checks that the last reconcile of an object has read the state of the server.
func (l *lived) checkReconciled(to target, read []streams.Object) {
	for _, thing := range l.world.things {
		if controllerOf[thing.kind] != to.controller || thing.key.NamespacedName != to.name {
			continue
		}
		object := read[thing.kind%2]
		if now := len(thing.facts) - 1; thing.from(now, object) < 0 {
			l.world.broken("the last reconcile of %v has read %s, the server has %v", to, described(object), thing.facts[now])
		}
	}
}
