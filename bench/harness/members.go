package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
	"k8s.io/client-go/rest"
)

// members holds the proxies of a round: the first, which each round has, and one for each process of a scenario with
// several processes. Its methods may be called from any goroutine.
type members struct {
	server *rest.Config // what a proxy forwards to
	token  string

	mu      sync.Mutex
	proxies []*proxy.Proxy
}

func newMembers(first *proxy.Proxy, server *rest.Config, token string) *members {
	return &members{server: server, token: token, proxies: []*proxy.Proxy{first}}
}

// all returns the proxies so far.
func (m *members) all() []*proxy.Proxy {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]*proxy.Proxy(nil), m.proxies...)
}

// saw reports to all proxies a version that another client has seen.
func (m *members) saw(version uint64) {
	for _, one := range m.all() {
		one.Saw(version)
	}
}

// counts returns how many writes and events have passed through all proxies so far.
func (m *members) counts() (sum proxy.Counts) {
	for _, one := range m.all() {
		counts := one.Counts()
		sum.Writes += counts.Writes
		sum.Events += counts.Events
	}
	return sum
}

// write writes the records of the proxies of the processes.
func (m *members) write(dir string) (err error) {
	for i, one := range m.all()[1:] {
		err = errors.Join(err, one.Record().WriteFile(filepath.Join(dir, fmt.Sprintf("proxy-%d.jsonl", i+1))))
	}
	return err
}

// open opens a proxy for one more process, and returns its number from 1.
func (m *members) open(of *scenario.Chosen) (*proxy.Proxy, int, error) {
	opened, err := proxy.New(m.server, of.RoundTrip())
	if err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proxies = append(m.proxies, opened)
	return opened, len(m.proxies) - 1, nil
}

// member starts one of several processes of a round's contender, with a proxy of its own. The first process has the
// given port for its metrics, which Prometheus scrapes.
func (s *testbed) member(ctx context.Context, p planned, role scenario.Role, port int) (*contender.Process, *proxy.Proxy, error) {
	through, number, err := s.members.open(&p.scenario)
	if err != nil {
		return nil, nil, err
	}
	s.ends = append(s.ends, through.Close)
	kubeconfig := filepath.Join(s.dir, fmt.Sprintf("kubeconfig-%d", number))
	s.ends = append(s.ends, func() error { return os.RemoveAll(kubeconfig) })
	if err := through.WriteKubeconfig(kubeconfig, s.members.token); err != nil {
		return nil, nil, err
	}
	settings := s.settings(p, port)
	settings.Kubeconfig = kubeconfig
	settings.Lease, settings.LeaseDuration, settings.Shards = role.Lease, role.LeaseDuration, role.Shards
	name := "contender"
	if number > 1 {
		name = fmt.Sprintf("contender-%d", number)
		settings.Output, settings.MetricsPort = filepath.Join(s.dir, name+".log"), 0
	}
	process, err := s.run.programs[p.Contender].Start(context.WithoutCancel(ctx), settings)
	if err != nil {
		return nil, nil, err
	}
	s.run.usage.follow(name, process.PID())
	if number > 1 {
		return process, through, nil
	}
	if err := s.run.scrape(p, process.MetricsURL(), port); err != nil {
		_, _ = process.Stop() // The harness failed; an error of Stop must not make it the contender's failure.
		return nil, nil, err
	}
	return process, through, nil
}
