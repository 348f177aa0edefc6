package recording

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options configures a [Writer].
type Options struct {
	Dir   string        // where the files are; it is created if it is missing
	Bytes int64         // most bytes of all files: 1 MiB to 1 TiB; default 256 MiB
	Age   time.Duration // most age of a record: 1 min to 720 h; default 1 h

	Version   string // of the program
	UserAgent string // of the program's requests; a manager sets it
	Logger    *slog.Logger
}

const (
	defaultBytes = 256 << 20
	defaultAge   = time.Hour
	leastBytes   = 1 << 20
	mostBytes    = 1 << 40

	// segments is how many files a full ring has, without the base. Fewer make the ring uneven, and more make it
	// fold more often.
	segments = 8

	// mostPending bounds the memory of records that are not written yet, in estimated bytes. A disk that hangs must
	// stop neither the pipeline nor the process.
	mostPending = 64 << 20

	// mostSpare bounds the memory for records to come, in records.
	mostSpare = 16 << 10

	flushEvery = time.Second
)

// withDefaults fills in the defaults, and returns an error for an option that is out of its range.
func (o Options) withDefaults() (Options, error) {
	if o.Bytes == 0 {
		o.Bytes = defaultBytes
	}
	if o.Age == 0 {
		o.Age = defaultAge
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case o.Dir == "":
		return o, errors.New("recording: Dir is empty; give a folder")
	case o.Bytes < leastBytes || o.Bytes > mostBytes:
		return o, fmt.Errorf("recording: Bytes is %d; allowed is %d (1 MiB) to %d (1 TiB)", o.Bytes, leastBytes, mostBytes)
	case o.Age < time.Minute || o.Age > 720*time.Hour:
		return o, fmt.Errorf("recording: Age is %v; allowed is 1m to 720h", o.Age)
	}
	return o, nil
}

// Writer writes a recording. Create it with [NewWriter], and call Run once. Its other methods may be called from any
// goroutine, and do not wait for the disk.
type Writer struct {
	options Options
	redact  *Redactor
	header  Header
	lock    *flock.Flock

	mu      sync.Mutex
	pending []Pending
	bytes   int64 // estimated, of pending
	failure error // why nothing is recorded any longer
	wake    chan struct{}

	written atomic.Int64
	size    atomic.Int64
}

// Pending is a record whose contents are encoded by the writer's goroutine.
type Pending struct {
	Record
	Encode func(record *Record, redact *Redactor) error // completes the record; nil if it is complete
}

const (
	segmentSuffix = ".segment"
	baseName      = "base" + segmentSuffix
)

// NewWriter creates a writer into a folder. It fails if the folder cannot be written, holds other files, or another
// writer uses it. The recording of an earlier process moves into the folder earlier within it.
func NewWriter(options Options) (*Writer, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("recording: creating the folder: %w", err)
	}
	entries, err := os.ReadDir(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("recording: reading the folder: %w", err)
	}
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasSuffix(name, segmentSuffix) && !strings.HasSuffix(name, partialSuffix) && name != lockName && name != earlierName {
			return nil, fmt.Errorf("recording: %s has the file %s, which is not of a recording; give a folder of its own", options.Dir, name)
		}
	}
	redact, err := newRedactor()
	if err != nil {
		return nil, err
	}
	w := &Writer{options: options, redact: redact, wake: make(chan struct{}, 1)}
	w.header = Header{Format: format, Version: options.Version, UserAgent: options.UserAgent}
	w.lock = flock.New(filepath.Join(options.Dir, lockName))
	switch locked, err := w.lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("recording: locking %s: %w", options.Dir, err)
	case !locked:
		return nil, fmt.Errorf("recording: another process records into %s; give each a folder of its own", options.Dir)
	}
	if err := keepEarlier(options.Dir); err != nil {
		return nil, errors.Join(err, w.lock.Unlock())
	}
	return w, nil
}

// Put adds a record. size estimates the bytes of what the record holds.
func (w *Writer) Put(added Pending, size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure != nil {
		return
	}
	if w.bytes += int64(size); w.bytes > mostPending {
		w.fail(fmt.Errorf("recording: the disk of %s is too slow: %d MiB wait; the recording has ended", w.options.Dir, mostPending>>20))
		return
	}
	if w.pending = append(w.pending, added); len(w.pending) == 1 {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// fail ends the recording. The caller holds the lock. What was written stays readable.
func (w *Writer) fail(err error) {
	if w.failure == nil {
		w.failure, w.pending, w.bytes = err, nil, 0
		w.options.Logger.Error("recording ended", "error", err)
	}
}

// Err returns why the recording has ended, or nil.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// Written returns how many records were written, and the bytes of the files.
func (w *Writer) Written() (records, bytes int64) { return w.written.Load(), w.size.Load() }

// Run writes until ctx ends, and then what is pending. A failure of the disk ends the recording and is logged; Run
// itself returns it only at its end, because a manager works without a recording. The header of each file names the
// controllers at that time, with the kinds that they reconcile. Run calls controllers for it, unless that is nil.
func (w *Writer) Run(ctx context.Context, controllers func() map[string]schema.GroupKind) error {
	defer func() { _ = w.lock.Unlock() }() // The end of the process releases it, too.
	ring := &ring{options: w.options, header: func() Header {
		header := w.header
		if controllers != nil {
			header.Reconciled = controllers()
			header.Controllers = slices.Sorted(maps.Keys(header.Reconciled))
		}
		return header
	}, size: &w.size}
	var taken []Pending // The two slices are used in turn.
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true
		case <-w.wake:
			select {
			case <-ctx.Done():
				over = true
			case <-time.After(flushEvery): // A second of records is compressed better than each one.
			}
		}
		w.mu.Lock()
		taken, w.pending, w.bytes = w.pending, taken[:0], 0
		w.mu.Unlock()
		if err := w.write(ring, taken); err != nil {
			w.mu.Lock()
			w.fail(fmt.Errorf("recording: %w", err))
			w.mu.Unlock()
			over = true
		}
		if clear(taken); cap(taken) > mostSpare {
			taken = nil
		}
	}
	return ring.close()
}

// write encodes records into the current file, and begins the next one if it is time.
func (w *Writer) write(ring *ring, records []Pending) error {
	for i := range records {
		record := &records[i]
		if record.Encode != nil {
			if err := record.Encode(&record.Record, w.redact); err != nil {
				return err
			}
		}
		if err := ring.add(&record.Record); err != nil {
			return err
		}
	}
	w.written.Add(int64(len(records)))
	return ring.flush()
}

// keepEarlier moves the files of an earlier recording into a folder in Dir, in the place of one that was there. After a
// crash of the program, they show what led to it.
func keepEarlier(dir string) error {
	files, err := segmentsOf(dir)
	if err != nil || len(files) == 0 {
		return err
	}
	earlier := filepath.Join(dir, earlierName)
	if err := os.RemoveAll(earlier); err != nil {
		return fmt.Errorf("recording: removing the recording before the last one: %w", err)
	}
	if err := os.Mkdir(earlier, 0o700); err != nil {
		return fmt.Errorf("recording: keeping the earlier recording: %w", err)
	}
	for _, file := range files {
		if err := os.Rename(file, filepath.Join(earlier, filepath.Base(file))); err != nil {
			return fmt.Errorf("recording: keeping the earlier recording: %w", err)
		}
	}
	return nil
}

// segmentsOf returns the files of a recording in a folder, the base first, the others by their age.
func segmentsOf(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err != nil {
		return nil, fmt.Errorf("recording: reading %s: %w", dir, err)
	}
	slices.SortFunc(files, func(a, b string) int {
		a, b = filepath.Base(a), filepath.Base(b)
		switch {
		case a == baseName && b != baseName:
			return -1
		case b == baseName && a != baseName:
			return 1
		}
		return strings.Compare(a, b)
	})
	return files, nil
}
