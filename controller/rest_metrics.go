package controller

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// requestMetrics counts the requests of one manager. client-go has metrics of the same names for the
// whole process. With these, each of two managers would count the requests of both.
type requestMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// measureRequests returns a client that sends its requests as the given one does, and counts and times
// them in a registry. If the registry has metrics of these names already, they stay, and the manager's
// are left out.
func measureRequests(registry *prometheus.Registry, client *http.Client) *http.Client {
	measured := &requestMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_requests_total", Help: "Requests to the API server.",
		}, []string{"code", "method", "host"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rest_client_request_duration_seconds", Help: "Time from a request to the end of its response; watches are left out.", Buckets: buckets,
		}, []string{"verb", "host"}),
	}
	for _, made := range []prometheus.Collector{
		measured.requests, measured.duration,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		_ = registry.Register(made) // It fails only if the registry has the metric already.
	}
	over := *client
	if over.Transport == nil {
		over.Transport = http.DefaultTransport
	}
	over.Transport = &measuredTransport{over.Transport, measured}
	return &over
}

// measuredTransport counts and times the requests of a transport.
type measuredTransport struct {
	next    http.RoundTripper
	metrics *requestMetrics
}

// RoundTrip counts a request when its response comes, by the status code, or when it fails, by the code
// "<error>" that client-go uses.
func (m *measuredTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	timing := &timedBody{metrics: m.metrics, verb: request.Method, host: request.URL.Host, started: time.Now()}
	isWatch := strings.Contains(request.URL.RawQuery, "watch=true")
	answer, err := m.next.RoundTrip(request)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(answer.StatusCode)
	}
	m.metrics.requests.WithLabelValues(code, timing.verb, timing.host).Inc()
	switch {
	case isWatch: // A watch lasts as long as the server lets it, so its duration means nothing.
	case err != nil:
		timing.end()
	default:
		timing.ReadCloser = answer.Body
		answer.Body = timing
	}
	return answer, err
}

// WrappedRoundTripper returns the wrapped transport, which some functions of client-go look for.
func (m *measuredTransport) WrappedRoundTripper() http.RoundTripper { return m.next }

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (m *measuredTransport) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(m.next) }

// timedBody records the duration of a request when its response was read to the end, failed or was
// closed.
type timedBody struct {
	io.ReadCloser
	metrics    *requestMetrics
	verb, host string
	started    time.Time
	ended      atomic.Bool
}

// end records the duration, once.
func (t *timedBody) end() {
	if !t.ended.Swap(true) {
		t.metrics.duration.WithLabelValues(t.verb, t.host).Observe(time.Since(t.started).Seconds())
	}
}

func (t *timedBody) Read(space []byte) (int, error) {
	n, err := t.ReadCloser.Read(space)
	if err != nil {
		t.end()
	}
	return n, err
}

func (t *timedBody) Close() error {
	t.end()
	return t.ReadCloser.Close()
}
