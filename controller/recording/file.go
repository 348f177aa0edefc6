package recording

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/s2"
)

// format is the version of the file format. Records of format 1 come without batches.
const format = 2

// isKnown reports whether this program reads a format.
func isKnown(written int) bool { return written == 1 || written == format }

const (
	partialSuffix = ".partial"
	lockName      = "lock"
	earlierName   = "earlier"

	blockBytes = 256 << 10 // of the compression: larger blocks take more memory
	batchSize  = 64        // records that are encoded together at most
)

// file is a file that is being written. Its records can be read up to the last flush.
type file struct {
	path    string
	out     *os.File
	counted *counter
	packed  *s2.Writer
	encoder *gob.Encoder
	batch   []Record // that are not encoded yet
}

// counter counts the bytes that it passes on.
type counter struct {
	to    io.Writer
	bytes int64
}

func (c *counter) Write(part []byte) (int, error) {
	n, err := c.to.Write(part)
	c.bytes += int64(n)
	return n, err
}

// create creates a file that begins with a header.
func create(path string, header Header) (*file, error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating a file: %w", err)
	}
	f := &file{path: path, out: out, counted: &counter{to: out}}
	f.packed = s2.NewWriter(f.counted, s2.WriterConcurrency(1), s2.WriterBlockSize(blockBytes))
	f.encoder = gob.NewEncoder(f.packed)
	if err := f.encode(&Record{Header: &header}); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return f, nil
}

// add adds a record. What it points to must stay as it is until the next flush, or until close.
func (f *file) add(record *Record) error {
	f.batch = append(f.batch, *record)
	if len(f.batch) < batchSize {
		return nil
	}
	return f.encodeBatch()
}

func (f *file) encode(record *Record) error {
	if err := f.encoder.Encode(record); err != nil {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	return nil
}

func (f *file) encodeBatch() error {
	if len(f.batch) == 0 {
		return nil
	}
	err := f.encode(&Record{Batch: f.batch})
	clear(f.batch)
	f.batch = f.batch[:0]
	return err
}

func (f *file) flush() error {
	if err := f.encodeBatch(); err != nil {
		return err
	}
	if err := f.packed.Flush(); err != nil {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	return nil
}

func (f *file) close() error {
	if err := errors.Join(f.encodeBatch(), f.encode(&Record{Closed: true}), f.packed.Close(), f.out.Close()); err != nil {
		return fmt.Errorf("closing %s: %w", f.path, err)
	}
	return nil
}

// errOtherFormat is returned for a file that this program cannot read.
var errOtherFormat = errors.New("it is no recording of this version of the program")

// readFile calls each with the records of a file. A file that breaks off, because its writer was killed or still
// writes, ends with its last whole record; whole is false then.
func readFile(path string, each func(*Record) error) (whole bool, err error) {
	in, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("opening the recording: %w", err)
	}
	defer func() { _ = in.Close() }()
	return read(path, bufio.NewReaderSize(in, blockBytes), each)
}

func read(path string, from io.Reader, each func(*Record) error) (whole bool, err error) {
	decoder := gob.NewDecoder(s2.NewReader(from))
	for first := true; ; first = false {
		var record Record
		err := decoder.Decode(&record)
		switch {
		case first && (err != nil || record.Header == nil || !isKnown(record.Header.Format)):
			return false, fmt.Errorf("reading %s: %w", path, errOtherFormat)
		case err != nil:
			return false, nil
		case record.Closed:
			return true, nil
		}
		records := record.Batch
		if len(records) == 0 {
			records = []Record{record}
		}
		for i := range records {
			if err := each(&records[i]); err != nil {
				return false, err
			}
		}
	}
}
