package recording

import (
	"bytes"
	"os"
	"testing"

	"github.com/klauspost/compress/s2"
)

// recordedBytes returns a file of a recording with some records.
func recordedBytes(f *testing.F) []byte {
	path := f.TempDir() + "/file"
	made, err := create(path, Header{Format: format})
	if err != nil {
		f.Fatal(err)
	}
	for i := range 3 {
		if err := made.add(&Record{Position: uint64(i), At: int64(i)}); err != nil {
			f.Fatal(err)
		}
	}
	if err := made.close(); err != nil {
		f.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	return content
}

// A file of a recording comes from another machine. It is data of any kind, packed or as it is.
func FuzzAnyFileIsReadToItsEndOrRefused(f *testing.F) {
	content := recordedBytes(f)
	f.Add(content, false)
	f.Add(content[:len(content)/2], false)
	f.Add([]byte("no recording"), true)
	f.Fuzz(func(t *testing.T, content []byte, pack bool) {
		if pack {
			content = packed(t, content)
		}
		records := 0
		whole, err := read("file", bytes.NewReader(content), func(*Record) error { records++; return nil })
		if err != nil && (whole || records > 0) {
			t.Errorf("of a file that is refused with %v, %d records are read", err, records)
		}
	})
}

// The answer of /debug/recording comes from a server that a person has named.
func FuzzAnyStreamIsReceivedToItsEndOrRefused(f *testing.F) {
	f.Add(recordedBytes(f), false)
	f.Add([]byte("no recording"), true)
	f.Fuzz(func(t *testing.T, content []byte, pack bool) {
		if pack {
			content = packed(t, content)
		}
		arrived, ready := 0, 0
		_ = Receive(bytes.NewReader(content), func(batch Batch) error {
			arrived, ready = arrived+len(batch.Arrived), ready+len(batch.Ready)
			return nil
		})
		if ready > arrived {
			t.Errorf("%d records are ready, and %d have arrived", ready, arrived)
		}
	})
}

func packed(t *testing.T, content []byte) []byte {
	var out bytes.Buffer
	writer := s2.NewWriter(&out, s2.WriterConcurrency(1))
	if _, err := writer.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
