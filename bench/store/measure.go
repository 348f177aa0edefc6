package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/image"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

// The stores, and what is measured of each.
const (
	ours   = "bellerophon"
	theirs = "etcd"

	writes = "writes"
	reads  = "reads"
)

// Round is one phase of one store.
type Round struct {
	Turn      int           `json:"turn"`
	Store     string        `json:"store"`
	Phase     string        `json:"phase"`
	PerSecond float64       `json:"perSecond"`
	Median    time.Duration `json:"median"` // of the latencies, as P99 and Max
	P99       time.Duration `json:"p99"`
	Max       time.Duration `json:"max"`
}

// session is one client of a store.
type session interface {
	put(ctx context.Context, key string, value []byte) error
	get(ctx context.Context, key string) error
}

// running is a store that runs.
type running interface {
	// session returns the client of a number. Clients are spread over the members.
	session(number int) (session, error)
	stop() error
}

// measure measures both stores in turns.
func measure(ctx context.Context, settings Settings, on *screen.Screen) (result Result, err error) {
	result.Settings, result.Started = settings, time.Now().UTC()
	programs, err := os.MkdirTemp("", "bellerophon-store-")
	if err != nil {
		return result, fmt.Errorf("building the programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(programs) }()
	member := filepath.Join(programs, "bellerophon-server")
	on.Println("building the programs")
	if err := image.Server.Compile(ctx, member); err != nil {
		return result, err
	}
	assets, err := localcluster.Assets(ctx, localcluster.Options{})
	if err != nil {
		return result, err
	}
	start := map[string]func(context.Context, string) (running, error){
		ours: func(ctx context.Context, dir string) (running, error) { return startOurs(ctx, member, dir) },
		theirs: func(ctx context.Context, dir string) (running, error) {
			return startEtcd(ctx, filepath.Join(assets, "etcd"), dir)
		},
	}
	for turn := range settings.Turns {
		order := []string{ours, theirs}
		if turn%2 == 1 {
			order = []string{theirs, ours}
		}
		for _, store := range order {
			rounds, err := settings.round(ctx, start[store])
			if err != nil {
				return result, fmt.Errorf("turn %d of %s: %w", turn, store, err)
			}
			for _, round := range rounds {
				round.Turn, round.Store = turn, store
				result.Rounds = append(result.Rounds, round)
				on.Println(fmt.Sprintf("turn %d: %-11s %8.0f %s/s", turn, store, round.PerSecond, round.Phase))
			}
		}
	}
	return result, nil
}

// round measures a new cluster of a store.
func (s Settings) round(ctx context.Context, start func(context.Context, string) (running, error)) (rounds []Round, err error) {
	dir, err := os.MkdirTemp("", "bellerophon-store-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cluster, err := start(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopped := cluster.stop(); err == nil {
			err = stopped
		}
	}()
	value := make([]byte, s.Size)
	for _, phase := range []string{writes, reads} {
		round, err := s.phase(ctx, cluster, phase, func(ctx context.Context, client session, i int) error {
			key := fmt.Sprint("key-", i%s.Keys)
			if phase == writes {
				return client.put(ctx, key, value)
			}
			return client.get(ctx, key)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", phase, err)
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}

// phase lets all clients send requests for the time of a phase. The first tenth of it is a warm-up, and not counted.
func (s Settings) phase(ctx context.Context, cluster running, name string, send func(context.Context, session, int) error) (Round, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.Phase+time.Minute)
	defer cancel()
	var mu sync.Mutex
	var all []time.Duration
	begin := time.Now().Add(s.Phase / 10)
	end := begin.Add(s.Phase)
	group := lifecycle.New(ctx)
	for number := range s.Clients {
		client, err := cluster.session(number)
		if err != nil {
			group.Stop()
			_ = group.Wait() // The first failure counts.
			return Round{}, err
		}
		group.Go("client", func(ctx context.Context) error {
			var own []time.Duration
			for i := number; ; i += s.Clients {
				from := time.Now()
				if from.After(end) {
					break
				}
				if err := send(ctx, client, i); err != nil {
					return err
				}
				if to := time.Now(); from.After(begin) && to.Before(end) {
					own = append(own, to.Sub(from))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Round{}, err
	}
	if len(all) == 0 {
		return Round{}, fmt.Errorf("no request was answered in %v", s.Phase)
	}
	slices.Sort(all)
	return Round{
		Phase: name, PerSecond: float64(len(all)) / s.Phase.Seconds(),
		Median: all[len(all)/2], P99: all[len(all)*99/100], Max: all[len(all)-1],
	}, nil
}
