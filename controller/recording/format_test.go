package recording

import (
	"bytes"
	"encoding/gob"
	"testing"

	"github.com/klauspost/compress/s2"
)

// written returns a file with records as a program has encoded them.
func written(t *testing.T, records ...Record) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	packed := s2.NewWriter(&out)
	encoder := gob.NewEncoder(packed)
	for i := range records {
		if err := encoder.Encode(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestFilesWithAndWithoutBatchesAreReadAlike(t *testing.T) {
	mark := func(text string) Record { return Record{Mark: text} }
	for name, file := range map[string][]Record{
		"single records, as in format 1": {{Header: &Header{Format: 1}}, mark("a"), mark("b"), mark("c"), {Closed: true}},
		"batches":                        {{Header: &Header{Format: 2}}, {Batch: []Record{mark("a"), mark("b")}}, {Batch: []Record{mark("c")}}, {Closed: true}},
		"an end that is missing":         {{Header: &Header{Format: 2}}, {Batch: []Record{mark("a"), mark("b"), mark("c")}}},
	} {
		got := ""
		whole, err := read(name, written(t, file...), func(record *Record) error {
			got += record.Mark
			return nil
		})
		if isWhole := file[len(file)-1].Closed; err != nil || got != "abc" || whole != isWhole {
			t.Errorf("%s: it has %q, whole is %v, %v", name, got, whole, err)
		}
	}
	for _, format := range []int{0, 3} {
		if _, err := read("other", written(t, Record{Header: &Header{Format: format}}), func(*Record) error { return nil }); err == nil {
			t.Errorf("a file of format %d is read", format)
		}
	}
}
