package recording

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Recording is a recording in memory. Its records are sorted by their positions.
type Recording struct {
	Version     string // of the program that was recorded
	UserAgent   string // of its requests
	Controllers []string
	Reconciled  map[string]schema.GroupKind // by these controllers
	Records     []*Record
	IsCut       bool // records before the first attempt are left out: the ring was full
	IsWhole     bool // the last file was complete
}

// Open reads a recording: a folder that a [Writer] writes or has written, or a file of [Recording.Save].
func Open(path string) (*Recording, error) {
	files, err := filesOf(path)
	if err != nil {
		return nil, err
	}
	made := &Recording{IsWhole: true}
	for _, file := range files {
		whole, err := readFile(file, made.take)
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%w; the operator that records has removed it meanwhile, so try again", err)
		}
		if err != nil {
			return nil, err
		}
		made.IsWhole = whole
	}
	sortRecords(made.Records)
	return made, nil
}

func (r *Recording) take(record *Record) error {
	if header := record.Header; header != nil {
		r.Version, r.UserAgent, r.Controllers, r.Reconciled = header.Version, header.UserAgent, header.Controllers, header.Reconciled
		r.IsCut = r.IsCut || header.IsBase
		return nil
	}
	r.Records = append(r.Records, record)
	return nil
}

// sortRecords sorts records by position. At one position, the cache changes first, and the others keep their order. A
// record is made after the position was read, so the order of the files is not exact.
func sortRecords(records []*Record) {
	slices.SortStableFunc(records, func(a, b *Record) int {
		switch {
		case a.Position < b.Position:
			return -1
		case a.Position > b.Position:
			return 1
		case a.changesCache() && !b.changesCache():
			return -1
		case b.changesCache() && !a.changesCache():
			return 1
		}
		return 0
	})
}

// changesCache reports whether the record comes before the attempts at its position.
func (r *Record) changesCache() bool {
	return r.Object != nil || r.Served != nil || r.Watch != nil || len(r.Events) > 0 || r.Own != nil ||
		r.Read != nil && r.Read.Writes
}

// Save writes the recording into one file.
func (r *Recording) Save(path string) error {
	made, err := create(path, Header{
		Format: format, Version: r.Version, UserAgent: r.UserAgent, Controllers: r.Controllers, Reconciled: r.Reconciled, IsBase: r.IsCut,
	})
	if err != nil {
		return err
	}
	for _, record := range r.Records {
		if err := made.add(record); err != nil {
			return errors.Join(err, made.close())
		}
	}
	return made.close()
}

// Span returns when the first and the last record were made.
func (r *Recording) Span() (first, last time.Time) {
	for i, record := range r.Records {
		at := record.Time()
		if i == 0 || at.Before(first) {
			first = at
		}
		if i == 0 || at.After(last) {
			last = at
		}
	}
	return first, last
}
