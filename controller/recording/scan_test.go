package recording

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

func TestAScanOfATimeHasAllItsRecordsAndReadsFewFiles(t *testing.T) {
	random := rand.NewChaCha8([32]byte{27})
	made := &ring{options: Options{Dir: t.TempDir(), Bytes: 8 << 20, Age: time.Hour}, header: func() Header { return Header{Format: format, Version: "v1"} }, size: &atomic.Int64{}}
	begun := time.UnixMilli(1_800_000_000_000)
	const records = 600
	for i := range records { // One a second, and a file for each hundred.
		body := make([]byte, 11<<10)
		_, _ = random.Read(body) // It never fails.
		at := begun.Add(time.Duration(i) * time.Second)
		if err := made.add(&Record{At: at.UnixNano(), Object: &Object{Key: streams.Key{}, Body: body}}); err != nil {
			t.Fatal(err)
		}
		if err := made.add(&Record{At: at.UnixNano(), Mark: "a second"}); err != nil {
			t.Fatal(err)
		}
		if i%100 == 99 {
			if err := made.flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := made.fold(); err != nil { // The first file becomes the base.
		t.Fatal(err)
	}
	for _, from := range []int{100, 137, 298, 599} {
		read, marks := 0, map[int64]bool{}
		since, until := begun.Add(time.Duration(from)*time.Second), begun.Add(time.Duration(from+20)*time.Second)
		if err := Scan(t.Context(), made.options.Dir, since, until, func(record *Record) error {
			if read++; record.Mark != "" {
				marks[record.At] = true
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for i := from; i < min(from+20, records); i++ {
			if !marks[begun.Add(time.Duration(i)*time.Second).UnixNano()] {
				t.Fatalf("from second %d, the scan leaves out second %d", from, i)
			}
		}
		if read > 2*2*100+2 {
			t.Errorf("from second %d, it reads %d records", from, read)
		}
	}
	all := 0
	if err := Scan(t.Context(), made.options.Dir, time.Time{}, time.Time{}, func(record *Record) error {
		all++
		return nil
	}); err != nil || all < 2*500 {
		t.Errorf("without bounds it reads %d records, %v", all, err)
	}
	first, header, err := Began(made.options.Dir)
	if last, ended := Ended(t.Context(), made.options.Dir); err != nil || ended != nil || !first.Equal(begun.Add(100*time.Second)) || !last.Equal(begun.Add((records-1)*time.Second)) || !header.IsBase || header.Version != "v1" {
		t.Errorf("it lasts from %v to %v, %+v, %v, %v", first, last, header, err, ended)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Scan(ctx, made.options.Dir, time.Time{}, time.Time{}, func(*Record) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("without a reader it ends with %v", err)
	}
	if err := Scan(t.Context(), t.TempDir(), time.Time{}, time.Time{}, nil); !errors.Is(err, ErrNoFiles) {
		t.Errorf("an empty folder is %v", err)
	}
	if _, _, err := Began(made.options.Dir + "/missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder is %v", err)
	}
	if err := made.close(); err != nil {
		t.Error(err)
	}
}
