package scenario

import (
	"maps"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
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
