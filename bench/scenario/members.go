package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// Role says how a process takes part in the work of several processes of a contender.
type Role struct {
	Lease         string        // namespace/name of the Lease by which they elect a leader; empty for no election
	LeaseDuration time.Duration // how long the others wait for a leader that is silent
	Shards        string        // namespace/name of the group that shares the objects; empty for none
}

// Member is one of several processes of a contender. contender.Process implements it.
type Member interface {
	Process
	Kill() error // kills the process, as the failure of a node does
}

// member is a Member with what belongs to it.
type member struct {
	Member
	proxy   *proxy.Proxy
	exec    time.Time
	removed chan struct{} // closed before the scenario ends the process
}

// members are the processes of a contender in one scenario.
type members struct {
	world *World
	role  Role
	all   []*member // in the order of their starts; ended processes stay
	group *lifecycle.Group
	end   context.CancelCauseFunc
}

// newMembers returns an empty group of processes, which needs a stop. The returned context is cancelled when a
// process ends by itself.
func (w *World) newMembers(ctx context.Context, role Role) (context.Context, *members) {
	guarded, end := context.WithCancelCause(ctx)
	return guarded, &members{world: w, role: role, group: lifecycle.New(ctx), end: end}
}

// start starts one more process, and waits until it is quiet among some objects.
func (m *members) start(ctx context.Context, objects int) (*member, error) {
	started, err := m.add(ctx)
	if err != nil {
		return nil, err
	}
	return started, m.settle(ctx, started, objects)
}

// add starts one more process and guards it.
func (m *members) add(ctx context.Context) (*member, error) {
	m.world.Progress(fmt.Sprintf("starting process %d of the contender", len(m.all)+1), 0, 0)
	started := &member{exec: time.Now(), removed: make(chan struct{})}
	var err error
	if started.Member, started.proxy, err = m.world.StartMember(ctx, m.role); err != nil {
		return nil, failed(ctx, err)
	}
	if len(m.all) == 0 {
		m.world.Exec = started.exec
	}
	m.all = append(m.all, started)
	m.group.Go("guard", func(ctx context.Context) error {
		select {
		case <-started.Done():
			if !isClosed(started.removed) {
				m.end(ended(started))
			}
		case <-ctx.Done():
		}
		return nil
	})
	return started, nil
}

// settle waits until a process is quiet among some objects.
func (m *members) settle(ctx context.Context, of *member, objects int) error {
	return m.world.quiet(ctx, of, of.proxy, objects)
}

// kill kills a process.
func (m *members) kill(of *member) error {
	close(of.removed)
	return of.Kill()
}

// leave ends a process in order.
func (m *members) leave(of *member) error {
	close(of.removed)
	_, err := of.Stop()
	return err
}

// stop ends all processes, and joins an error of the scenario with theirs. It is a Failure that a process ended by
// itself.
func (m *members) stop(ctx context.Context, err error) error {
	m.group.Stop()
	_ = m.group.Wait() // The guards return no errors.
	for _, one := range m.all {
		if isClosed(one.removed) {
			_, _ = one.Stop() // It has ended, and the scenario has its error.
			continue
		}
		_, stopped := one.Stop()
		err = errors.Join(err, failed(ctx, stopped))
	}
	m.end(nil)
	return err
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// addTraffic adds the requests and bytes of all processes in the interval [from, to).
func (m *members) addTraffic(measured rundir.Measured, from, to time.Time) {
	for _, one := range m.all {
		part := rundir.Measured{}
		addTraffic(part, one.proxy.Record(), one.exec, from, to)
		for measure, value := range part {
			measured[measure] += value
		}
	}
}

// withLeases counts all requests about resources in the interval [from, to). Requests about Leases count too, though
// the comparison leaves them out elsewhere.
func withLeases(record proxy.Record, from, to time.Time) (requests int) {
	for _, call := range slices.Concat(record.Calls, record.Open) {
		if call.Resource != "" && !call.At.Before(from) && call.At.Before(to) {
			requests++
		}
	}
	return requests
}

// firstWrite returns when the first write since a time was sent.
func firstWrite(record proxy.Record, since time.Time) (first time.Time, is bool) {
	for _, call := range record.Calls {
		if call.IsWrite() && !call.At.Before(since) && (!is || call.At.Before(first)) {
			first, is = call.At, true
		}
	}
	return first, is
}
