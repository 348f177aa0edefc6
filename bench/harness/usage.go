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
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// usage serves how much CPU and memory the processes of the round take that is made now,
// measured from outside and so in the same way for all contenders. Prometheus scrapes it
// once a second. Its address stays while the run does, so that the first second of a
// process is there as well. Its methods may be called from any goroutine.
type usage struct {
	address string
	group   *lifecycle.Group

	mu     sync.Mutex
	labels prometheus.Labels
	pids   map[string]int // by what the process is
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

// begin forgets the processes of the round before.
func (u *usage) begin(round outcome.Round) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.labels, u.pids = labelsOf(round), map[string]int{}
}

// end forgets all processes: their numbers may be those of others soon.
func (u *usage) end() { u.begin(outcome.Round{}) }

// follow measures a process and its descendants from now on, until it is gone. A second
// one of a name takes the place of the first.
func (u *usage) follow(name string, pid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pids[name] = pid
}

// Describe sends nothing: the labels change from round to round.
func (u *usage) Describe(chan<- *prometheus.Desc) {}

// Collect measures. A process that is gone is left out.
func (u *usage) Collect(into chan<- prometheus.Metric) {
	u.mu.Lock()
	labels, pids := maps.Clone(u.labels), maps.Clone(u.pids)
	u.mu.Unlock()
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
