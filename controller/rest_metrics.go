package controller

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// client-go measures its requests for the whole process; the series are therefore made
// once, and registered with every manager's registry.
var (
	restOnce     sync.Once
	restRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rest_client_requests_total", Help: "Requests to the API server, of the whole process.",
	}, []string{"code", "method", "host"})
	restDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rest_client_request_duration_seconds", Help: "Time of requests to the API server, of the whole process.", Buckets: buckets,
	}, []string{"verb", "host"})
)

type restResult struct{}

func (restResult) Increment(_ context.Context, code, method, host string) {
	restRequests.WithLabelValues(code, method, host).Inc()
}

type restLatency struct{}

func (restLatency) Observe(_ context.Context, verb string, u url.URL, latency time.Duration) {
	restDuration.WithLabelValues(verb, u.Host).Observe(latency.Seconds())
}

// registerProcessMetrics registers what is measured for the whole process. A registry of
// the user's may have it already.
func registerProcessMetrics(registry *prometheus.Registry) {
	restOnce.Do(func() {
		clientmetrics.Register(clientmetrics.RegisterOpts{RequestResult: restResult{}, RequestLatency: restLatency{}})
	})
	for _, shared := range []prometheus.Collector{
		restRequests, restDuration,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		_ = registry.Register(shared) // It fails only if the registry has it.
	}
}
