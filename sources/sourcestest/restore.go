package sourcestest

import "maps"

// Snapshot is the state of a [Server] at one moment, for [Server.Restore].
type Snapshot struct {
	version uint64
	kinds   map[*served]stored
}

// stored is a kind within a snapshot.
type stored struct {
	objects objects
	gone    bool
}

// Snapshot records the objects of all kinds and the current resource version.
func (s *Server) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := &Snapshot{version: s.version, kinds: map[*served]stored{}}
	for _, place := range s.places {
		taken.kinds[place] = stored{maps.Clone(place.objects), place.gone}
	}
	return taken
}

// Restore sets the server back to a snapshot of its own, as an etcd that is restored from a
// backup. Objects and resource versions are those of the snapshot, and versions are used a
// second time for other states. All history is gone, and open watches break.
//
// Requests that name a version above the current one are answered as a real API server
// does. A list, also a streamed one, fails with "Too large resource version". A watch opens,
// and skips events and bookmarks up to that version.
func (s *Server) Restore(snapshot *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for place, then := range snapshot.kinds {
		place.objects, place.gone = maps.Clone(then.objects), then.gone
	}
	s.version, s.history, s.forgot = snapshot.version, nil, snapshot.version
	for watch := range s.watches {
		watch.breakOff()
	}
}
