package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	controllershards "github.com/bellerophon-io/bellerophon/controller/shards"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var shards = Scenario{
	Name: "shards", about: "n objects are created at once and m processes share them; then one more process joins",
	Shares: true, parts: []part{partN, {partM.name, partM.of, 1, 10}}, run: runShards,
	sizes: map[Size][]Variant{
		Short: {{N: 200, M: 3, noServers: true}},
		Full: {
			{N: 20_000, M: 1, noServers: true}, {N: 20_000, M: 2, noServers: true}, {N: 20_000, M: 3, noServers: true},
			{N: 20_000, M: 4, noServers: true}, {N: 20_000, M: 5, noServers: true},
		},
		Tiny: {{N: 10, M: 2, noServers: true}},
	},
}

const (
	// shardGroup is the group of the processes.
	shardGroup = "shards"
	// lookEvery is the interval between lists of the Leases, and so the resolution of the time to join.
	lookEvery = 100 * time.Millisecond
	// joinLimit bounds the time until processes own all slots.
	joinLimit = time.Minute
)

// runShards measures the burst in one window, with the memory and the shares of the processes at its end. The
// process that joins afterwards is in none of these.
func runShards(ctx context.Context, w *World, v Variant) (measured rundir.Measured, err error) {
	ctx, m := w.newMembers(ctx, Role{Shards: Namespace + "/" + shardGroup})
	defer func() { err = m.stop(ctx, err) }()
	for range v.M {
		if _, err := m.start(ctx, 0); err != nil {
			return nil, err
		}
	}
	if _, err := w.awaitShares(ctx, v.M); err != nil {
		return nil, err
	}
	if measured, err = m.measureBurst(ctx, v); err != nil {
		return nil, err
	}
	joining, err := m.start(ctx, v.N)
	if err != nil {
		return nil, err
	}
	owned, err := w.awaitShares(ctx, v.M+1)
	if err != nil {
		return nil, err
	}
	start := rundir.Measured{}
	addStart(start, joining.proxy.Record(), joining.exec)
	measured[rundir.Join] = max(owned.Sub(joining.exec).Seconds(), start[rundir.Settled])
	return measured, nil
}

// measureBurst creates the objects and measures until all processes are quiet.
func (m *members) measureBurst(ctx context.Context, v Variant) (rundir.Measured, error) {
	w := m.world
	server, err := w.openServers()
	if err != nil {
		return nil, err
	}
	before, _, err := m.usage()
	if err != nil {
		return nil, err
	}
	from := time.Now()
	created, err := w.createAll(ctx, "hero", v.N, v.Replicas())
	if err != nil {
		return nil, err
	}
	if err := w.converge(ctx, w.Judge.finished, "finished", v.N, 0); err != nil {
		return nil, err
	}
	for _, one := range m.all {
		if err := m.settle(ctx, one, v.N); err != nil {
			return nil, err
		}
	}
	measured := rundir.Measured{}
	w.Samples = rundir.Samples{}
	addLatencies(measured, w.Samples, w.Judge.finished, from, created.of)
	measured[rundir.Throughput] = measured[rundir.Objects] / measured[rundir.Converge]
	to := time.Now()
	m.addTraffic(measured, from, to)
	after, memory, err := m.usage()
	if err != nil {
		return nil, err
	}
	used, err := w.openServers()
	if err != nil {
		return nil, err
	}
	measured[rundir.ContenderCPU], measured[rundir.ServerCPU] = (after - before).Seconds(), (used.CPU - server.CPU).Seconds()
	measured[rundir.MemberMemory], measured[rundir.LargestMember] = rundir.Median(memory), slices.Max(memory)
	measured[rundir.Window] = to.Sub(from).Seconds()
	measured[rundir.Skew] = m.skew(from)
	return measured, nil
}

// usage returns the CPU time of all processes, and the memory of each.
func (m *members) usage() (cpu time.Duration, memory []float64, err error) {
	for _, one := range m.all {
		used, err := UsageOf(one.PID())
		if err != nil {
			return 0, nil, &Failure{err}
		}
		cpu += used.CPU
		memory = append(memory, float64(used.Resident))
	}
	return cpu, memory, nil
}

// skew returns the largest share of the processes in the objects whose children they created since a time, divided by
// the mean share.
func (m *members) skew(since time.Time) float64 {
	most, all := 0, 0
	for _, one := range m.all {
		share := createdFor(one.proxy.Record(), since)
		most, all = max(most, share), all+share
	}
	return float64(most) * float64(len(m.all)) / float64(all)
}

// createdFor returns for how many objects a process created children. A child has the name of its object.
func createdFor(record proxy.Record, since time.Time) int {
	objects := map[types.NamespacedName]bool{}
	for _, call := range record.Calls {
		if call.Verb == "create" && call.IsWrite() && call.Code >= 200 && call.Code < 300 && !call.At.Before(since) {
			objects[types.NamespacedName{Namespace: call.Namespace, Name: call.Name}] = true
		}
	}
	return len(objects)
}

// awaitShares waits until n processes own all slots in even parts, and these stay the same for a while. It returns
// when the owners last changed. It polls, because no single event says that all slots have an owner.
func (w *World) awaitShares(ctx context.Context, n int) (time.Time, error) {
	w.Progress(fmt.Sprintf("waiting until %d processes share the objects", n), 0, 0)
	limit := &Failure{fmt.Errorf("%d processes did not share the objects within %v", n, joinLimit)}
	ctx, cancel := context.WithTimeoutCause(ctx, joinLimit, limit)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var held map[string]controllershards.Set
	var changed time.Time
	for {
		now, err := w.owners(ctx)
		if err != nil {
			return changed, err
		}
		if !maps.Equal(now, held) {
			held, changed = now, time.Now()
		}
		if areShared(held, n) && time.Since(changed) >= w.Quiet {
			return changed, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return changed, context.Cause(ctx)
		}
	}
}

// owners returns the slots of each process by the name of its Lease.
func (w *World) owners(ctx context.Context) (map[string]controllershards.Set, error) {
	leases, err := w.Clients.Core().CoordinationV1().Leases(Namespace).List(ctx, metav1.ListOptions{LabelSelector: controllershards.Selector(shardGroup)})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		return nil, fmt.Errorf("listing the Leases of the processes: %w", err)
	}
	owners := map[string]controllershards.Set{}
	for i := range leases.Items {
		claim, err := controllershards.ClaimOf(&leases.Items[i])
		if err != nil {
			return nil, &Failure{err}
		}
		owners[leases.Items[i].Name] = claim.Slots
	}
	return owners, nil
}

// areShared reports whether n processes own all slots, and none owns more than its part and a fifth.
func areShared(owners map[string]controllershards.Set, n int) bool {
	all := 0
	for _, slots := range owners {
		all += slots.Len()
		if slots.Len()*n*5 > controllershards.Slots*6 {
			return false
		}
	}
	return len(owners) == n && all == controllershards.Slots
}
