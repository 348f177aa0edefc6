package edge

import (
	"bytes"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
)

func TestBothFormsRepairAllChangesAndOnlyPollingAsksWhenNothingHappens(t *testing.T) {
	result, err := measure(t.Context(), quick, "", screen.To(&bytes.Buffer{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, cell := range result.Cells {
		if cell.Changes == 0 || cell.Median <= quick.Outside.Seconds()/2 || cell.P99 < cell.Median || cell.Load.Writes == 0 {
			t.Errorf("%s: %+v", cell.name(), cell)
		}
		if idle := cell.Idle.Requests; cell.Form == events && idle != 0 || cell.Form == polling && idle < 60/cell.Interval.Seconds() {
			t.Errorf("%s: %v requests a minute while nothing happens", cell.name(), idle)
		}
		if cell.Idle.Writes != 0 {
			t.Errorf("%s: %v writes a minute while nothing happens", cell.name(), cell.Idle.Writes)
		}
	}
}
