package election

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Settings configures an [Elector]. All are required.
type Settings struct {
	Lease    types.NamespacedName
	Identity string // of this process alone

	LeaseDuration time.Duration // in whole seconds; at least RenewDeadline and the time-out of a write
	RenewDeadline time.Duration
	RetryPeriod   time.Duration

	Logger *slog.Logger

	// OnAcquired, OnLost and OnReleased are called from the elector's goroutine at a transition.
	OnAcquired func()
	OnLost     func(cause error)
	OnReleased func()
}

// Elector competes for a Lease. Create it with [New], call Connect and then Run once. Its other methods may be
// called from any goroutine.
type Elector struct {
	settings Settings
	lock     *resourcelock.LeaseLock
	lease    streams.Stream[streams.Event]
	noticed  chan struct{} // holds a token when the watch has reported a change
	reported atomic.Pointer[coordinationv1.Lease]

	mu      sync.Mutex
	epoch   *Epoch
	changed chan struct{} // closed when the epoch changes
	ended   *Epoch        // the last epoch, while its work has not left
	since   time.Time     // when ended ended
	holder  string
	turns   int // transitions of the Lease

	// Only Run's goroutine uses these.
	seen   resourcelock.LeaderElectionRecord
	seenAt time.Time // when seen was received; zero if there was no Lease so far
	last   string    // the last failure that was logged
}

// New creates an elector.
func New(settings Settings) *Elector {
	return &Elector{settings: settings, noticed: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Connect sets the API server.
func (e *Elector) Connect(config *rest.Config, client *http.Client) error {
	config = rest.CopyConfig(config)
	config.RateLimiter, config.QPS = nil, -1 // A renewal must not wait for other requests.
	leases, err := coordinationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return fmt.Errorf("making a client for Leases: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("making a client for Leases: %w", err)
	}
	kind, err := sources.KindOf(scheme, &coordinationv1.Lease{}, sources.Plural("leases"))
	if err != nil {
		return fmt.Errorf("making a client for Leases: %w", err)
	}
	watches, err := kind.Client(config, client)
	if err != nil {
		return fmt.Errorf("making a client for Leases: %w", err)
	}
	of := e.settings.Lease
	e.lock = &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name}, Client: leases}
	e.lease = sources.Watch(watches, kind, sources.WatchOptions{
		Namespaces: []string{of.Namespace}, FieldSelector: "metadata.name=" + of.Name, PageSize: 10, MaxStaleness: sources.DefaultMaxStaleness,
	})
	return nil
}

// Epoch returns the current epoch, or nil if this replica does not lead.
func (e *Elector) Epoch() *Epoch {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.epoch
}

// Enter returns the current epoch after Epoch.Enter, or nil if this replica does not lead.
func (e *Elector) Enter() *Epoch {
	if now := e.Epoch(); now != nil && now.Enter() {
		return now
	}
	return nil
}

// Next waits for an epoch and enters it. It returns nil when ctx ends.
func (e *Elector) Next(ctx context.Context) *Epoch {
	for ctx.Err() == nil {
		e.mu.Lock()
		now, changed := e.epoch, e.changed
		e.mu.Unlock()
		if now != nil && now.Enter() {
			return now
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// Holder returns the identity that the Lease named last, and the number of its transitions.
func (e *Elector) Holder() (identity string, transitions int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holder, e.turns
}

// Unended returns how much work of a lost epoch is in flight, and for how long since the loss.
func (e *Elector) Unended() (inside int, since time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended == nil {
		return 0, 0
	}
	return e.ended.Inside(), time.Since(e.since)
}

func (e *Elector) setEpoch(now *Epoch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch = now
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *Elector) setUnended(of *Epoch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended, e.since = of, time.Now()
}

// Run competes until ending ends, and leads until ctx ends. It then releases the Lease. A caller ends ctx when
// all work of the epoch has ended.
func (e *Elector) Run(ctx, ending context.Context) error {
	ctx, ending = Unfenced(ctx), Unfenced(ending)
	group := lifecycle.New(ctx)
	group.Go("watch of the Lease", func(ctx context.Context) error {
		return streams.ForEach(ctx, e.lease, e.notice, func(err error) {
			e.settings.Logger.Debug("the Lease cannot be watched", "lease", e.settings.Lease.String(), "error", err)
		})
	})
	group.Go("election", func(ctx context.Context) error {
		defer group.Stop()
		for {
			epoch := e.compete(ending)
			if epoch == nil {
				return nil
			}
			if e.lead(ctx, epoch) == nil {
				e.release(ctx, epoch)
				return nil
			}
		}
	})
	return group.Wait()
}

// notice takes events of the Lease. A Lease that was deleted is nil.
func (e *Elector) notice(events []streams.Event) {
	for _, event := range events {
		lease, is := event.Object.(*coordinationv1.Lease)
		switch {
		case event.Type == streams.Deleted:
			e.reported.Store(nil)
		case is:
			e.reported.Store(lease)
		default:
			continue
		}
		select {
		case e.noticed <- struct{}{}:
		default:
		}
	}
}

// isNew reports whether a failure differs from the last one, and so has to be logged. It remembers the failure.
func (e *Elector) isNew(err error) bool {
	text := err.Error()
	isNew := text != e.last
	e.last = text
	return isNew
}
