// Package processors keeps a program on one processor while one is enough.
//
// The goroutines of an operator mostly wait for the API server. With several processors (the
// runtime's Ps), an idle processor looks for work at the others, sleeps, and is woken for the next
// answer. With one processor, an answer waits its turn for some microseconds instead. An operator
// on one processor takes a seventh less CPU in a burst and a fifth less at half load. Its latencies
// are no worse. Decoding tens of thousands of objects is different: the program then gets
// all processors.
package processors

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/cputime"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

const (
	// lookEvery is the interval at which the governor measures the CPU time used.
	lookEvery = time.Second
	// enough and calm are shares of one processor. Above enough, the program gets all processors.
	// It returns to one after the load was at most calm for calmFor. The two thresholds and the
	// wait keep changes rare, because each change stops all goroutines for a moment.
	enough  = 0.75
	calm    = 0.5
	calmFor = 10 * time.Second
)

// Govern calls run. While run runs, Govern keeps the program on one processor, or on all processors
// that Go finds while one is not enough. Only the main function of a program should call it, because
// the number applies to the whole process.
//
// Govern changes nothing if GOMAXPROCS is set in the environment, or if there is only one
// processor. It changes nothing either if the system does not report the CPU time of the process.
func Govern(ctx context.Context, run func(ctx context.Context) error) error {
	if _, known := cputime.Used(); !known || os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) == 1 {
		return run(ctx)
	}
	set(false)
	governing := lifecycle.New(ctx)
	governing.Go("processors", governor{cputime.Used, set}.run)
	defer func() {
		governing.Stop()
		_ = governing.Wait() // governor.run fails only with the error of its context.
		set(true)
	}()
	return run(ctx)
}

func set(all bool) {
	if all {
		runtime.SetDefaultGOMAXPROCS() // Keeps following changes of a container's CPU limit.
		return
	}
	runtime.GOMAXPROCS(1)
}

// governor decides on how many processors the program runs. It begins with one.
type governor struct {
	taken func() (cpu time.Duration, known bool) // CPU time of the process since it began
	set   func(all bool)                         // switches to all processors, or to one
}

func (g governor) run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	all, looked := false, time.Now()
	busy := looked // when the load was last above calm
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
