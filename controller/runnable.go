package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
)

// Runnable is work of the user's own that runs with the manager, such as a server or a client of a message
// bus. Add it with [Manager.AddRunnable].
type Runnable struct {
	// Name is the name in errors and logs.
	Name string

	// Run does the work until ctx ends. An error ends the manager, whose Run returns it. If Run returns
	// nil early, the manager continues.
	Run func(ctx context.Context) error

	// From is the level of sync from which on it runs. With [cache.Starting], which is the default, it
	// starts before the watches, and its context ends after the last reconcile. With a higher level it
	// starts once the manager's level has reached that, and its context ends first: only when it has
	// returned, or after Options.Grace, the watches and the reconciles end. It goes on if the level
	// falls meanwhile.
	From cache.Level

	// EveryReplica makes it run on each replica, and its context allows writes. Otherwise, with
	// [LeaderElection], Run is called each time this replica becomes the leader, and ctx ends when it no
	// longer leads.
	EveryReplica bool
}

// AddRunnable adds work of the user's own, before Run. Run waits until every runnable has returned. Runnables
// start in the order in which they are added, and do not wait for each other.
func (m *Manager) AddRunnable(added Runnable) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	switch {
	case added.Name == "" || added.Run == nil:
		return errors.New("adding a runnable: it has no Name or no Run; set both")
	case added.From < cache.Starting || added.From > cache.Converged:
		return fmt.Errorf("adding runnable %q: From is %d; allowed are the levels of package cache", added.Name, added.From)
	case m.group != nil || m.ended:
		return fmt.Errorf("adding runnable %q: the manager runs already, or has ended", added.Name)
	}
	m.runnables = append(m.runnables, added)
	return nil
}

// runAmong runs the manager between its runnables, as Runnable.From says.
func (m *Manager) runAmong(ctx context.Context, run func(ctx context.Context) error) error {
	if len(m.runnables) == 0 {
		return run(ctx)
	}
	ending, stop := context.WithCancel(ctx)
	defer stop()
	early, late := lifecycle.New(context.WithoutCancel(ctx)), lifecycle.New(context.WithoutCancel(ctx))
	for _, runnable := range m.runnables {
		of := early
		if runnable.From > cache.Starting {
			of = late
		}
		of.Go("runnable "+runnable.Name, func(ctx context.Context) error {
			returned := false
			defer func() {
				if !returned {
					stop()
				}
			}()
			err := m.runElected(ctx, runnable)
			returned = err == nil
			return err
		})
	}
	inner, endRun := context.WithCancel(context.WithoutCancel(ctx))
	defer endRun()
	order := lifecycle.New(ending)
	order.Go("end of runnables", func(ctx context.Context) error {
		defer endRun()
		<-ctx.Done()
		late.Stop()
		grace := time.NewTimer(cmp.Or(m.options.Grace, operators.DefaultGrace))
		defer grace.Stop()
		select {
		case <-late.Ended():
		case <-grace.C:
		}
		return nil
	})
	err := run(inner)
	stop()
	early.Stop()
	return errors.Join(err, order.Wait(), late.Wait(), early.Wait())
}
