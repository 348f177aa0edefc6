package sourcestest

import (
	"maps"
	"time"
)

// Snapshot is the state of a [Server] at one moment, for [Server.Restore].
type Snapshot struct {
	version uint64
	kinds   map[*served]kept
}

// kept is the state of one kind in a snapshot.
type kept struct {
	objects objects
	gone    bool
}

// Snapshot records the objects of all kinds and the current resource version.
func (s *Server) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collect()
	taken := &Snapshot{version: s.version, kinds: map[*served]kept{}}
	for _, place := range s.places {
		taken.kinds[place] = kept{maps.Clone(place.objects), place.gone}
	}
	return taken
}

// Restore sets the server back to one of its own snapshots, as a restore of etcd from a backup
// does. Objects and resource versions are taken from the snapshot, so versions are used a second
// time, for other states. The history is dropped, and open watches break.
//
// Requests with a version above the current one are answered as by a real API server. A list, also
// a streamed one, fails with "Too large resource version". A watch opens, and skips events and
// bookmarks up to its version.
func (s *Server) Restore(snapshot *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for place, then := range snapshot.kinds {
		place.objects, place.order, place.gone = maps.Clone(then.objects), nil, then.gone
	}
	s.version, s.history, s.forgot = snapshot.version, nil, snapshot.version
	for watch := range s.watches {
		watch.breakOff()
	}
	s.collectAt = time.Time{} // What was due before is not due for these objects.
	s.collectSoon()
}
