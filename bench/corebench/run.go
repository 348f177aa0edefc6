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

// sample is the result of one run. All fields except Heap are about the updates.
type sample struct {
	Updates    int
	Reconciles int
	Elapsed    time.Duration
	CPU        time.Duration // CPU time of the whole process
	Allocs     uint64
	Bytes      uint64          // bytes allocated
	Heap       uint64          // growth of the heap in use from before the run until the list is complete
	Delays     []time.Duration // sorted
}

// runLimit bounds the duration of a run. The longest run takes a few seconds.
const runLimit = 30 * time.Second

// run runs one side against a load, from the list to the last update.
func run(ctx context.Context, load load, side side) (sample, error) {
	world, err := newWorld(load)
	if err != nil {
		return sample{}, fmt.Errorf("run %s: %w", side.name, err)
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
		return sample{}, fmt.Errorf("run %s: %w", side.name, err)
	}
	runtime.KeepAlive(world) // The memory in use before the run stays in use until its end.
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

// heapInUse returns the memory in use after a collection. A second collection frees the memory
// that finalizers and pools held in the first one.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// cpuTime returns the CPU time that the process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // Getrusage fails only for an unknown argument.
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
