// Package processors keeps a program on one processor for as long as one is enough.
//
// Goroutines of an operator mostly wait for the API server. With several processors (the
// runtime's Ps), each that gets nothing to do looks for work at the others, sleeps, and is woken
// for the next answer; with one, what comes meanwhile waits its turn for some microseconds. An
// operator that runs on one takes a seventh less CPU in a burst and a fifth less at half load,
// with latencies that are no worse. Decoding tens of thousands of objects is another matter: it
// gets all processors that there are.
package processors

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

const (
	// lookEvery is how often it is seen how much CPU was taken.
	lookEvery = time.Second
	// enough is how much of one processor may be taken before there are more, and calm how little
	// before there is one again, when it stays so for calmFor. Two thresholds and a wait, as each
	// change stops all goroutines for a moment.
	enough  = 0.75
	calm    = 0.5
	calmFor = 10 * time.Second
)

// Govern calls run, and sees meanwhile that the program has one processor, or all that Go finds
// to be there while one is not enough. It is for a program's main function: the number
// is the whole process's. It leaves it alone where GOMAXPROCS is set in the environment, where there
// is one processor, and where the system does not say how much CPU was taken.
func Govern(ctx context.Context, run func(ctx context.Context) error) error {
	if _, known := taken(); !known || os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) == 1 {
		return run(ctx)
	}
	set(false)
	governing := lifecycle.New(ctx)
	governing.Go("processors", governor{taken, set}.run)
	defer func() {
		governing.Stop()
		_ = governing.Wait() // It does not fail.
		set(true)
	}()
	return run(ctx)
}

func set(all bool) {
	if all {
		runtime.SetDefaultGOMAXPROCS() // It follows a container's limit that changes, too.
		return
	}
	runtime.GOMAXPROCS(1)
}

// governor decides, beginning with one processor. taken is how much CPU the process has taken since it began.
type governor struct {
	taken func() (cpu time.Duration, known bool)
	set   func(all bool)
}

func (g governor) run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	all, looked := false, time.Now()
	busy := looked // when one processor was last not enough
	before, _ := g.taken()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		now := time.Now()
		cpu, known := g.taken()
		if !known {
			continue
		}
		share := float64(cpu-before) / float64(now.Sub(looked))
		before, looked = cpu, now
		switch {
		case share > enough && !all:
			all = true
			g.set(true)
		case all && share <= calm && now.Sub(busy) >= calmFor:
			all = false
			g.set(false)
		}
		if share > calm {
			busy = now
		}
	}
}
