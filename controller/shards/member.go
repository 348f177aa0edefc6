package shards

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Share follows the slots of a member. Its methods are called from one goroutine, and must not wait.
type Share interface {
	// Keep is called when the slots change whose objects the member needs. Their objects must be read again
	// before they are worked on.
	Keep(slots Set)
	// Own is called when the owned slots change. [Member.Begin] allows work in them from then on. Slots that
	// were lost are refused before.
	Own(slots Set)
	// Keys returns how many keys the member has, for people.
	Keys() int
}

// Member is one replica of a group. Create it with [New] and call Run once.
type Member struct {
	options Options
	share   Share
	log     *slog.Logger
	kind    sources.Kind
	client  *rest.RESTClient
	wake    chan struct{} // has a token when something happened
	written chan struct{} // has a token when the own Lease was written since the last sweep began

	mu     sync.Mutex
	view   view
	term   *term // nil while the Lease is not held
	states [Slots]slotState
	held   [Slots]time.Time // until when the claims of slots are kept, because a write of the past may take effect
	counts Counts

	// The rest belongs to the goroutine of Run.
	published   Set       // the slots whose claims are certainly stored
	version     string    // of the own Lease; empty if there is none
	members     []string  // that share the slots, sorted
	target      Set       // the slots that belong to this one of members
	kept, owned Set       // what share was last notified of
	sent        time.Time // when the last write was sent
	failed      bool      // the last write has failed, or its outcome is unknown
	mayLag      bool      // the watch may be behind by more than an event in flight
}

// New creates a member. The HTTP client is one for the configuration. New returns an error for an option that
// is out of its range.
func New(config *rest.Config, client *http.Client, options Options, share Share, log *slog.Logger) (*Member, error) {
	options, err := options.WithDefaults()
	if err != nil {
		return nil, err
	}
	var suffix [5]byte
	_, _ = rand.Read(suffix[:]) // It never fails.
	options.Identity += "_" + hex.EncodeToString(suffix[:])
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	kind, err := sources.KindOf(scheme, &coordinationv1.Lease{}, sources.Plural("leases"))
	if err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	requests, err := kind.Client(config, client)
	if err != nil {
		return nil, fmt.Errorf("shards: making a client for Leases: %w", err)
	}
	m := &Member{options: options, share: share, log: log, kind: kind, client: requests, wake: make(chan struct{}, 1), written: make(chan struct{}, 1)}
	m.view = view{others: map[string]*seen{}, deleted: map[string]deletion{}, own: leaseName(options.Group, options.Identity)}
	return m, nil
}

// Identity returns the identity of the member.
func (m *Member) Identity() string { return m.options.Identity }

// Run joins the group, and shares its slots until ctx ends. Then it hands its slots over as its work in them
// ends. It returns when all are handed over, or when the Lease cannot be renewed any more.
func (m *Member) Run(ctx context.Context) error {
	group := lifecycle.New(context.WithoutCancel(ctx))
	group.Go("watch of the members", m.follow)
	group.Go("sweep", m.sweep)
	group.Go("member", func(running context.Context) error {
		defer group.Stop()
		m.loop(ctx, running)
		return nil
	})
	return group.Wait()
}

// poke makes the loop look again.
func (m *Member) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// follow watches the Leases of the group.
func (m *Member) follow(ctx context.Context) error {
	watch := sources.Watch(m.client, m.kind, sources.WatchOptions{
		Namespaces: []string{m.options.Namespace}, LabelSelector: Selector(m.options.Group), MaxStaleness: m.options.LeaseDuration,
	})
	return streams.ForEach(ctx, watch, func(events []streams.Event) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for i := range events {
			m.view.apply(&events[i], time.Now())
		}
		m.poke()
	}, func(err error) { m.log.Warn("watching the Leases of the members failed", "error", err) })
}

// loop renews the Lease, and claims, owns and hands over slots, until leaving has ended and nothing is left.
func (m *Member) loop(leaving, ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	ended := leaving.Done()
	var checked time.Time // when the Leases were listed that the view now has, or zero
	var checkAt time.Time // when a check that failed is due again
	for {
		leaves := leaving.Err() != nil
		if leaves {
			ended = nil
		}
		next := m.advance(time.Now(), leaves, checked)
		m.notify()
		checked = time.Time{}
		now := time.Now()
		switch write := m.nextWrite(next); {
		case leaves && (!next.joined || next.wanted == Set{} && m.published == next.wanted && !m.failed):
			m.leave(ctx)
			return
		case !now.Before(write):
			m.write(ctx, next.wanted, leaves)
			select {
			case m.written <- struct{}{}:
			default:
			}
			continue
		case next.check && !now.Before(checkAt):
			if checkAt = now.Add(m.options.RetryPeriod / 4); m.check(ctx) {
				checked, checkAt = now, time.Time{}
			}
			continue
		default:
			wait := write.Sub(now)
			if next.check {
				wait = min(wait, checkAt.Sub(now))
			}
			if !next.next.IsZero() {
				wait = min(wait, next.next.Sub(now))
			}
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-m.wake:
		case <-ended:
		}
	}
}

// notify notifies the share of the slots that changed. Slots that are read again are owned from here on.
func (m *Member) notify() {
	m.mu.Lock()
	var kept Set
	for slot, state := range m.states {
		if state >= confirmed {
			kept.add(slot)
		}
	}
	m.mu.Unlock()
	if kept != m.kept {
		m.kept = kept
		m.share.Keep(kept)
	}
	m.mu.Lock()
	var owned Set
	for slot, state := range m.states {
		if state == confirmed && kept.Has(slot) {
			m.states[slot] = owning
			m.counts.Gained++
		}
		if m.states[slot] == owning {
			owned.add(slot)
		}
	}
	m.mu.Unlock()
	if owned != m.owned {
		m.owned = owned
		m.share.Own(owned)
	}
}
