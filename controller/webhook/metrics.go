package webhook

import (
	"net/http"
	"strconv"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/internal/loglimit"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
)

// buckets are the buckets of the manager's histograms up to the longest timeout of a webhook.
var buckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30}

// metrics holds the time series of a server. Where controller-runtime has the concept, the name is the same
// as there.
type metrics struct {
	requests  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	inFlight  *prometheus.GaugeVec
	expiry    *prometheus.GaugeVec // without labels; it has no value before the first certificate
	rotations prometheus.Counter
	dropped   prometheus.Counter // records of the log
}

// newMetrics creates and registers the metrics of a server. It returns the first error of Register.
func newMetrics(registry *prometheus.Registry) (*metrics, error) {
	made := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_webhook_requests_total", Help: "Requests to a webhook, by the code with which the write is answered.",
		}, []string{"webhook", "operation", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "controller_runtime_webhook_latency_seconds", Help: "Duration of a request to a webhook.", Buckets: buckets,
		}, []string{"webhook"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "controller_runtime_webhook_requests_in_flight", Help: "Requests to a webhook that are being served.",
		}, []string{"webhook"}),
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "bellerophon_webhook_certificate_expiry_timestamp_seconds", Help: "When the certificate in use expires, in seconds since 1970.",
		}, nil),
		rotations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bellerophon_webhook_certificate_rotations_total", Help: "Certificates that have replaced another one in use.",
		}),
	}
	for _, collector := range []prometheus.Collector{made.requests, made.seconds, made.inFlight, made.expiry, made.rotations} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	var err error
	made.dropped, err = loglimit.Dropped(registry)
	return made, err
}

// expect creates the series of the usual requests, at 0, so that they exist before the first request.
func (m *metrics) expect(hooks []*hook) {
	for _, hook := range hooks {
		for _, operation := range hook.operations {
			m.requests.WithLabelValues(hook.path(), string(operation), "200")
		}
	}
}

// seen is what the metrics say about a request.
type seen struct {
	operation string // unknown, unless the request is a review
	code      int
}

// convertOperation is the operation of requests for conversion in metrics.
const convertOperation = "CONVERT"

// begin counts a request that begins. The returned function counts its end, and reads seen then.
func (m *metrics) begin(path string, seen *seen) (end func()) {
	running := m.inFlight.WithLabelValues(path)
	running.Inc()
	started := time.Now()
	return func() {
		running.Dec()
		m.seconds.WithLabelValues(path).Observe(time.Since(started).Seconds())
		m.requests.WithLabelValues(path, seen.operation, codeOf(seen.code)).Inc()
	}
}

// codeOf returns a code as a label. Functions choose the codes of denials, so other numbers share one label.
func codeOf(code int) string {
	if code < http.StatusOK || code > 599 {
		return "other"
	}
	return strconv.Itoa(code)
}

// asks records the operation of a review. Any client that reaches the server can send other operations, so these
// get no series of their own.
func (s *seen) asks(operation admissionv1.Operation) {
	for _, valid := range known {
		if operation == valid {
			s.operation = string(operation)
		}
	}
}

// uses records that a certificate is in use, and whether it has replaced another one.
func (m *metrics) uses(held *pair, replaced bool) {
	m.expiry.WithLabelValues().Set(float64(held.leaf.NotAfter.Unix()))
	if replaced {
		m.rotations.Inc()
	}
}
