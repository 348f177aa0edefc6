package rundir_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	dir := t.TempDir()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	run := rundir.Run{Started: start, Contenders: []string{"a", "b"}, Turns: 2}
	late := rundir.Round{Scenario: "burst", Variant: "n=5", Contender: "a", Setting: "default", Turn: 1, Start: start.Add(time.Hour),
		Measured: map[rundir.Measure]float64{rundir.Converge: 1.5}}
	early := late
	early.Contender, early.Start = "b/../c", start
	if err := rundir.WriteRun(dir, run); err != nil {
		t.Fatal(err)
	}
	if rundir.Done(dir, late) {
		t.Error("a round is done before it was written")
	}
	for _, round := range []rundir.Round{late, early} {
		if err := rundir.WriteRound(dir, round); err != nil {
			t.Fatal(err)
		}
	}
	if !rundir.Done(dir, late) {
		t.Error("a round is not done after it was written")
	}
	if got, err := rundir.ReadRun(dir); err != nil || !reflect.DeepEqual(got, run) {
		t.Errorf("got %+v: %v", got, err)
	}
	if got, err := rundir.ReadRounds(dir); err != nil || !reflect.DeepEqual(got, []rundir.Round{early, late}) {
		t.Errorf("got %+v: %v", got, err)
	}
}

func TestAFolderWithoutARunIsToldApart(t *testing.T) {
	_, err := rundir.ReadRun(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "give the folder of a run of the comparison") {
		t.Errorf("the error is %v", err)
	}
}
