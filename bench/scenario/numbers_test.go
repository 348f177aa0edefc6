package scenario

import (
	"maps"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/outcome"
	"github.com/bellerophon-io/bellerophon/bench/proxy"
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
	measured := outcome.Measured{}
	addTraffic(measured, record, started, started, started.Add(time.Minute))
	want := outcome.Measured{
		outcome.Writes: 3, outcome.NeedlessWrites: 0, outcome.FailedWrites: 0, outcome.Reads: 1, outcome.RequestBytes: 6, outcome.ResponseBytes: 12,
		outcome.GetCalls: 1, outcome.ListCalls: 2, outcome.WatchCalls: 1, outcome.CreateCalls: 1, outcome.UpdateCalls: 0, outcome.PatchCalls: 1, outcome.DeleteCalls: 1,
	}
	if !maps.Equal(measured, want) {
		t.Errorf("measured %v, want %v", measured, want)
	}
}
