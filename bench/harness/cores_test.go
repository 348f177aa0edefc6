package harness

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/affinity"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

func TestContendersHaveAProcessorThatTheHarnessLeaves(t *testing.T) {
	runtime.LockOSThread() // The test looks at one thread.
	defer runtime.UnlockOSThread()
	all, err := affinity.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		t.Skip("the machine has one processor, which cannot be divided")
	}
	o := options(t)
	o.Cores = "own"
	r, _ := fake(t, o, steadyIdeal)
	restore, err := r.leaveCores()
	if err != nil {
		t.Fatal(err)
	}
	if now, err := affinity.Allowed(); err != nil || !slices.Equal(now, all[1:]) || !slices.Equal(r.own, all[:1]) {
		t.Errorf("the harness has %v and contenders %v of %v: %v", now, r.own, all, err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if now, err := affinity.Allowed(); err != nil || !slices.Equal(now, all) {
		t.Errorf("afterwards the harness has %v, want %v: %v", now, all, err)
	}
	described := rundir.Run{Resync: map[string]string{}}
	r.addFacts(&described, r.contenders[0])
	if got := described.Settings["bellerophon"].Processors; got != "1 of its own" || !slices.Contains(r.flags(), "--cores=own") || !strings.Contains(strings.Join(r.notes(), "\n"), "alone") {
		t.Errorf("the rows say %q, the flags are %q and the notes %q", got, r.flags(), r.notes())
	}
}

func TestSharedProcessorsAreLeftAsTheyAre(t *testing.T) {
	r, _ := fake(t, options(t), steadyIdeal)
	restore, err := r.leaveCores()
	if err != nil || restore() != nil || len(r.own) != 0 || slices.Contains(r.flags(), "--cores=own") {
		t.Errorf("contenders have %v, and the flags are %q: %v", r.own, r.flags(), err)
	}
}
