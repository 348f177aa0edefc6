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

	"github.com/bellerophon-io/bellerophon/bench/outcome"
	"github.com/bellerophon-io/bellerophon/bench/probe"
	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// usage serves how much CPU and memory the processes of the round take that is made now, and
// what its contender writes and is told, measured from outside and so in the same way for all
// contenders. Prometheus scrapes it once a second. Its address stays while the run does, so
// that the first second of a process is there as well. Its methods may be called from any
// goroutine.
type usage struct {
	address string
	group   *lifecycle.Group

	mu     sync.Mutex
	labels prometheus.Labels
	pids   map[string]int      // by what the process is
	passed func() proxy.Counts // nil before there is a contender's proxy
}

// newUsage begins to serve. It runs until close.
func newUsage(ctx context.Context) (*usage, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serving the usage of processes: %w", err)
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

// begin forgets the processes and the proxy of the round before.
func (u *usage) begin(round outcome.Round) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.labels, u.pids, u.passed = labelsOf(round), map[string]int{}, nil
}

// end forgets all of them: the processes' numbers may be those of others soon.
func (u *usage) end() { u.begin(outcome.Round{}) }

// follow measures a process and its descendants from now on, until it is gone. A second
// one of a name takes the place of the first.
func (u *usage) follow(name string, pid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pids[name] = pid
}

// count serves what passes between the contender and the API server from now on.
func (u *usage) count(passed func() proxy.Counts) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.passed = passed
}

// Describe sends nothing: the labels change from round to round.
func (u *usage) Describe(chan<- *prometheus.Desc) {}

// Collect measures. A process that is gone is left out.
func (u *usage) Collect(into chan<- prometheus.Metric) {
	u.mu.Lock()
	labels, pids, passed := maps.Clone(u.labels), maps.Clone(u.pids), u.passed
	u.mu.Unlock()
	if passed != nil {
		counts := passed()
		writes := prometheus.NewDesc("bench_writes_total", "Writes of the contender, from the proxy: Events and leases are left out.", nil, maps.Clone(labels))
		events := prometheus.NewDesc("bench_events_total", "Events of the contender's watches, from the proxy: bookmarks are left out.", nil, maps.Clone(labels))
		into <- prometheus.MustNewConstMetric(writes, prometheus.CounterValue, float64(counts.Writes))
		into <- prometheus.MustNewConstMetric(events, prometheus.CounterValue, float64(counts.Events))
	}
	for name, pid := range pids {
		used, err := probe.Of(pid)
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
