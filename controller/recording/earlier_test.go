package recording

import (
	"encoding/gob"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/klauspost/compress/s2"
)

// The records of a version without queue times and without the details of a pattern.
type (
	earlierRecord struct {
		At     int64
		Header *Header
		Start  *earlierStart
		Closed bool
	}
	earlierStart struct {
		Attempt uint64
		ID      string
		Request operators.Request
		Stalled *earlierStalled
	}
	earlierStalled struct {
		Reason  string
		Message string
		Left    time.Duration
	}
)

func TestARecordingOfAnEarlierVersionOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "earlier")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	packed := s2.NewWriter(out)
	encoder := gob.NewEncoder(packed)
	for _, record := range []earlierRecord{
		{Header: &Header{Format: 1, Version: "v0"}},
		{At: 5, Start: &earlierStart{Attempt: 7, ID: "a", Request: operators.Request{Controller: "horses"}, Stalled: &earlierStalled{Reason: "Fight", Message: "two clients", Left: time.Minute}}},
		{Closed: true},
	} {
		if err := encoder.Encode(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	opened, err := Open(path)
	if err != nil || len(opened.Records) != 1 || !opened.IsWhole || opened.Version != "v0" {
		t.Fatalf("it has %+v, %v", opened, err)
	}
	start := opened.Records[0].Start
	if start.Attempt != 7 || start.Request.Controller != "horses" || start.Queued != 0 {
		t.Errorf("its attempt is %+v", start)
	}
	if of := start.Stalled; of.Reason != "Fight" || of.Left != time.Minute || of.Pattern != "" || of.Rounds != 0 {
		t.Errorf("its pattern is %+v", of)
	}
}
