package recording

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settled is how old a record must be before it counts as sorted. Records are made within milliseconds of their
// positions, unless the machine is busy.
const settled = time.Second

// mostHeld bounds the bodies of the records that wait for an attempt to end.
const mostHeld = 64 << 20

// Batch is a part of a recording that is being written.
type Batch struct {
	Header  *Header
	Arrived []*Record // in the order of the files
	Ready   []*Record // sorted by position; each attempt that begins in them has ended, and its records have arrived
}

// errBehind is returned if the writer has dropped records that were not read yet.
var errBehind = errors.New("the operator has dropped records before they were read here; begin again, and record more bytes and a longer age if this repeats")

// Follow reads the recording in a folder, and goes on with what its writer adds. It calls each with batches until ctx
// ends. It returns nil when the writer has ended, and an error if the writer has dropped records that were not read yet.
func Follow(ctx context.Context, dir string, each func(Batch) error) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("following the recording: %w", err)
	}
	defer func() { _ = watcher.Close() }()
	if err := watcher.Add(dir); err != nil {
		return fmt.Errorf("following the recording in %s: %w", dir, err)
	}
	files, err := segmentsOf(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, lockName)); len(files) == 0 && err != nil { // A writer makes the first file with its first record.
		return fmt.Errorf("following the recording: %s has no files of a recording; run the operator with --record", dir)
	}
	f := &following{ctx: ctx, watcher: watcher, each: each, ended: map[uint64]bool{}}
	for _, path := range files {
		if err := f.read(path); err != nil {
			return err
		}
	}
	for {
		next, err := f.next(dir)
		if err != nil || next == "" {
			return errors.Join(err, f.flush(true))
		}
		if err := f.read(next); err != nil {
			return err
		}
	}
}

// following is the state of Follow.
type following struct {
	ctx     context.Context // of Follow; a reader has no other way to know it
	watcher *fsnotify.Watcher
	each    func(Batch) error
	last    string // the file that was read last
	over    bool   // the writer has ended

	batch Batch
	held  []*Record       // that arrived and were not ready
	bytes int             // of the bodies in held
	ended map[uint64]bool // attempts in held whose end has arrived
}

// read reads a file to its end, waits for more if it is not complete, and hands over what is ready.
func (f *following) read(path string) error {
	in, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("following the recording: %w", errBehind)
	}
	if err != nil {
		return fmt.Errorf("following the recording: %w", err)
	}
	defer func() { _ = in.Close() }()
	from := &growing{of: f, in: in}
	_, err = read(path, bufio.NewReaderSize(from, 4096), f.take)
	if from.err != nil { // read takes it for the end of a file whose writer was killed.
		return from.err
	}
	if err != nil {
		return err
	}
	if filepath.Base(path) != baseName {
		f.last = path
	}
	return f.flush(false)
}

// growing reads a file that grows. At its end, it hands over what is ready, and waits.
type growing struct {
	of  *following
	in  *os.File
	err error // of handing over
}

func (g *growing) Read(into []byte) (int, error) {
	for {
		n, err := g.in.Read(into)
		if n > 0 || err != io.EOF {
			return n, err
		}
		if g.err = g.of.flush(false); g.err != nil {
			return 0, g.err
		}
		if !g.of.wait() {
			return 0, io.EOF
		}
	}
}

// wait waits until a file has changed. It returns false if ctx has ended, or another process records into the folder.
func (f *following) wait() bool {
	for {
		select {
		case <-f.ctx.Done():
			return false
		case <-time.After(settled): // What was too young may be ready.
			return true
		case event, open := <-f.watcher.Events:
			switch {
			case !open || event.Has(fsnotify.Create) && filepath.Base(event.Name) == earlierName:
				f.over = true
				return false
			case event.Has(fsnotify.Write) || event.Has(fsnotify.Create):
				return true
			}
		}
	}
}

// next returns the file after the last one, or an empty name if there is none.
func (f *following) next(dir string) (string, error) {
	for f.ctx.Err() == nil && !f.over {
		files, err := segmentsOf(dir)
		if err != nil {
			return "", err
		}
		for _, path := range files {
			if filepath.Base(path) == baseName || path <= f.last {
				continue
			}
			if f.last != "" && numberOf(path) != numberOf(f.last)+1 {
				return "", fmt.Errorf("following the recording: %w", errBehind)
			}
			return path, nil
		}
		if err := f.flush(false); err != nil {
			return "", err
		}
		if !f.wait() {
			break
		}
	}
	return "", nil
}

// numberOf returns the number of a file of the ring. They count from 1 without a gap.
func numberOf(path string) int {
	number, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), segmentSuffix)) // segmentsOf returns no other names.
	return number
}

// take takes in a record.
func (f *following) take(record *Record) error {
	if record.Header != nil {
		f.batch.Header = record.Header
		return nil
	}
	if record.End != nil {
		f.ended[record.End.Attempt] = true
	}
	f.batch.Arrived = append(f.batch.Arrived, record)
	f.held = append(f.held, record)
	f.bytes += bodiesOf(record)
	return nil
}

// flush hands over what is ready: the records before the first attempt that has not ended, and that are old enough.
func (f *following) flush(all bool) error {
	sortRecords(f.held)
	before := time.Now().Add(-settled)
	ready := len(f.held)
	if !all {
		ready = slices.IndexFunc(f.held, func(record *Record) bool {
			return record.Start != nil && !f.ended[record.Start.Attempt] || record.Time().After(before)
		})
		if ready < 0 {
			ready = len(f.held)
		}
	}
	f.batch.Ready = slices.Clone(f.held[:ready])
	f.held = slices.Delete(f.held, 0, ready)
	for _, record := range f.batch.Ready {
		f.bytes -= bodiesOf(record)
		if record.End != nil {
			delete(f.ended, record.End.Attempt)
		}
	}
	if len(f.batch.Arrived) == 0 && len(f.batch.Ready) == 0 {
		return nil
	}
	made := f.batch
	f.batch = Batch{Header: made.Header}
	return errors.Join(f.each(made), f.tooMuch())
}

// tooMuch returns an error if much has arrived since an attempt began that does not end.
func (f *following) tooMuch() error {
	if f.bytes <= mostHeld || f.held[0].Start == nil {
		return nil
	}
	of := f.held[0].Start
	return fmt.Errorf("following the recording: the attempt %s of %s for %s has not ended, and %d MiB have arrived since it began; begin again once it has ended, or give the controller a timeout",
		of.ID, of.Request.Controller, of.Name(), f.bytes>>20)
}

// bodiesOf returns the size of the bodies of a record.
func bodiesOf(record *Record) (size int) {
	if of := record.Object; of != nil {
		size += len(of.Body)
	}
	if of := record.Exchange; of != nil {
		size += len(of.Body) + len(of.Answer)
	}
	return size
}
