// Package footprint releases the pages of the program file that a program no longer uses, and the
// garbage of a small heap.
//
// The kernel maps pages of the program file when code runs or constants are read, and keeps them
// while memory is plentiful. Most pages of an operator are needed at its start alone: they register
// types and metrics, and decode the first lists. They count as resident memory although nothing
// reads them. An idle operator keeps 25 MB of them, and 3 to 8 MB once they were released.
package footprint

import (
	"context"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/cputime"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// A page that was released and is needed again costs a minor page fault, since the file is still in
// the kernel's page cache. All of them cost about 2 ms of CPU time, and a collection of a small heap
// takes 5 ms. So a further release waits until the program has used worth of CPU time. Or it waits until
// the program has grown by growth since it settled after the last one. Each waits until the program is
// idle.
const (
	lookEvery = time.Second
	idle      = 0.05 // share of one processor
	worth     = 150 * time.Millisecond
	growth    = 1 << 20
	settling  = 2 // looks after a release at which the program needs its pages again
)

// Trim calls run. Meanwhile Trim releases unused pages of the program file. It does so as soon as the
// program is idle after its start, and after each burst of work. Only the main function of a program
// should call it, because it concerns the whole process. On systems other than Linux, Trim only
// calls run.
func Trim(ctx context.Context, run func(ctx context.Context) error) error {
	if _, known := cputime.Used(); !known || !releases {
		return run(ctx)
	}
	trimming := lifecycle.New(ctx)
	trimming.Go("footprint", trimmer{cputime.Used, resident, release}.run)
	defer func() {
		trimming.Stop()
		_ = trimming.Wait() // trimmer.run fails only with the error of its context.
	}()
	return run(ctx)
}

// trimmer decides when pages are released.
type trimmer struct {
	used     func() (cpu time.Duration, known bool)
	resident func() (bytes uint64) // 0 if it is not known
	release  func()
}

func (t trimmer) run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	before, _ := t.used()
	released := -worth             // the CPU time at the last release; the first one takes place after any start
	looks, settled := 0, uint64(0) // settled is 0 while it is not known
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		now, known := t.used()
		if !known {
			continue
		}
		isIdle := float64(now-before) <= idle*float64(lookEvery)
		before = now
		if !isIdle {
			continue
		}
		bytes := t.resident()
		if looks++; looks == settling {
			settled = bytes
		}
		if now-released >= worth || settled > 0 && bytes >= settled+growth {
			t.release()
			released, _ = t.used()
			looks, settled = 0, 0
		}
	}
}
