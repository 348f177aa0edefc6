// Package footprint balances the memory of an operator and the CPU time that it takes. Under load it lets
// garbage take some more memory. When the program is idle, it releases garbage, and the pages of
// the program file that are no longer used.
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
// idle. The program settles during the first looks after a release. If it works before they end, it has
// settled at the last look before that work. Otherwise a burst of work that makes a short pause would keep its memory.
const (
	lookEvery = 500 * time.Millisecond
	idle      = 0.05 // share of one processor
	worth     = 150 * time.Millisecond
	growth    = 1 << 20
	settling  = 4 // looks after a release at which the program needs its pages again
)

// Trim calls run. Meanwhile Trim lets garbage take up to 32 MB while the program works. It releases memory as soon as
// the program is idle after its start, and after each burst of work. It also keeps garbage within the
// memory limit of a container. The environment variables GOGC and GOMEMLIMIT take precedence. Only the
// main function of a program should call Trim, because it concerns the whole process. Systems other than
// Linux keep the pages of the program file. On a system that does not report the CPU time of the process, Trim only calls
// run.
func Trim(ctx context.Context, run func(ctx context.Context) error) error {
	if _, known := cputime.Used(); !known {
		return run(ctx)
	}
	limitMemory()
	heap := newCollector()
	trimming := lifecycle.New(ctx)
	trimming.Go("footprint", trimmer{cputime.Used, resident, heap.work, func(worked time.Duration) {
		heap.rest(worked) // First, because it reads tables of the program file.
		releasePages()
	}}.run)
	defer func() {
		trimming.Stop()
		_ = trimming.Wait() // trimmer.run fails only with the error of its context.
		heap.set(usual)
	}()
	return run(ctx)
}

// trimmer decides when garbage may take more memory, and when memory is released.
type trimmer struct {
	used     func() (cpu time.Duration, known bool)
	resident func() (bytes uint64)      // 0 if it is not known
	work     func()                     // called at each look at which the program is not idle
	release  func(worked time.Duration) // worked is the CPU time since the last release
}

func (t trimmer) run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	before, _ := t.used()
	released := -worth                    // the CPU time at the last release; the first one takes place after any start
	looks, settled := settling, uint64(0) // the idle looks since the last release, and what was resident when the program settled
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
			t.work()
			looks = settling
			continue
		}
		bytes := t.resident()
		if looks < settling {
			looks, settled = looks+1, bytes
		}
		if now-released >= worth || bytes >= settled+growth {
			t.release(now - released)
			released, _ = t.used()
			looks, settled = 0, t.resident()
		}
	}
}
