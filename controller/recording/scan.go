package recording

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// disorder is how far the times of records may be out of order. A record gets its time before it gets its place.
const disorder = 5 * time.Second

// ErrNoFiles is the error of a folder without a recording. A writer makes its first file after a second.
var ErrNoFiles = errors.New("no files of a recording; run the operator with --record")

var errEnough = errors.New("enough was read")

// Scan calls each with the records of a recording in the order of its files, and keeps none. It leaves out files that have nothing
// from a time to another one, so each may get other times too. A zero time is no bound. The base of a ring comes only without from.
// A file that its writer removes meanwhile is an [os.ErrNotExist]: then scan again.
func Scan(ctx context.Context, path string, from, to time.Time, each func(*Record) error) error {
	files, err := filesOf(path)
	if err != nil {
		return err
	}
	began := make([]time.Time, len(files)+1) // The last one stays zero: the end is open.
	for i := range files {
		if began[i], _, err = beginningOf(files[i]); err != nil {
			return err
		}
	}
	read := 0
	for i, file := range files {
		isBase := len(files) > 1 && filepath.Base(file) == baseName
		endsBefore := isBase || !began[i+1].IsZero() && began[i+1].Add(disorder).Before(from)
		beginsAfter := !isBase && !to.IsZero() && began[i].Add(-disorder).After(to)
		if len(files) > 1 && (!from.IsZero() && endsBefore || beginsAfter) {
			continue
		}
		if _, err := readFile(file, func(record *Record) error {
			if read++; read%256 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			return each(record)
		}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Began returns when the records of a recording begin, and its header. IsBase of the header says that older records have
// left it. The time is zero if there are no records so far.
func Began(path string) (time.Time, Header, error) {
	files, err := filesOf(path)
	if err != nil {
		return time.Time{}, Header{}, err
	}
	isCut := len(files) > 1 && filepath.Base(files[0]) == baseName
	if isCut {
		files = files[1:]
	}
	began, header, err := beginningOf(files[0])
	header.IsBase = header.IsBase || isCut
	return began, header, err
}

// Ended returns when the last record of a recording was made, which reads the last file of a ring.
func Ended(ctx context.Context, path string) (last time.Time, err error) {
	files, err := filesOf(path)
	if err != nil {
		return last, err
	}
	read := 0
	for i := len(files) - 1; i >= 0 && last.IsZero() && err == nil; i-- { // The last one may be empty.
		_, err = readFile(files[i], func(record *Record) error {
			if read++; read%256 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if record.isMoment() && record.Time().After(last) {
				last = record.Time()
			}
			return nil
		})
	}
	return last, err
}

// isMoment reports whether the time of the record is one of the recording. A base has older objects and answers.
func (r *Record) isMoment() bool { return r.Header == nil && r.Object == nil && r.Served == nil }

// beginningOf returns when the first record of a file was made, or a zero time if there is none so far, and the header.
func beginningOf(file string) (began time.Time, header Header, err error) {
	_, err = readFile(file, func(record *Record) error {
		if record.Header != nil {
			header = *record.Header
		}
		if !record.isMoment() {
			return nil
		}
		began = record.Time()
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return began, header, err
}

// filesOf returns the files of a recording: a folder, or one file.
func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening the recording: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	files, err := segmentsOf(path)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("opening the recording: %s has %w", path, ErrNoFiles)
	}
	return files, err
}
