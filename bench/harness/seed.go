package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/probe"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

const (
	// seedLimit is how long it may take to make and finish an object that a round finds.
	seedLimit = 200 * time.Millisecond
	// foundLimit is how much longer the set up of a round may take for each.
	foundLimit = 10 * time.Millisecond
)

// found is the folder with the data of a cluster in which a contender has finished n objects.
// The first round that wants it makes it: that takes as long as it takes the ideal client and
// then the contender, and a copy takes seconds. It is empty for a round that finds nothing.
func (r *run) found(ctx context.Context, p planned) (string, error) {
	if !p.scenario.Found {
		return "", nil
	}
	n := p.scenario.N
	layout := fmt.Sprintf("n=%d,namespace=%d", n, scenario.SeedPart)
	fresh, err := r.kept(filepath.Join(layout, "ideal"), func(making string) error {
		s := &stage{run: r}
		return s.end(s.seed(ctx, n, making))
	})
	if err != nil {
		return "", fmt.Errorf("making objects for rounds to find: %w", err)
	}
	return r.kept(filepath.Join(layout, p.Contender), func(making string) error {
		s, err := r.newStage(ctx, p, fresh)
		if err == nil {
			err = s.adopt(ctx, p, making)
		}
		return s.end(err)
	})
}

// kept is a folder of data that is made unless it is there. It gets its name once it is whole.
// What could not be made is not tried again in this run for every round that wants it.
func (r *run) kept(name string, create func(making string) error) (string, error) {
	dir := filepath.Join(r.Dir, "found", name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := r.unmade[name]; err != nil {
		return "", err
	}
	err := makeWhole(dir, create)
	if err != nil {
		r.unmade[name] = err
		return "", err
	}
	return dir, nil
}

func makeWhole(dir string, create func(making string) error) error {
	making := dir + ".new"
	if err := os.RemoveAll(making); err != nil {
		return fmt.Errorf("removing what an interrupted run left: %w", err)
	}
	if err := create(making); err != nil {
		return err
	}
	return os.Rename(making, dir)
}

// seed makes and keeps n objects that the ideal client has finished.
func (s *stage) seed(ctx context.Context, n int, making string) error {
	limit := setUpLimit + time.Duration(n)*seedLimit
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %v", limit))
	defer cancel()
	if err := s.start(ctx, localcluster.Options{}); err != nil {
		return err
	}
	err := s.clients.Seed(ctx, s.cluster.AdminConfig(), n, func(done int) { s.run.show.step("making objects to be found", done, n) })
	if err != nil {
		return err
	}
	return s.keep(ctx, making)
}

// adoptWorkers are enough to keep the API server busy. Who has no limit by default, as kube-rs,
// would open a connection for each of thousands of writes at once.
const adoptWorkers = 16

// adopt keeps what is found, once it is the contender's own.
func (s *stage) adopt(ctx context.Context, p planned, making string) error {
	p.setting.workers = adoptWorkers // Nothing is timed here.
	world := s.world(p, func(ctx context.Context) (scenario.Process, error) {
		port, err := contender.FreePort()
		if err != nil {
			return nil, err
		}
		return s.contender(ctx, p, port)
	})
	if err := world.Adopt(ctx, p.scenario.N); err != nil {
		return err
	}
	return s.keep(ctx, making)
}

func (s *stage) keep(ctx context.Context, making string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, calmLimit, fmt.Errorf("it took longer than %v", calmLimit))
	defer cancel()
	if err := s.calm(ctx); err != nil {
		return err
	}
	s.run.show.step("keeping the objects to be found", 0, 0)
	return s.cluster.StopAndKeep(making)
}

const (
	// calmLoad is the part of a core that a cluster in which nothing happens stays below.
	calmLoad  = 0.15
	calmTurns = 3
	calmLimit = 10 * time.Minute
)

// calm waits until the components of the cluster have nothing to do: controllers read all
// that there is when they start, and go on after the last write. Nothing tells when they
// are done but the CPU that they take.
func (s *stage) calm(ctx context.Context) error {
	var components []int
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"} {
		components = append(components, s.cluster.PID(name))
	}
	last, err := probe.Of(components...)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for turns := 0; turns < calmTurns; {
		s.run.show.step("waiting until the cluster is calm", 0, 0)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting until the cluster is calm: %w", context.Cause(ctx))
		}
		now, err := probe.Of(components...)
		if err != nil {
			return err
		}
		turns++
		if (now.CPU - last.CPU).Seconds() > calmLoad {
			turns = 0
		}
		last = now
	}
	return nil
}
