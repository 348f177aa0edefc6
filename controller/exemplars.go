package controller

import (
	"sort"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/prometheus/client_golang/prometheus"
)

// exemplarEvery is the least time between two exemplars of a bucket. Prometheus takes one of them at each scrape, so more
// would only cost: see BenchmarkResults.
const exemplarEvery = time.Second

// exemplars decides which observations of a histogram become exemplars. Its methods may be called from any goroutine.
type exemplars struct {
	mu   sync.Mutex
	last map[string][]time.Time // by the controller: when each bucket got its last one
}

// newExemplars creates the exemplars of a histogram, or nil for a manager without a history. An exemplar names an
// attempt, and without a history no server could show it.
func newExemplars(m *Manager) *exemplars {
	if m.history == nil {
		return nil
	}
	return &exemplars{last: map[string][]time.Time{}}
}

// observe adds a duration of an attempt to a histogram, with the attempt's ID unless the bucket got one just before. The
// ID is a keyed hash, so it shows no name of an object.
func (e *exemplars) observe(histogram prometheus.Observer, of *operators.Result, duration time.Duration) {
	seconds := duration.Seconds()
	if e == nil || !e.isDue(of.Controller, seconds, of.Started.Add(of.Duration)) {
		histogram.Observe(seconds)
		return
	}
	histogram.(prometheus.ExemplarObserver).ObserveWithExemplar(seconds, prometheus.Labels{
		"reconcile_id": operators.AttemptID(of.Controller, of.NamespacedName, of.Started),
	})
}

// isDue reports whether the bucket of a value gets an exemplar now.
func (e *exemplars) isDue(controller string, value float64, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.last[controller]
	if last == nil {
		last = make([]time.Time, len(buckets)+1)
		e.last[controller] = last
	}
	bucket := &last[sort.SearchFloat64s(buckets, value)]
	if !bucket.IsZero() && now.Sub(*bucket) < exemplarEvery {
		return false
	}
	*bucket = now
	return true
}

// forget drops the buckets of a controller that is removed.
func (e *exemplars) forget(controller string) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.last, controller)
}
