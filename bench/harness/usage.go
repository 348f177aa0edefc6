package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// usage serves metrics of the current round: CPU and memory of its processes, and the contender's
// writes and events. They are measured outside the contender, and so in the same way for all
// contenders. Prometheus scrapes usage once a second. The address is the same during the whole run,
// so that the first second of a process is scraped too. The methods may be called from any
// goroutine.
type usage struct {
	address string
	group   *lifecycle.Group

	mu     sync.Mutex
	labels prometheus.Labels
	pids   map[string]int      // by role: contender, etcd, apiserver
	passed func() proxy.Counts // nil before the round has a proxy
}

// newUsage starts to serve. It runs until close.
func newUsage(ctx context.Context) (*usage, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for scrapes of the usage of processes: %w", err)
	}
	u := &usage{address: listener.Addr().String(), group: lifecycle.New(context.WithoutCancel(ctx)), pids: map[string]int{}}
	registry := prometheus.NewRegistry()
	registry.MustRegister(u)
	server := &http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: time.Minute}
	u.group.Go("serving the usage of processes", func(context.Context) error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	u.group.Go("ending the usage of processes", func(ctx context.Context) error {
		<-ctx.Done()
		return server.Close()
	})
	return u, nil
}

func (u *usage) close() error {
	u.group.Stop()
	return u.group.Wait()
}

// begin sets the round, and forgets the processes and the proxy of the previous one.
func (u *usage) begin(round rundir.Round) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.labels, u.pids, u.passed = labelsOf(round), map[string]int{}, nil
}

// end forgets the processes and the proxy, because the kernel may reuse process IDs.
func (u *usage) end() { u.begin(rundir.Round{}) }

// follow starts to measure a process and its descendants, until it ends. It replaces an earlier
// process of the same name.
func (u *usage) follow(name string, pid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pids[name] = pid
}

// count sets the source of the numbers of the contender's writes and events.
func (u *usage) count(passed func() proxy.Counts) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.passed = passed
}

// Describe sends nothing, because the labels change from round to round.
func (u *usage) Describe(chan<- *prometheus.Desc) {}

// Collect measures the processes and sends the metrics. It leaves out processes that have ended.
func (u *usage) Collect(into chan<- prometheus.Metric) {
	u.mu.Lock()
	labels, pids, passed := maps.Clone(u.labels), maps.Clone(u.pids), u.passed
	u.mu.Unlock()
	if passed != nil {
		counts := passed()
		writes := prometheus.NewDesc("bench_writes_total", "Writes of the contender, counted by the proxy, without Events and leases.", nil, maps.Clone(labels))
		events := prometheus.NewDesc("bench_events_total", "Events of the contender's watches, counted by the proxy, without bookmarks.", nil, maps.Clone(labels))
		into <- prometheus.MustNewConstMetric(writes, prometheus.CounterValue, float64(counts.Writes))
		into <- prometheus.MustNewConstMetric(events, prometheus.CounterValue, float64(counts.Events))
	}
	for name, pid := range pids {
		used, err := scenario.UsageOf(pid)
		if err != nil {
			continue
		}
		labels["process"] = name
		cpu := prometheus.NewDesc("bench_cpu_seconds_total", "CPU time of a process and its descendants, user and system, from /proc.", nil, labels)
		resident := prometheus.NewDesc("bench_rss_bytes", "Resident memory of a process and its descendants, from /proc.", nil, labels)
		into <- prometheus.MustNewConstMetric(cpu, prometheus.CounterValue, used.CPU.Seconds())
		into <- prometheus.MustNewConstMetric(resident, prometheus.GaugeValue, float64(used.Resident))
	}
}
