package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// sample is what one run has shown. All of it is about the updates, except Heap.
type sample struct {
	Updates    int
	Reconciles int
	Elapsed    time.Duration
	CPU        time.Duration // of the whole process
	Allocs     uint64
	Bytes      uint64          // allocated
	Heap       uint64          // in use when the list is in, in addition to that before the run
	Delays     []time.Duration // sorted
}

// runLimit is how long a run may take; the longest takes a few seconds.
const runLimit = 30 * time.Second

// run runs one side against a load, from the list to the last update.
func run(ctx context.Context, load load, side side) (sample, error) {
	world, err := newWorld(load)
	if err != nil {
		return sample{}, fmt.Errorf("running %s: %w", side.name, err)
	}
	recorder := newRecorder(world)
	ctx, cancel := context.WithTimeoutCause(ctx, runLimit, fmt.Errorf("it took longer than %v", runLimit))
	defer cancel()
	before := heapInUse()
	var measured sample
	group := lifecycle.New(ctx)
	contender, stop := context.WithCancel(group.Context())
	defer stop()
	group.Go("side", func(context.Context) error {
		if err := side.run(contender, world, recorder); contender.Err() == nil {
			return errors.Join(errors.New("it ended early"), err)
		}
		return nil
	})
	group.Go("measuring", func(ctx context.Context) error {
		defer stop()
		measured, err = measure(ctx, world, recorder, before)
		return err
	})
	if err := group.Wait(); err != nil {
		return sample{}, fmt.Errorf("running %s: %w", side.name, err)
	}
	runtime.KeepAlive(world) // The memory in use before the run is in use at its end too.
	return measured, nil
}

func measure(ctx context.Context, world *world, recorder *recorder, before uint64) (sample, error) {
	if err := recorder.wait(ctx, recorder.listed); err != nil {
		return sample{}, err
	}
	inUse := heapInUse()
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	listReconciles := recorder.reconciles.Load()
	began, cpu := time.Now(), cpuTime()
	close(world.begin)
	if recorder.updating.Load() > 0 {
		if err := recorder.wait(ctx, recorder.updated); err != nil {
			return sample{}, err
		}
	}
	measured := sample{Elapsed: time.Since(began), CPU: cpuTime() - cpu, Heap: inUse - before}
	runtime.ReadMemStats(&end)
	measured.Allocs, measured.Bytes = end.Mallocs-start.Mallocs, end.TotalAlloc-start.TotalAlloc
	measured.Reconciles = int(recorder.reconciles.Load() - listReconciles)
	measured.Delays = recorder.delays()
	measured.Updates = len(measured.Delays)
	return measured, nil
}

// heapInUse is what is in use after a collection. A second one frees what finalizers and
// pools held in the first.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// cpuTime is what the process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // Only for an unknown argument.
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
