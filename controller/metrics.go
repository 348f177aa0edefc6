package controller

import (
	"errors"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// buckets hold those of the Java Operator SDK (0.01 to 30 s), so that quantiles
// compare, and finer ones below.
var buckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60}

// metrics are the time series of a manager. Names are those of controller-runtime where
// it has the concept.
type metrics struct {
	reconciles, failures, terminals, panics, timeouts *prometheus.CounterVec
	duration, queued, worked                          *prometheus.HistogramVec
	echoes                                            *prometheus.HistogramVec
	adds, retries, writes                             *prometheus.CounterVec
}

func newMetrics(m *Manager) (*metrics, error) {
	var err error // the first one
	register := func(made prometheus.Collector) {
		if err == nil {
			err = m.options.Registry.Register(made)
		}
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		made := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		register(made)
		return made
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		made := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		register(made)
		return made
	}
	made := &metrics{
		reconciles: counter("controller_runtime_reconcile_total", "Reconciles, by result.", "controller", "result"),
		failures:   counter("controller_runtime_reconcile_errors_total", "Reconciles that failed.", "controller"),
		terminals:  counter("controller_runtime_terminal_reconcile_errors_total", "Reconciles that failed and are not tried again.", "controller"),
		panics:     counter("controller_runtime_reconcile_panics_total", "Reconciles that panicked.", "controller"),
		timeouts:   counter("controller_runtime_reconcile_timeouts_total", "Reconciles that timed out.", "controller"),
		duration:   histogram("controller_runtime_reconcile_time_seconds", "Time of a reconcile.", "controller"),
		echoes:     histogram("bellerophon_own_write_echo_seconds", "Time from the answer to a write to its event in the cache; 0 if the event was faster.", "kind"),
		queued:     histogram("workqueue_queue_duration_seconds", "Time from being ready to be reconciled to being reconciled.", "name", "controller"),
		worked:     histogram("workqueue_work_duration_seconds", "Time of a reconcile.", "name", "controller"),
		adds:       counter("workqueue_adds_total", "Attempts that were queued and came to run.", "name", "controller"),
		retries:    counter("workqueue_retries_total", "Attempts after a failure.", "name", "controller"),
		writes:     counter("bellerophon_writes_total", "Writes to the API server that succeeded.", "controller", "verb", "kind"),
	}
	m.cache.OnEcho(func(kind schema.GroupKind, latency time.Duration) {
		made.echoes.WithLabelValues(kind.String()).Observe(latency.Seconds())
	})
	register(&state{m})
	registerProcessMetrics(m.options.Registry)
	return made, err
}

// expect makes the series of a controller, at 0, so that they exist from the start.
func (m *metrics) expect(name string) {
	for _, outcome := range []operators.Outcome{operators.Succeeded, operators.Requeued, operators.Failed, operators.Ended} {
		m.reconciles.WithLabelValues(name, string(outcome))
	}
	for _, counter := range []*prometheus.CounterVec{m.failures, m.terminals, m.panics, m.timeouts} {
		counter.WithLabelValues(name)
	}
	m.adds.WithLabelValues(name, name)
	m.retries.WithLabelValues(name, name)
}

func (m *metrics) result(result operators.Result) {
	name := result.Controller
	m.reconciles.WithLabelValues(name, string(result.Outcome)).Inc()
	m.duration.WithLabelValues(name).Observe(result.Duration.Seconds())
	m.worked.WithLabelValues(name, name).Observe(result.Duration.Seconds())
	m.queued.WithLabelValues(name, name).Observe(result.Queued.Seconds())
	m.adds.WithLabelValues(name, name).Inc()
	if result.Attempt > 1 {
		m.retries.WithLabelValues(name, name).Inc()
	}
	for _, write := range result.Writes {
		m.writes.WithLabelValues(name, write.Verb, write.Key.Kind).Inc()
	}
	if result.Err == nil {
		return
	}
	m.failures.WithLabelValues(name).Inc()
	var panicked *lifecycle.PanicError
	switch {
	case errors.As(result.Err, &panicked):
		m.panics.WithLabelValues(name).Inc()
	case errors.Is(result.Err, operators.ErrTimeout):
		m.timeouts.WithLabelValues(name).Inc()
	case result.Outcome == operators.Ended:
		m.terminals.WithLabelValues(name).Inc()
	}
}

// state collects what is read off a manager when it is asked for.
type state struct{ manager *Manager }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	maxConcurrent  = desc("controller_runtime_max_concurrent_reconciles", "Workers of the pool that all controllers share.", "controller")
	activeWorkers  = desc("controller_runtime_active_workers", "Reconciles that run now.", "controller")
	queueDepth     = desc("workqueue_depth", "Objects that are queued or back off.", "name", "controller", "priority")
	unfinished     = desc("workqueue_unfinished_work_seconds", "How long the reconciles that run now have run, together.", "name", "controller")
	longestRunning = desc("workqueue_longest_running_processor_seconds", "How long the longest of them has run.", "name", "controller")
	debounceEvents = desc("bellerophon_debounce_events_total", "Events into and out of the debounce; in over out is the coalescing ratio.", "direction")
	debounceHeld   = desc("bellerophon_debounce_waiting", "Events that the debounce holds.")
	cacheObjects   = desc("bellerophon_cache_objects", "Objects in the cache.", "kind")
	cacheOdd       = desc("bellerophon_cache_anomalies_total", "Events that should not happen.", "kind", "anomaly")
	syncLevel      = desc("bellerophon_sync_level", "Level of sync: 0 starting, 1 listed, 2 current, 3 own writes visible, 4 settled.")
	loopDuration   = desc("bellerophon_loop_duration_seconds", "Smoothed time from an event to the echo of the last write it led to.")
	sourceState    = desc("bellerophon_source_state", "1 for what a watch is doing: listing, watching or backing_off.", "kind", "state")
	sourceRequests = desc("bellerophon_source_requests_total", "Lists completed, watches opened, and requests failed.", "kind", "request")
	sourceSilence  = desc("bellerophon_source_silence_seconds", "Time since the last event or bookmark of a watch.", "kind")
)

// Describe implements prometheus.Collector.
func (s *state) Describe(out chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{maxConcurrent, activeWorkers, queueDepth, unfinished, longestRunning, debounceEvents, debounceHeld, cacheObjects,
		cacheOdd, syncLevel, loopDuration, sourceState, sourceRequests, sourceSilence} {
		out <- description
	}
}

// Collect implements prometheus.Collector.
func (s *state) Collect(out chan<- prometheus.Metric) {
	gauge := func(of *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, labels...)
	}
	counter := func(of *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(of, prometheus.CounterValue, float64(value), labels...)
	}
	m := s.manager
	for name, controller := range m.controllers {
		running, total, longest := m.attempts[name].now()
		gauge(maxConcurrent, float64(m.options.Workers), name)
		gauge(activeWorkers, float64(running), name)
		gauge(queueDepth, float64(controller.Flow.Waiting.Load()), name, name, "0")
		gauge(unfinished, total.Seconds(), name, name)
		gauge(longestRunning, longest.Seconds(), name, name)
	}
	counter(debounceEvents, m.debounce.In.Load(), "in")
	counter(debounceEvents, m.debounce.Out.Load(), "out")
	gauge(debounceHeld, float64(m.debounce.Waiting.Load()))
	gauge(syncLevel, float64(m.cache.Level()))
	gauge(loopDuration, m.cache.Loop().Duration().Seconds())
	for _, store := range m.cache.Stores() {
		kind := store.Kind().String()
		gauge(cacheObjects, float64(store.Len()), kind)
		store.Anomalies(func(anomaly cache.Anomaly, count int64) { counter(cacheOdd, count, kind, anomaly.String()) })
	}
	for _, watched := range m.watches {
		kind, status := watched.kind.GroupKind().String(), watched.options.Status
		current := sources.WatchState(status.State.Load())
		for _, state := range []sources.WatchState{sources.Listing, sources.Watching, sources.BackingOff} {
			value := 0.0
			if state == current {
				value = 1
			}
			gauge(sourceState, value, kind, state.String())
		}
		counter(sourceRequests, status.Lists.Load(), kind, "list")
		counter(sourceRequests, status.Watches.Load(), kind, "watch")
		counter(sourceRequests, status.Errors.Load(), kind, "failed")
		if last := status.Last.Load(); last > 0 {
			gauge(sourceSilence, time.Since(time.Unix(0, last)).Seconds(), kind)
		}
	}
}
