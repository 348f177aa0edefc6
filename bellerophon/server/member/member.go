package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

const logFile = "raft.db"

// ErrDamaged means that the content of a volume cannot be read, although the volume itself can. A restart does not mend that.
var ErrDamaged = errors.New("the volume is damaged")

// Options configures a member.
type Options struct {
	Name    string // of the pod; the member's ID begins with it
	Address string // host:port at which other members reach this one
	Dir     string // the volume
	// Election is how long a follower waits for its leader before it becomes a candidate: 50ms to 1m. The
	// default is 1s. A leader without a majority steps down after half of it.
	Election time.Duration
	Dial     client.Dialer
	Log      *slog.Logger
	// Ask asks the leader, at host:port, how far it is: see [Member.Lead].
	Ask func(ctx context.Context, host string) (client.Progress, error)
	// Synced gets how long each write to the log took until it was on the volume. It may be nil.
	Synced func(time.Duration)
}

// Member is one member of a cluster. Create it with [Open] and run it with Run. Its other methods may be
// called from any goroutine, until Run has returned.
type Member struct {
	options  Options
	identity *identity
	stream   *stream
	store    *store.Store
	raft     *raft.Raft
	bolt     *raftboltdb.BoltStore
	disk     *timedLog
	carrier  *followed
	config   *raft.Config
	snaps    raft.SnapshotStore
	log      *slog.Logger

	waits *lifecycle.Group // waits for raft; raft answers all of them when it ends
	reads chan chan read
	// restoring holds a token while a restore is in progress.
	restoring chan struct{}
	ledTerm   atomic.Uint64 // the term in which this member leads and has applied all earlier terms
	caughtUp  atomic.Bool   // a follower that has applied what its leader had committed when they met

	mu      sync.Mutex
	changed chan struct{} // closed at the next change of the leadership
}

// Open opens a volume. It starts raft, which takes part in the cluster of the volume from then on. So Run
// must be called in any case.
func Open(options Options) (m *Member, err error) {
	options.Election = cmp.Or(options.Election, time.Second)
	switch {
	case options.Name == "":
		return nil, errors.New("opening a member: the name is empty; give the name of the pod")
	case options.Address == "":
		return nil, errors.New("opening a member: the address is empty; give host:port at which other members reach this one")
	case options.Election < 50*time.Millisecond || options.Election > time.Minute:
		return nil, fmt.Errorf("opening a member: the election timeout is %v; allowed are 50ms to 1m", options.Election)
	}
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening a member: %w", err)
	}
	m = &Member{
		options: options, store: store.New(), log: options.Log,
		waits: lifecycle.New(context.Background()), reads: make(chan chan read), restoring: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	if m.identity, err = openIdentity(options.Dir, options.Name); err != nil {
		return nil, err
	}
	if err := m.openRaft(); err != nil {
		return nil, fmt.Errorf("opening a member: %w", errors.Join(err, m.close()))
	}
	return m, nil
}

// cachedEntries is how many entries of the log are in memory for members that are a little behind. An entry may have 1 MiB.
const cachedEntries = 64

func (m *Member) openRaft() (err error) {
	m.config = raft.DefaultConfig()
	m.config.LocalID = raft.ServerID(m.identity.id())
	m.config.HeartbeatTimeout, m.config.ElectionTimeout = m.options.Election, m.options.Election
	m.config.LeaderLeaseTimeout = m.options.Election / 2
	m.config.CommitTimeout = min(m.config.CommitTimeout, m.options.Election/10)
	m.config.ShutdownOnRemove = false // A member that has left still answers what it is.
	m.config.BatchApplyCh = false     // With a buffer, raft forgets the changes in it when it ends.
	m.config.NoLegacyTelemetry = true
	m.config.Logger = bridge(m.log)
	if m.bolt, err = openLog(m.options.Dir); err != nil {
		return err
	}
	m.disk = &timedLog{LogStore: m.bolt, synced: m.options.Synced, full: make(chan struct{}, 1)}
	if m.snaps, err = raft.NewFileSnapshotStoreWithLogger(m.options.Dir, 2, m.config.Logger); err != nil {
		return fmt.Errorf("opening the snapshots: %w", err)
	}
	m.stream = newStream(m.identity, addressOf(m.identity.id(), m.options.Address), m.options.Dial)
	m.carrier = &followed{last: map[raft.ServerID]acknowledged{}}
	m.carrier.NetworkTransport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: m.stream, MaxPool: 3, Timeout: 10 * m.options.Election, Logger: m.config.Logger, MsgpackUseNewTimeFormat: true,
	})
	cached, err := raft.NewLogCache(cachedEntries, m.disk)
	if err != nil {
		return err
	}
	m.raft, err = raft.NewRaft(m.config, machine{m.store}, cached, m.bolt, m.snaps, m.carrier)
	if err != nil && strings.Contains(err.Error(), "failed to load any existing snapshots") { // raft has no error of its own for it.
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// openLog opens the log of a volume. The error wraps [ErrDamaged] if the file is there, and is no log.
func openLog(dir string) (log *raftboltdb.BoltStore, err error) {
	defer func() { // bbolt panics at pages that contradict each other.
		if found := recover(); found != nil {
			err = fmt.Errorf("%w: opening the log: %v", ErrDamaged, found)
		}
	}()
	log, err = raftboltdb.New(raftboltdb.Options{
		Path: filepath.Join(dir, logFile), MsgpackUseNewTimeFormat: true,
		BoltOptions: &bbolt.Options{Timeout: 5 * time.Second, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType},
	})
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return nil, fmt.Errorf("the volume %s is in use by another process: %w", dir, err)
	case errors.Is(err, bbolterrors.ErrInvalid), errors.Is(err, bbolterrors.ErrChecksum), errors.Is(err, bbolterrors.ErrVersionMismatch):
		return nil, fmt.Errorf("%w: opening the log: %w", ErrDamaged, err)
	case err != nil:
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return log, nil
}

// Run watches the leadership until ctx ends. Then it closes the volume, and returns when all goroutines of the member have ended.
func (m *Member) Run(ctx context.Context) error {
	led := make(chan raft.Observation, 16)
	observer := raft.NewObserver(led, false, func(o *raft.Observation) bool {
		_, is := o.Data.(raft.LeaderObservation)
		return is
	})
	m.raft.RegisterObserver(observer)
	group := lifecycle.New(ctx)
	group.Go("watching the leadership", func(ctx context.Context) error { return m.lead(ctx, led) })
	group.Go("answering reads", m.answerReads)
	group.Go("compacting the log", m.compact)
	<-ctx.Done()
	m.raft.DeregisterObserver(observer)
	return errors.Join(group.Wait(), m.close())
}

// close ends raft and closes the volume.
func (m *Member) close() error {
	var failed error
	if m.raft != nil {
		if err := m.raft.Shutdown().Error(); err != nil {
			failed = fmt.Errorf("ending raft: %w", err)
		}
	}
	if m.carrier != nil {
		failed = errors.Join(failed, m.carrier.Close(), m.stream.Close())
	}
	failed = errors.Join(failed, m.waits.Wait())
	if m.bolt != nil {
		failed = errors.Join(failed, m.bolt.Close())
	}
	return failed
}

// lead handles changes of the leadership.
func (m *Member) lead(ctx context.Context, observed <-chan raft.Observation) error {
	retry := time.NewTimer(0)
	defer retry.Stop()
	var lost time.Time // when the leader was lost; zero while there is one
	for {
		select {
		case <-observed:
			switch now := time.Now(); {
			case m.LeaderHost() == "" && lost.IsZero():
				lost = now
			case m.LeaderHost() != "" && !lost.IsZero():
				// A member that was caught up before a short election is caught up after it.
				if now.Sub(lost) > 5*m.options.Election {
					m.caughtUp.Store(false)
				}
				lost = time.Time{}
			}
		case <-retry.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !m.settle(ctx) {
			retry.Reset(m.options.Election / 4)
		}
		m.tell()
	}
}

// settle makes a leader or a follower ready, and reports whether it is.
func (m *Member) settle(ctx context.Context) bool {
	if m.raft.State() == raft.Leader {
		return m.settleLeader()
	}
	if !m.caughtUp.Load() {
		progress, err := m.ask(ctx)
		if err != nil {
			m.log.Debug("it is unknown how far the leader is", "reason", err.Error())
			return false
		}
		m.caughtUp.Store(m.raft.AppliedIndex() >= progress.Committed)
	}
	return m.caughtUp.Load()
}

// settleLeader applies what earlier leaders have committed. Reads are current afterwards, for as long as the
// term lasts: see Raft, section 8 of the paper.
func (m *Member) settleLeader() bool {
	term := m.raft.CurrentTerm()
	if m.ledTerm.Load() == term {
		return true
	}
	if err := m.raft.Barrier(m.options.Election).Error(); err != nil {
		m.log.Debug("the new leader has not applied all entries yet", "reason", err.Error())
		return false
	}
	if m.raft.CurrentTerm() != term {
		return false
	}
	m.ledTerm.Store(term)
	m.caughtUp.Store(true)
	m.log.Info("this member leads", "term", term)
	return true
}

// tell wakes the goroutines that wait for a change of the leadership.
func (m *Member) tell() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.changed)
	m.changed = make(chan struct{})
}

// Changed returns a channel that is closed when the leadership changes, or may have changed.
func (m *Member) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Store returns the store of the member. What it holds may be old: see Read.
func (m *Member) Store() *store.Store { return m.store }

// LeaderHost returns host and port of the leader, or "" if the member knows no leader.
func (m *Member) LeaderHost() string {
	address, _ := m.raft.LeaderWithID()
	return hostOf(address)
}

// Leads reports whether the member is the leader and has applied what earlier leaders committed. It may have
// been replaced a moment ago: Read and Propose find that out.
func (m *Member) Leads() bool {
	return m.raft.State() == raft.Leader && m.ledTerm.Load() == m.raft.CurrentTerm()
}
