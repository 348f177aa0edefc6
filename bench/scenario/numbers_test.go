package scenario

import (
	"maps"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"k8s.io/apimachinery/pkg/types"
)

func TestTheTrafficOfAStartHasItsCallsByVerbAndNoReadsForItsFirstLists(t *testing.T) {
	started := time.Now()
	call := func(seconds int, verb string) proxy.Call {
		at := started.Add(time.Duration(seconds) * time.Second)
		return proxy.Call{Verb: verb, Resource: "sheroes", At: at, End: at, Code: 200, In: 1, Out: 2}
	}
	record := proxy.Record{
		Calls: []proxy.Call{call(-2, "list"), call(-1, "watch"), call(1, "list"), call(2, "list"), call(4, "get"), call(5, "patch"), call(6, "create"), call(7, "deletecollection")},
		Open:  []proxy.Call{call(3, "watch")},
	}
	measured := rundir.Measured{}
	addTraffic(measured, record, started, started, started.Add(time.Minute))
	want := rundir.Measured{
		rundir.Writes: 3, rundir.NeedlessWrites: 0, rundir.FailedWrites: 0, rundir.Reads: 1, rundir.RequestBytes: 6, rundir.ResponseBytes: 12,
		rundir.GetCalls: 1, rundir.ListCalls: 2, rundir.WatchCalls: 1, rundir.CreateCalls: 1, rundir.UpdateCalls: 0, rundir.PatchCalls: 1, rundir.DeleteCalls: 1,
	}
	if !maps.Equal(measured, want) {
		t.Errorf("measured %v, want %v", measured, want)
	}
}

func TestTheTimeToReadyAfterAStartIsOfTheObjectsThatNeedWork(t *testing.T) {
	b, started := newBoard(), time.Now()
	finished, late, deleted := object("a", 1), object("a", 2), object("a", 3)
	for i, one := range []types.NamespacedName{object("other", 0), finished, late} {
		b.want(one, 2)
		b.mark(one, 2, started.Add(time.Duration(i)*time.Second))
	}
	b.want(deleted, 2)
	measured, samples := rundir.Measured{}, rundir.Samples{}
	addExecReady(measured, samples, b, started, []types.NamespacedName{finished, late, deleted})
	if want := (rundir.Measured{rundir.ExecReadyMedian: 1, rundir.ExecReadyLast: 2}); !maps.Equal(measured, want) {
		t.Errorf("measured %v, want %v", measured, want)
	}
	if bars := samples[rundir.ExecReady99].Bars(); len(bars) != 2 {
		t.Errorf("the samples are %v, want those of 2 objects", bars)
	}
	measured = rundir.Measured{}
	addExecReady(measured, samples, b, started, nil)
	if len(measured) != 0 {
		t.Errorf("measured %v when nothing had to be done", measured)
	}
}

func TestTheObjectsThatExistBeforeARoundAreSpreadOverTheirNamespaces(t *testing.T) {
	for i, want := range map[int]string{0: "found-000/hero-0", SeedPart - 1: "found-000/hero-199", SeedPart: "found-001/hero-0"} {
		if got := foundObject(i).String(); got != want {
			t.Errorf("object %d is %s, want %s", i, got, want)
		}
	}
}
