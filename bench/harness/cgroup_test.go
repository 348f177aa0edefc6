package harness

import (
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/cgroup"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

func TestHardLimitsAreInTheFlagsAndTheSettingsOfARun(t *testing.T) {
	if err := cgroup.Check(cgroup.Limits{MilliCPU: 1000, Memory: 256 << 20}); err != nil {
		t.Skip(err)
	}
	o := options(t)
	o.Cgroup = "cpu=1,memory=256Mi"
	r, _ := fake(t, o, steadyIdeal)
	described := rundir.Run{Resync: map[string]string{}}
	r.addFacts(&described, r.contenders[0])
	if got := described.Settings["bellerophon"].Limits; got != "1 CPU and 256Mi" || !slices.Contains(lasting(r.flags()), "--cgroup=cpu=1,memory=256Mi") ||
		!strings.Contains(strings.Join(r.notes(), "\n"), "hard limits") {
		t.Errorf("the rows say %q, the flags are %q and the notes %q", got, r.flags(), r.notes())
	}
}

func TestWithoutHardLimitsARunSaysNothingOfThem(t *testing.T) {
	r, _ := fake(t, options(t), steadyIdeal)
	described := rundir.Run{Resync: map[string]string{}}
	r.addFacts(&described, r.contenders[0])
	if got := described.Settings["bellerophon"].Limits; got != "" || strings.Contains(strings.Join(r.flags(), " "), "cgroup") || strings.Contains(strings.Join(r.notes(), "\n"), "hard limits") {
		t.Errorf("the rows say %q, the flags are %q and the notes %q", got, r.flags(), r.notes())
	}
}
