package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/internal/election"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// leader is a manager's part in the election of a leader.
type leader struct {
	manager  *Manager
	lease    types.NamespacedName
	identity string
	elector  *election.Elector
	fence    election.Fence

	acquired, lost, released atomic.Int64

	mu      sync.Mutex
	pending []func() // Events of before the recorder has started
}

// newLeader creates the manager's part in an election, and the client through which all requests go. Without
// leader election, there is no such part and the client stays.
func newLeader(m *Manager, config *rest.Config, client *http.Client) (*leader, *http.Client, error) {
	options, lease, err := m.options.LeaderElection.withDefaults()
	if err != nil || lease.Name == "" {
		return nil, client, err
	}
	made := &leader{manager: m, lease: lease, identity: options.Identity}
	log := m.log.With("lease", lease.String(), "identity", options.Identity)
	made.elector = election.New(election.Settings{
		Lease: lease, Identity: options.Identity, Logger: m.log,
		LeaseDuration: options.LeaseDuration, RenewDeadline: options.RenewDeadline, RetryPeriod: options.RetryPeriod,
		OnAcquired: func() {
			made.acquired.Add(1)
			log.Info("this replica leads")
			m.tape.mark("this replica leads")
			m.cache.MarkActive()
			made.record(func(on *coordinationv1.Lease) {
				m.recorder.Normal(on, "LeaderElected", "Elect", options.Identity+" leads")
			})
		},
		OnLost: func(cause error) {
			made.lost.Add(1)
			log.Warn("this replica has lost the Lease, ends its reconciles and stands by", "error", cause)
			m.cache.MarkActive()
			m.tape.mark("this replica has lost the Lease")
			made.record(func(on *coordinationv1.Lease) {
				m.recorder.Warning(on, "LeaderLost", "Elect", options.Identity+" no longer leads: "+cause.Error())
			})
		},
		OnReleased: func() {
			made.released.Add(1)
			log.Info("this replica has released the Lease")
		},
	})
	made.fence.Elector, made.fence.Passes = made.elector, made.passes
	if client, err = made.fenced(config, client); err != nil {
		return nil, nil, fmt.Errorf("making an HTTP client for %s: %w", config.Host, err)
	}
	return made, client, m.options.Registry.Register(made)
}

// connect gives the elector the connection of the manager.
func (l *leader) connect() error {
	if l == nil {
		return nil
	}
	return l.elector.Connect(l.manager.config, l.manager.http)
}

// record records an Event about the Lease, once the recorder has started.
func (l *leader) record(event func(on *coordinationv1.Lease)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	send := func() {
		event(&coordinationv1.Lease{
			TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Namespace: l.lease.Namespace, Name: l.lease.Name},
		})
	}
	if l.manager.recorder.started.Load() == nil {
		l.pending = append(l.pending, send)
		return
	}
	send()
}

// recordPending records the Events of before the recorder has started.
func (l *leader) recordPending() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, send := range l.pending {
		send()
	}
	l.pending = nil
}

// elect runs the manager among replicas: the election begins before everything else, and the Lease is released
// when everything else has ended.
func (m *Manager) elect(ctx context.Context, run func(ctx context.Context) error) error {
	if m.leader == nil {
		return run(ctx)
	}
	inner, end := context.WithCancel(ctx)
	group := lifecycle.New(context.WithoutCancel(ctx))
	group.Go("leader election", func(ctx context.Context) error {
		defer end()
		return m.leader.elector.Run(ctx, inner)
	})
	err := run(inner)
	end() // Otherwise a standby would go on competing.
	group.Stop()
	return errors.Join(err, group.Wait())
}

// within returns a reconciler whose attempts belong to the current epoch.
func (l *leader) within(reconcile operators.Reconciler) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		epoch := l.elector.Enter()
		if epoch == nil {
			return 0, operators.Terminal(ErrNotLeading)
		}
		defer epoch.Leave()
		ctx, cancel := epoch.Bind(ctx)
		defer cancel()
		return reconcile(ctx, request)
	}
}

// followEpochs lets a controller reconcile while this replica leads.
func (m *Manager) followEpochs(group *lifecycle.Group, of *member) {
	ctx, cancel := context.WithCancel(group.Context())
	of.leave = cancel
	group.Go("controller "+of.name, func(context.Context) error {
		returned := false
		defer func() {
			if !returned { // A map function has called runtime.Goexit, and requests are lost.
				group.Go("controller "+of.name, func(context.Context) error { return streams.ErrExited })
			}
		}()
		defer cancel()
		for epoch := m.leader.elector.Next(ctx); epoch != nil; epoch = m.leader.elector.Next(ctx) {
			m.lead(ctx, epoch, of)
		}
		returned = true
		return nil
	})
}

// lead lets a controller reconcile for an epoch. It first requests what the cache holds: while this replica
// stood by, changes made no requests.
func (m *Manager) lead(ctx context.Context, epoch *election.Epoch, of *member) {
	defer epoch.Leave()
	bound, cancel := epoch.Bind(ctx)
	defer cancel()
	if !m.installUnlessLeaving(of) {
		return
	}
	m.request(bound, of, existing(of))
	of.joins.Store(false)
	m.cache.MarkActive()
	if m.cache.Wait(bound, cache.Current, kindsOf(of.watches)...) == nil && bound.Err() == nil {
		m.controllers.Open(of.name)
		m.followFeeds(bound, of)
	}
	<-bound.Done()
	if ctx.Err() == nil {
		m.withdraw(of)
	}
}

// withdraw prevents further attempts of a controller until this replica leads again.
func (m *Manager) withdraw(of *member) {
	of.installing.Lock()
	defer of.installing.Unlock()
	if of.leaving {
		return
	}
	of.joins.Store(true)
	m.rules.Remove(of.name)
	m.controllers.Remove(of.name)
	m.cache.MarkActive()
}

// runElected runs a runnable in each epoch, or once if it runs on each replica.
func (m *Manager) runElected(ctx context.Context, runnable Runnable) error {
	if m.leader == nil || runnable.EveryReplica {
		if m.cache.Wait(ctx, runnable.From) != nil {
			return nil // The manager ends first.
		}
		return runnable.Run(election.Unfenced(ctx))
	}
	for epoch := m.leader.elector.Next(ctx); epoch != nil; epoch = m.leader.elector.Next(ctx) {
		if err := m.runWithin(ctx, epoch, runnable); err != nil {
			return err
		}
	}
	return nil
}

// runWithin runs a runnable in an epoch, until the epoch ends.
func (m *Manager) runWithin(ctx context.Context, epoch *election.Epoch, runnable Runnable) error {
	defer epoch.Leave()
	bound, cancel := epoch.Bind(ctx)
	defer cancel()
	if m.cache.Wait(bound, runnable.From) != nil {
		return nil
	}
	if err := runnable.Run(bound); err != nil && (bound.Err() == nil || ctx.Err() != nil) {
		return err
	}
	<-bound.Done()
	return nil
}

// notes returns text for people about the part of this replica.
func (l *leader) notes() []string {
	if l == nil {
		return nil
	}
	if epoch := l.elector.Epoch(); epoch != nil {
		return []string{fmt.Sprintf("leader: %s holds the Lease %s", l.identity, l.lease)}
	}
	holder, _ := l.elector.Holder()
	return []string{fmt.Sprintf("standby: %s waits for the Lease %s, which is held by %s", l.identity, l.lease, cmp.Or(holder, "no replica"))}
}

// unended describes work of a lost epoch that has not ended within the grace period. Only a restart helps then.
func (l *leader) unended() (descriptions []string) {
	if l == nil {
		return nil
	}
	grace := cmp.Or(l.manager.options.Grace, operators.DefaultGrace)
	if inside, since := l.elector.Unended(); inside > 0 && since > grace {
		descriptions = append(descriptions, fmt.Sprintf("the Lease %s was lost %v ago, and %d reconciles, runnables or writes of that time have not ended; this replica does not compete for the Lease before they do",
			l.lease, since.Round(time.Second), inside))
	}
	return descriptions
}
