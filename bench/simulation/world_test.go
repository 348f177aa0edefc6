package simulation

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/shards"
	"k8s.io/client-go/rest"
)

// world is an API server with objects, and the replicas that share them.
type world struct {
	cell   Cell
	config *rest.Config // of the API server
	full   int64        // bytes of all objects, in pages
	settle func()       // waits until nothing moves but time
	change func(ctx context.Context, number, to int, sailToo bool) error
	show   func(step string) // shows the progress
	seed   func(replica int) // makes the identity of the next replica the same in each run
	real   bool              // time passes at the rate of the machine
	rounds int               // changes so far

	mu       sync.Mutex
	replicas []*replica
	owner    []int       // who reconciled an object last: 1 and above; 0 for no replica
	probed   []time.Time // when the probe of a slot was last reconciled
	probes   map[int]int // the slot of an object that is a probe
	shipsIn  [shards.Slots]int
	moved    int
	movedAt  time.Time
	pause    time.Duration
	failures int
}

func (w *world) ships() int { return w.cell.Objects / 2 }

// probeEvery is how often the probes are reconciled: the first object of each slot. They show how long a slot has no
// owner.
const probeEvery = time.Second

// begin forgets all replicas.
func (w *world) begin() {
	w.replicas, w.owner, w.failures = nil, make([]int, w.ships()), 0
	w.probes, w.probed = map[int]int{}, make([]time.Time, shards.Slots)
	w.shipsIn = [shards.Slots]int{}
	for number := range w.ships() {
		slot := slotOf(number)
		if w.shipsIn[slot] == 0 {
			w.probes[number] = slot
		}
		w.shipsIn[slot]++
	}
}

func slotOf(number int) int { return shards.SlotOf(namespace + "/" + nameOf(number)) }

// run runs a cell. The objects exist already.
func (w *world) run(ctx context.Context, cell Cell) (result Result, err error) {
	w.cell = cell
	w.begin()
	defer func() { err = errors.Join(err, w.end()) }()
	base := liveHeap()
	result = Result{Cell: cell, Real: w.real, FullBytes: w.full}
	phases := []struct {
		name   string
		window time.Duration
		do     func() error
	}{
		{started, window, func() error { return w.start(ctx) }},
		{steady, 2 * window, func() error { return w.changes(ctx, 2*window) }},
		{joined, window, func() error { return w.join(ctx) }},
		{left, window, func() error { w.replicas[0].leave(); return nil }},
		{crashed, window, func() error { w.replicas[1].kill(); return nil }},
	}
	if cell.Replicas == 1 {
		phases = phases[:4]
	}
	for _, each := range phases {
		w.show(fmt.Sprintf("%d objects, %d replicas: %s", cell.Objects, cell.Replicas, each.name))
		made, err := w.phase(ctx, each.window, each.do)
		if err != nil {
			return result, fmt.Errorf("%d objects, %d replicas, %s: %w", cell.Objects, cell.Replicas, each.name, err)
		}
		made.Name = each.name
		result.Phases = append(result.Phases, made)
		if each.name == started {
			w.measure(&result, base)
		}
	}
	result.Failures = w.failures
	return result, nil
}

// phase does something, waits until the replicas have settled, and returns what has passed meanwhile.
func (w *world) phase(ctx context.Context, least time.Duration, do func() error) (made Phase, err error) {
	w.mu.Lock()
	w.moved, w.movedAt, w.pause = 0, time.Time{}, 0
	before := make([]Traffic, len(w.replicas))
	for i, each := range w.replicas {
		before[i] = each.wire.traffic()
	}
	w.mu.Unlock()
	began := time.Now()
	if err := do(); err != nil {
		return made, err
	}
	if err := w.pass(ctx, least-time.Since(began)); err != nil {
		return made, err
	}
	for _, each := range w.replicas {
		if each.gone {
			continue
		}
		if err := each.await(ctx); err != nil {
			return made, fmt.Errorf("waiting for replica %d: %w", each.number, err)
		}
	}
	if err := w.pass(ctx, 5*time.Second); err != nil { // The objects that were read last are reconciled.
		return made, err
	}
	made.Seconds = time.Since(began).Seconds()
	w.mu.Lock()
	defer w.mu.Unlock()
	passed := make([]Traffic, len(w.replicas))
	for i, each := range w.replicas {
		passed[i] = each.wire.traffic()
		if i < len(before) {
			passed[i] = passed[i].plus(-1, before[i])
		}
	}
	w.model(passed)
	for _, each := range passed {
		made.All = made.All.plus(1, each)
		if each.Bytes() > made.Busiest.Bytes() {
			made.Busiest = each
		}
	}
	made.Moved, made.Pause = w.moved, w.pause.Seconds()
	if w.moved > 0 {
		made.HandOver = w.movedAt.Sub(began).Seconds()
	}
	return made, w.isShared()
}

// model adds what light replicas would get from watches and would write: as much as the first living replica that
// has a cache.
func (w *world) model(passed []Traffic) {
	var like Traffic
	for i, each := range w.replicas {
		switch {
		case each.light != nil:
			passed[i] = passed[i].plus(1, like)
		case !each.gone && like == (Traffic{}):
			like = Traffic{WatchBytes: passed[i].WatchBytes, Writes: passed[i].Writes, WriteBytes: passed[i].WriteBytes}
		}
	}
}

// isShared checks that each object is in one living replica, which has reconciled it. Of the objects of light
// replicas, it knows nothing.
func (w *world) isShared() error {
	held, want := 0, 0
	for _, each := range w.replicas {
		if !each.gone && each.light == nil {
			held += each.objects()
		}
	}
	light := w.light()
	for number, owner := range w.owner {
		if light[slotOf(number)] {
			continue
		}
		want++
		if owner == 0 || w.replicas[owner-1].gone {
			return fmt.Errorf("no living replica reconciles %s; the last one was replica %d", nameOf(number), owner)
		}
	}
	if held != want {
		return fmt.Errorf("the replicas hold %d objects together, want %d", held, want)
	}
	return nil
}

// light returns which slots living light replicas own.
func (w *world) light() (owned [shards.Slots]bool) {
	for _, each := range w.replicas {
		if each.light == nil || each.gone {
			continue
		}
		for slot := range owned {
			owned[slot] = owned[slot] || each.light.has(slot)
		}
	}
	return owned
}

// measure takes in the memory of the replicas.
func (w *world) measure(result *Result, base int64) {
	var full []*replica
	for _, each := range w.replicas {
		if each.light == nil {
			full = append(full, each)
		}
	}
	if len(full) == 0 {
		return
	}
	result.Heap = (liveHeap() - base) / int64(len(full))
	result.Fewest = w.ships()
	for _, each := range full {
		for _, store := range each.manager.Cache().Stores() {
			result.Cached += store.Bytes() / int64(len(full))
		}
		objects := each.objects()
		result.Fewest, result.Most = min(result.Fewest, objects), max(result.Most, objects)
	}
}

// liveHeap returns the bytes of the heap that are in use.
func liveHeap() int64 {
	for range 3 { // What a pool or a finalizer keeps is freed by a later collection.
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// pass lets time pass.
func (w *world) pass(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w.settle()
	return nil
}

// changes changes objects for a time.
func (w *world) changes(ctx context.Context, duration time.Duration) error {
	if w.cell.Changes == 0 {
		return nil
	}
	every := time.NewTicker(time.Duration(float64(time.Second) / w.cell.Changes))
	defer every.Stop()
	for range int(duration.Seconds() * w.cell.Changes) {
		select {
		case <-every.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		w.rounds++
		number := w.rounds * 7919 % w.ships() // A prime number spreads the changes.
		if err := w.change(ctx, number, w.rounds, w.light()[slotOf(number)]); err != nil {
			return err
		}
	}
	return nil
}

// end ends all replicas.
func (w *world) end() (err error) {
	for _, each := range w.replicas {
		each.leave()
	}
	for _, each := range w.replicas {
		err = errors.Join(err, each.group.Wait())
		each.wire.cut()
	}
	w.replicas = nil
	return err
}
