package recording

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// ring is the files of a recording that is being written.
type ring struct {
	options Options
	header  func() Header // of a file that begins now
	size    *atomic.Int64 // of all files

	number  int
	current *file
	began   time.Time                    // of the current file
	closed  []segment                    // oldest first, without the base
	base    int64                        // the size of the base
	served  map[string][sha256.Size]byte // the sum of the last answer about resources, by path
}

// segment is a file that is complete.
type segment struct {
	path  string
	bytes int64
	ended time.Time
}

// add adds a record to the current file.
func (r *ring) add(record *Record) error {
	if r.current == nil {
		if err := r.next(); err != nil {
			return err
		}
	}
	if record.Served != nil { // Each replica asks often, and the answers are large.
		sum := sha256.Sum256(record.Served.Answer)
		if r.served[record.Served.Path] == sum {
			return nil
		}
		if r.served == nil {
			r.served = map[string][sha256.Size]byte{}
		}
		r.served[record.Served.Path] = sum
	}
	return r.current.add(record)
}

// next begins the next file.
func (r *ring) next() (err error) {
	r.number++
	r.current, err = create(filepath.Join(r.options.Dir, fmt.Sprintf("%08d%s", r.number, segmentSuffix)), r.header())
	r.began = time.Now()
	return err
}

// flush makes the records so far readable. It ends the current file if that is large or old. It folds the oldest
// files if the ring has become too large or too old.
func (r *ring) flush() error {
	if r.current == nil {
		return nil
	}
	if err := r.current.flush(); err != nil {
		return err
	}
	if r.current.counted.bytes >= r.options.Bytes/segments || time.Since(r.began) >= r.options.Age/segments {
		if err := r.end(); err != nil {
			return err
		}
	}
	total := r.total()
	for len(r.closed) > 0 && (total > r.options.Bytes || time.Since(r.closed[0].ended) > r.options.Age) {
		if err := r.fold(); err != nil {
			return err
		}
		total = r.total()
	}
	r.size.Store(total)
	return nil
}

// end ends the current file.
func (r *ring) end() error {
	ended := r.current
	r.current = nil
	if err := ended.close(); err != nil {
		return err
	}
	r.closed = append(r.closed, segment{ended.path, ended.counted.bytes, time.Now()})
	return nil
}

// total returns the bytes of all files.
func (r *ring) total() int64 {
	total := r.base
	for _, segment := range r.closed {
		total += segment.bytes
	}
	if r.current != nil {
		total += r.current.counted.bytes
	}
	return total
}

// fold folds the oldest file into the base. A crash between the two renames leaves the old base and the file, or the
// new base and the file; the second fold of the same file changes nothing.
func (r *ring) fold() error {
	base := filepath.Join(r.options.Dir, baseName)
	sources := []string{r.closed[0].path}
	if r.base > 0 {
		sources = []string{base, r.closed[0].path}
	}
	header := r.header()
	header.IsBase = true
	made, err := create(base+partialSuffix, header)
	if err != nil {
		return err
	}
	if err := fold(sources, made.add); err != nil {
		_ = made.close() // It is incomplete anyway.
		return err
	}
	if err := made.close(); err != nil {
		return err
	}
	if err := os.Rename(made.path, base); err != nil {
		return fmt.Errorf("replacing the base: %w", err)
	}
	if err := os.Remove(r.closed[0].path); err != nil {
		return fmt.Errorf("removing the oldest file: %w", err)
	}
	r.base, r.closed = made.counted.bytes, r.closed[1:]
	return nil
}

func (r *ring) close() error {
	if r.current == nil {
		return nil
	}
	return r.current.close()
}
