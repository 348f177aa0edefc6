package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

const (
	// seedLimit is how long creating and finishing one object of the data may take.
	seedLimit = 200 * time.Millisecond
	// foundLimit is how much longer the setup of a round may take for each object of the data.
	foundLimit = 10 * time.Millisecond
)

// found returns the folder with the data of a cluster in which the contender has finished n
// objects. It returns an empty path for a scenario that starts with an empty cluster. The first
// round that needs the data makes it, by letting the ideal client and then the contender finish the
// objects. A later round copies the data in seconds.
func (r *run) found(ctx context.Context, p planned) (string, error) {
	if !p.scenario.Found {
		return "", nil
	}
	n := p.scenario.N
	layout := fmt.Sprintf("n=%d,namespace=%d", n, scenario.SeedPart)
	fresh, err := r.kept(filepath.Join(layout, "ideal"), func(making string) error {
		s := &testbed{run: r}
		return s.end(s.seed(ctx, n, making))
	})
	if err != nil {
		return "", fmt.Errorf("making the objects that exist before a round: %w", err)
	}
	return r.kept(filepath.Join(layout, p.Contender), func(making string) error {
		s, err := r.newTestbed(ctx, p, fresh)
		if err == nil {
			err = s.adopt(ctx, p, making)
		}
		return s.end(err)
	})
}

// kept returns a folder of cluster data, and calls create to make it if it does not exist. The
// folder gets its final name when it is complete. A failure is kept for this run, so that not every
// round that needs the data tries again.
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
		return fmt.Errorf("removing the incomplete data of an interrupted run: %w", err)
	}
	if err := create(making); err != nil {
		return err
	}
	return os.Rename(making, dir)
}

// seed lets the ideal client create and finish n objects, and keeps the cluster's data.
func (s *testbed) seed(ctx context.Context, n int, making string) error {
	limit := setUpLimit + time.Duration(n)*seedLimit
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("making the objects took longer than %v", limit))
	defer cancel()
	if err := s.start(ctx, localcluster.Options{}); err != nil {
		return err
	}
	err := s.clients.Seed(ctx, s.cluster.AdminConfig(), n, func(done int) { s.run.show.step("making the objects that exist before a round", done, n) })
	if err != nil {
		return err
	}
	return s.keep(ctx, making)
}

// adoptWorkers is enough to keep the API server busy. A contender without a limit by default, such
// as kube-rs, would open a connection for each of thousands of concurrent writes.
const adoptWorkers = 16

// adopt lets the contender take over the objects, and keeps the cluster's data.
func (s *testbed) adopt(ctx context.Context, p planned, making string) error {
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

// keep stops the cluster once it is calm, and moves its data to the folder making.
func (s *testbed) keep(ctx context.Context, making string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, calmLimit, fmt.Errorf("keeping the objects took longer than %v", calmLimit))
	defer cancel()
	if err := s.calm(ctx); err != nil {
		return err
	}
	s.run.show.step("keeping the objects that exist before a round", 0, 0)
	return s.cluster.StopAndKeep(making)
}

const (
	// calmLoad is the share of a core that an idle cluster stays below.
	calmLoad = 0.15
	// calmTurns is how many samples in a row, one a second, must stay below calmLoad.
	calmTurns = 3
	calmLimit = 10 * time.Minute
)

// calm waits until the components of the cluster are idle. Controllers list everything when they
// start, and keep working after the last write. Only their CPU time shows when they are done.
func (s *testbed) calm(ctx context.Context) error {
	var components []int
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"} {
		components = append(components, s.cluster.PID(name))
	}
	last, err := scenario.UsageOf(components...)
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
		now, err := scenario.UsageOf(components...)
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
