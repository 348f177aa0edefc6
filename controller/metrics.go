package controller

import (
	"errors"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/internal/loglimit"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// buckets contains the buckets of the Java Operator SDK (0.01 to 30 s), so that quantiles can be
// compared. The buckets below these are finer.
var buckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60}

// metrics holds the time series of a manager. Where controller-runtime has the concept, the name is the
// same as there.
type metrics struct {
	reconciles, failures, terminals, panics, timeouts *prometheus.CounterVec
	duration, queued, worked                          *prometheus.HistogramVec
	echoes                                            *prometheus.HistogramVec
	adds, retries, writes                             *prometheus.CounterVec
	dropped                                           prometheus.Counter
	ofDuration, ofQueued                              *exemplars // nil without a history
}

// newMetrics creates and registers the metrics of a manager. It returns the first error of Register.
func newMetrics(m *Manager) (*metrics, error) {
	var err error
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
		terminals:  counter("controller_runtime_terminal_reconcile_errors_total", "Reconciles that failed with a terminal error, which is not retried.", "controller"),
		panics:     counter("controller_runtime_reconcile_panics_total", "Reconciles that panicked.", "controller"),
		timeouts:   counter("controller_runtime_reconcile_timeouts_total", "Reconciles that timed out.", "controller"),
		duration:   histogram("controller_runtime_reconcile_time_seconds", "Duration of a reconcile.", "controller"),
		echoes:     histogram("bellerophon_own_write_echo_seconds", "Time from the answer to a write to its event in the cache; 0 if the event came first.", "kind"),
		queued:     histogram("workqueue_queue_duration_seconds", "Time that a request was ready and waited for a worker.", "name", "controller"),
		worked:     histogram("workqueue_work_duration_seconds", "Duration of a reconcile.", "name", "controller"),
		adds:       counter("workqueue_adds_total", "Attempts that were queued and started.", "name", "controller"),
		retries:    counter("workqueue_retries_total", "Attempts after a failure.", "name", "controller"),
		writes:     counter("bellerophon_writes_total", "Writes to the API server that succeeded.", "controller", "verb", "kind"),
		ofDuration: newExemplars(m),
		ofQueued:   newExemplars(m),
	}
	if err == nil {
		made.dropped, err = loglimit.Dropped(m.options.Registry)
	}
	m.cache.OnEcho(func(kind schema.GroupKind, latency time.Duration) {
		made.echoes.WithLabelValues(kind.String()).Observe(latency.Seconds())
	})
	register(&state{m})
	m.http = measureRequests(m.options.Registry, m.http)
	return made, err
}

// expect creates the series of a controller, at 0, so that they exist before the first reconcile.
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

// forget drops the series of a controller that is removed.
func (m *metrics) forget(name string) {
	of := prometheus.Labels{"controller": name}
	for _, counter := range []*prometheus.CounterVec{m.reconciles, m.failures, m.terminals, m.panics, m.timeouts, m.adds, m.retries, m.writes} {
		counter.DeletePartialMatch(of)
	}
	for _, histogram := range []*prometheus.HistogramVec{m.duration, m.queued, m.worked} {
		histogram.DeletePartialMatch(of)
	}
	m.ofDuration.forget(name)
	m.ofQueued.forget(name)
}

// forgetKind drops the series of a kind that is no longer watched.
func (m *metrics) forgetKind(kind schema.GroupKind) { m.echoes.DeleteLabelValues(kind.String()) }

// result counts the result of an attempt.
func (m *metrics) result(result operators.Result) {
	name := result.Controller
	m.reconciles.WithLabelValues(name, string(result.Outcome)).Inc()
	m.ofDuration.observe(m.duration.WithLabelValues(name), &result, result.Duration)
	m.worked.WithLabelValues(name, name).Observe(result.Duration.Seconds())
	m.ofQueued.observe(m.queued.WithLabelValues(name, name), &result, result.Queued)
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
