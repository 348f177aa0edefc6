package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/member"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// measures are the metrics of a member.
type measures struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	syncs    prometheus.Histogram
}

func newMeasures() *measures {
	m := &measures{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "bellerophon_server_request_seconds", Help: "Time until a request was answered, without watches.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}, []string{"operation", "code"}),
		syncs: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "bellerophon_server_log_sync_seconds", Help: "Time until a write to the log was on the volume.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
	}
	m.registry.MustRegister(m.requests, m.syncs, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *measures) synced(took time.Duration) { m.syncs.Observe(took.Seconds()) }

func (m *measures) count(operation string, code int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(code)).Observe(took.Seconds())
}

func (m *measures) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// add adds the gauges of a member's status.
func (m *measures) add(of *member.Member) {
	for name, gauge := range map[string]struct {
		help  string
		value func(client.Status) float64
	}{
		"bellerophon_server_is_leader":       {"1 if this member is the leader.", func(s client.Status) float64 { return truth(s.Role == client.Leader) }},
		"bellerophon_server_has_leader":      {"1 if this member knows a leader.", func(s client.Status) float64 { return truth(s.Leader != nil) }},
		"bellerophon_server_is_ready":        {"1 if this member is ready.", func(s client.Status) float64 { return truth(s.Ready) }},
		"bellerophon_server_term":            {"Term of the election.", func(s client.Status) float64 { return float64(s.Term) }},
		"bellerophon_server_committed_index": {"Newest index of the log that is committed, as far as this member knows.", func(s client.Status) float64 { return float64(s.Committed) }},
		"bellerophon_server_applied_index":   {"Newest index of the log that is applied.", func(s client.Status) float64 { return float64(s.Applied) }},
		"bellerophon_server_members":         {"Members of the cluster.", func(s client.Status) float64 { return float64(len(s.Members)) }},
		"bellerophon_server_keys":            {"Keys in the store.", func(s client.Status) float64 { return float64(s.Keys) }},
		"bellerophon_server_bytes":           {"Bytes of the keys and values in the store.", func(s client.Status) float64 { return float64(s.Bytes) }},
		"bellerophon_server_revision":        {"Revision of the store.", func(s client.Status) float64 { return float64(s.Revision) }},
	} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: gauge.help}, func() float64 { return gauge.value(of.Status()) }))
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
