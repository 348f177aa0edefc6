package scenario

import (
	"context"
	"errors"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"k8s.io/apimachinery/pkg/types"
)

var failover = Scenario{
	Name: "failover", about: "n objects are finished; the leader of two processes is killed, and the next one ended, under a low load; the lease lasts the given number of seconds",
	Elects: true, parts: []part{partN, {"seconds", func(v *Variant) *int { return &v.Seconds }, 5, 60}}, run: runFailover,
	sizes: map[Size][]Variant{
		Short: {{N: 50, Seconds: 15, noServers: true}}, Full: {{N: 1000, Seconds: 15, noServers: true}, {N: 10_000, Seconds: 15, noServers: true}},
		Tiny: {{N: 5, Seconds: 5, noServers: true}},
	},
}

const (
	// failoverRate is how many objects a second are created. The first write of the next leader is measured as
	// exactly as the time between two of them, if the lease is free at once.
	failoverRate = 10
	// beforeEnd is how long objects are created before the leader ends, and afterLease how long they are created
	// when its lease has expired.
	beforeEnd  = 2 * time.Second
	afterLease = 5 * time.Second
)

// succession is how long it took until the next leader worked.
type succession struct {
	firstWrite time.Duration // from the end of the leader to the first write of the next one
	finished   time.Duration // to the finished status of the last object that was created before that write
}

// runFailover measures the standby while it waits, the death of the leader, and then the orderly end of the next one.
// A third process takes the place of the dead one.
func runFailover(ctx context.Context, w *World, v Variant) (measured rundir.Measured, err error) {
	lease := time.Duration(v.Seconds) * time.Second
	ctx, m := w.newMembers(ctx, Role{Lease: Namespace + "/leader", LeaseDuration: lease})
	defer func() { err = m.stop(ctx, err) }()
	leader, err := m.start(ctx, 0)
	if err != nil {
		return nil, err
	}
	if _, err := w.createAll(ctx, "hero", v.N, v.Replicas()); err != nil {
		return nil, err
	}
	if err := w.converge(ctx, w.Judge.finished, "finished", v.N, 0); err != nil {
		return nil, err
	}
	standby, err := m.start(ctx, v.N)
	if err != nil {
		return nil, err
	}
	measured = rundir.Measured{}
	if err := w.measureStandby(ctx, standby, lease, measured); err != nil {
		return nil, err
	}
	server, err := w.openServers()
	if err != nil {
		return nil, err
	}
	from, created := time.Now(), newTimes()
	dead, err := m.succeed(ctx, "killed", lease, v, created, standby, func() error { return m.kill(leader) })
	if err != nil {
		return nil, err
	}
	third, err := m.start(ctx, v.N)
	if err != nil {
		return nil, err
	}
	left, err := m.succeed(ctx, "left", 0, v, created, third, func() error { return m.leave(standby) })
	if err != nil {
		return nil, err
	}
	measured[rundir.FailoverWrite], measured[rundir.FailoverFinished] = dead.firstWrite.Seconds(), dead.finished.Seconds()
	measured[rundir.HandoverWrite], measured[rundir.HandoverFinished] = left.firstWrite.Seconds(), left.finished.Seconds()
	w.Samples = rundir.Samples{}
	addLatencies(measured, w.Samples, w.Judge.finished, from, created.of)
	delete(measured, rundir.Converge) // The rate of the load decides it.
	to := time.Now()
	m.addTraffic(measured, from, to)
	used, err := w.openServers()
	if err != nil {
		return nil, err
	}
	measured[rundir.ServerCPU] = (used.CPU - server.CPU).Seconds()
	measured[rundir.Window] = to.Sub(from).Seconds()
	return measured, nil
}

// measureStandby waits for some time and measures what the standby costs.
func (w *World) measureStandby(ctx context.Context, standby *member, lasting time.Duration, measured rundir.Measured) error {
	w.Progress("standing by", 0, 0)
	from := time.Now()
	timer := time.NewTimer(lasting)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	to := time.Now()
	used, err := UsageOf(standby.PID())
	if err != nil {
		return &Failure{err}
	}
	measured[rundir.StandbyMemory] = float64(used.Resident)
	measured[rundir.StandbyRequests] = float64(withLeases(standby.proxy.Record(), from, to)) / to.Sub(from).Minutes()
	return nil
}

// succeed creates objects at a low rate, ends the leader meanwhile, and waits until all objects are finished. silent
// is how long the lease of the ended leader lasts.
func (m *members) succeed(ctx context.Context, prefix string, silent time.Duration, v Variant, created *times, next *member,
	end func() error) (succession, error) {
	w := m.world
	n, sent := int((beforeEnd+silent+afterLease).Seconds()*failoverRate), counter{}
	answered := newTimes()
	var at time.Time // The load waits for the end of its group, so that at is set.
	group := lifecycle.New(ctx)
	group.Go("load", func(ctx context.Context) error {
		return atRate(ctx, failoverRate, n, func(ctx context.Context, i int, _ time.Time) error {
			name := object(prefix, i)
			w.Judge.finished.want(name, 1)
			if err := w.Clients.create(ctx, name, v.Replicas()); err != nil {
				return err
			}
			answered.set(name, time.Now())
			w.Progress("creating objects while the leader ends", sent.next(), n)
			return nil
		})
	})
	group.Go("end", func(ctx context.Context) error {
		timer := time.NewTimer(beforeEnd)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		at = time.Now()
		return failed(ctx, end())
	})
	if err := group.Wait(); err != nil {
		return succession{}, err
	}
	if err := w.converge(ctx, w.Judge.finished, "finished", n, 0); err != nil {
		return succession{}, err
	}
	if err := m.settle(ctx, next, v.N+n); err != nil {
		return succession{}, err
	}
	for name, from := range answered.of {
		created.set(name, from)
	}
	first, is := firstWrite(next.proxy.Record(), at)
	if !is {
		return succession{}, &Failure{errors.New("the next leader wrote nothing")}
	}
	return succession{first.Sub(at), w.lastBefore(first, answered.of).Sub(at)}, nil
}

// lastBefore returns when the last of the objects was finished that were created before a time, or that time.
func (w *World) lastBefore(before time.Time, created map[types.NamespacedName]time.Time) time.Time {
	last := before
	for name, at := range created {
		if finished, is := w.Judge.finished.at(name); is && at.Before(before) && finished.After(last) {
			last = finished
		}
	}
	return last
}
