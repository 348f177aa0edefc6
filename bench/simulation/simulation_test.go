package simulation

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// The command simulate sets these flags: virtual time exists only in tests.
var (
	cellsFlag   = flag.String("cells", "", "cells to simulate, such as 1000x1,1000x3, ordered by objects")
	changesFlag = flag.Float64("changes", DefaultChanges, "changes of objects a second")
	rateFlag    = flag.Float64("rate", DefaultRate, "bytes a second that a replica receives and decodes")
	realFlag    = flag.Bool("real", false, "run the cells on a local control plane, in real time")
	cachesFlag  = flag.String("caches", string(All), "the replicas that have caches")
	outFlag     = flag.String("out", "", "the folder for the results")
)

func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil                   // They slow down by a time that means nothing between bubbles.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // Errors of killed replicas are expected.
	goleak.VerifyTestMain(m)
}

// A small cell with all that happens in a large one. How much time the machine takes makes no difference: the time is
// virtual.
func TestReplicasAreSimulated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, caches := range []Caches{All, Three, None} {
			cell := Cell{Objects: 100, Replicas: 3, Changes: 2, Rate: DefaultRate, Caches: caches}
			var result Result
			err := simulate(t.Context(), []Cell{cell}, func(string) {}, seeded(t), func(made Result) error { result = made; return nil })
			if err != nil {
				t.Fatal(err)
			}
			isPlausible(t, result)
		}
	})
}

// isPlausible checks what follows from how replicas share objects.
func isPlausible(t *testing.T, result Result) {
	t.Helper()
	phase := func(name string) Phase {
		found, has := result.phase(name)
		if !has {
			t.Errorf("caches: %v: there is no phase %s", result.Caches, name)
		}
		return found
	}
	if result.Failures > 0 {
		t.Errorf("caches: %v: %d requests failed", result.Caches, result.Failures)
	}
	if made := phase(started).All; made.Reads < 2*result.Replicas || made.Watches != 2*result.Replicas {
		t.Errorf("caches: %v: at the start, %d replicas read %d times and watch %d times; each reads and watches both kinds", result.Caches, result.Replicas, made.Reads, made.Watches)
	}
	// Each change is a write of another client, and one of a replica. Each replica gets both events.
	calm, changes := phase(steady), 60*int(result.Changes)
	if made := calm.All; made.Reads > 0 || result.Caches == All && made.Writes != changes {
		t.Errorf("caches: %v: in the steady phase, the replicas read %d times, and write %d times after %d changes", result.Caches, made.Reads, made.Writes, changes)
	}
	if least := int64(result.Replicas * 2 * changes * 800); result.Caches != None && calm.All.WatchBytes < least {
		t.Errorf("caches: %v: the watches sent %d bytes for %d changes, want at least %d", result.Caches, calm.All.WatchBytes, changes, least)
	}
	if calm.Moved > 0 {
		t.Errorf("caches: %v: %d objects moved although no replica came or went", result.Caches, calm.Moved)
	}
	for name, bound := range map[string][2]float64{joined: {0, 2}, left: {0, 2}, crashed: {10, 17}} {
		if made := phase(name); made.Moved == 0 || made.HandOver < bound[0] || made.HandOver > bound[1] || made.All.Reads == 0 {
			t.Errorf("caches: %v: at %s, %d objects moved within %v s, and %d reads; want some within %v to %v s", result.Caches, name, made.Moved, made.HandOver, made.All.Reads, bound[0], bound[1])
		}
	}
}

// TestSimulate runs the cells that the command simulate asks for. Cells with the same objects share an API server,
// because creating a million objects takes minutes.
func TestSimulate(t *testing.T) {
	if *cellsFlag == "" {
		t.Skip("it is the simulation of the command simulate, which takes minutes to hours; TestReplicasAreSimulated has a small one")
	}
	var cells []Cell
	for text := range strings.SplitSeq(*cellsFlag, ",") {
		objects, replicas, _ := strings.Cut(text, "x")
		cell := Cell{Changes: *changesFlag, Rate: *rateFlag, Caches: Caches(*cachesFlag)}
		var err error
		if cell.Objects, err = strconv.Atoi(objects); err != nil {
			t.Fatal(err)
		}
		if cell.Replicas, err = strconv.Atoi(replicas); err != nil {
			t.Fatal(err)
		}
		cells = append(cells, cell)
	}
	show := func(step string) { fmt.Fprintln(os.Stderr, step) }
	if *realFlag {
		for _, cell := range cells {
			runReal(t, cell, show)
		}
		return
	}
	for _, same := range chunks(cells) {
		synctest.Test(t, func(t *testing.T) {
			if err := simulate(t.Context(), same, show, seeded(t), folder(*outFlag).put); err != nil {
				t.Error(err)
			}
		})
	}
}

// runReal runs a cell on a control plane of its own.
func runReal(t *testing.T, cell Cell, show func(string)) {
	cluster, err := localcluster.Start(t.Context(), localcluster.Options{Nodes: localcluster.SimulatedNode})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	w, err := newReal(t.Context(), cluster.AdminConfig(), cell.Objects, show, seeded(t))
	if err != nil {
		t.Fatal(err)
	}
	result, err := w.run(t.Context(), cell)
	if err == nil {
		err = folder(*outFlag).put(result)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// seeded returns a function that makes the random part of the next replica's identity the same in each run. Which
// slots a replica owns depends on it, and so does how many of them move.
func seeded(t *testing.T) func(replica int) {
	return func(replica int) { cryptotest.SetGlobalRandom(t, uint64(replica)) }
}

// chunks groups neighbours with the same number of objects.
func chunks(cells []Cell) (grouped [][]Cell) {
	for i, cell := range cells {
		if i == 0 || cells[i-1].Objects != cell.Objects {
			grouped = append(grouped, nil)
		}
		grouped[len(grouped)-1] = append(grouped[len(grouped)-1], cell)
	}
	return grouped
}
