package controller

import "github.com/prometheus/client_golang/prometheus"

var (
	shardMembers   = desc("bellerophon_shard_members", "Replicas that share the objects, as this one sees them; 0 while it has not joined.")
	shardSlots     = desc("bellerophon_shard_slots", "Slots, of 256, that this replica owns.")
	shardKeys      = desc("bellerophon_shard_keys", "Objects in the cache that sharded controllers reconcile.")
	shardHandovers = desc("bellerophon_shard_handovers_total", "Slots that this replica took over (gained), handed over (released), and gave up since its Lease was not renewed in time (lost).", "direction")
	shardFilter    = desc("bellerophon_shard_filter", "1 for what keeps the objects of other replicas out of the cache: server (a sharded watch), door (dropped after decoding), or none (all objects are kept).", "kind", "by")
)

// describe sends the descriptions of the metrics of a share.
func (*share) describe(out chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{shardMembers, shardSlots, shardKeys, shardHandovers, shardFilter} {
		out <- description
	}
}

// collect sends the metrics of a share.
func (s *share) collect(present *present, gauge func(*prometheus.Desc, float64, ...string), counter func(*prometheus.Desc, int64, ...string)) {
	if s == nil {
		return
	}
	counts := s.member.Counts()
	gauge(shardMembers, float64(counts.Members))
	gauge(shardSlots, float64(counts.Owned))
	gauge(shardKeys, float64(s.Keys()))
	counter(shardHandovers, int64(counts.Gained), "gained")
	counter(shardHandovers, int64(counts.Released), "released")
	counter(shardHandovers, int64(counts.Lost), "lost")
	for _, watched := range present.watches {
		if watched.store() == nil {
			continue
		}
		now := s.filterOf(watched, present)
		for _, by := range []string{"server", "door", "none"} {
			value := 0.0
			if by == now {
				value = 1
			}
			gauge(shardFilter, value, watched.kind.GroupKind().String(), by)
		}
	}
}

// filterOf returns what keeps the objects of other replicas out of the cache.
func (s *share) filterOf(watched *watched, present *present) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch _, whole := s.rulesOf(watched, present); {
	case whole:
		return "none"
	case watched.options.Status.ServerSelects.Load():
		return "server"
	}
	return "door"
}
