package store

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/fxamacker/cbor/v2"
	"github.com/tidwall/btree"
)

// ErrDamaged is the error of a snapshot that is cut off, changed, or no snapshot.
var ErrDamaged = errors.New("the snapshot is damaged or incomplete")

// format is the first field of a snapshot.
const format = "bellerophon-snapshot/1"

// A snapshot is a sequence of CBOR items: a header, its entries in the order of keys, and the SHA-256 sum of
// all bytes before the sum. The sum finds a snapshot whose transfer was cut off.
type header struct {
	Format   string `cbor:"1,keyasint"`
	Revision uint64 `cbor:"2,keyasint"`
	Keys     int    `cbor:"3,keyasint"`
	Restored string `cbor:"4,keyasint,omitempty"` // the sum of the snapshot that was last restored; backups do not have it
}

type record struct {
	Key      string `cbor:"1,keyasint"`
	Value    []byte `cbor:"2,keyasint"`
	Revision uint64 `cbor:"3,keyasint"`
}

// Snapshot is the state of a store at one moment. It shares memory with the store until either changes.
type Snapshot struct {
	entries  *btree.Map[string, Entry]
	revision uint64
	restored string
	sum      []byte // of a snapshot that was read
}

// Snapshot returns the state of this moment. It takes no time that depends on the number of keys.
func (s *Store) Snapshot() *Snapshot {
	s.mu.Lock() // Copy marks nodes of the tree as shared, which is a write.
	defer s.mu.Unlock()
	return &Snapshot{entries: s.entries.Copy(), revision: s.revision, restored: s.restored}
}

// Backup returns the keys of this moment, without what only members of the same cluster need.
func (s *Store) Backup() *Snapshot {
	taken := s.Snapshot()
	taken.restored = ""
	return taken
}

// Sum returns the SHA-256 sum of a snapshot that was read.
func (s *Snapshot) Sum() []byte { return s.sum }

// Bytes returns the size of all keys and values.
func (s *Snapshot) Bytes() (bytes int64) {
	s.entries.Scan(func(_ string, entry Entry) bool {
		bytes += entry.size()
		return true
	})
	return bytes
}

// Revision returns the revision of the store when the snapshot was taken.
func (s *Snapshot) Revision() uint64 { return s.revision }

// Write writes the snapshot, and returns its SHA-256 sum.
func (s *Snapshot) Write(w io.Writer) (sum []byte, err error) {
	buffered := bufio.NewWriterSize(w, 64<<10)
	summed := sha256.New()
	encoder := cbor.NewEncoder(io.MultiWriter(buffered, summed))
	if err := encoder.Encode(header{Format: format, Revision: s.revision, Keys: s.entries.Len(), Restored: s.restored}); err != nil {
		return nil, fmt.Errorf("writing the snapshot: %w", err)
	}
	s.entries.Scan(func(_ string, entry Entry) bool {
		err = encoder.Encode(record(entry))
		return err == nil
	})
	if err != nil {
		return nil, fmt.Errorf("writing the snapshot: %w", err)
	}
	sum = summed.Sum(nil)
	if err := cbor.NewEncoder(buffered).Encode(sum); err != nil {
		return nil, fmt.Errorf("writing the snapshot: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return nil, fmt.Errorf("writing the snapshot: %w", err)
	}
	return sum, nil
}

// Read reads a snapshot to its end, and verifies it. The error wraps [ErrDamaged] unless r fails.
func Read(r io.Reader) (*Snapshot, error) {
	summed := &summing{from: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	decoder := cbor.NewDecoder(summed)
	var head header
	if err := decoder.Decode(&head); err != nil {
		return nil, damaged(summed, "reading its header", err)
	}
	if head.Format != format {
		return nil, fmt.Errorf("%w: its format is %q, want %q", ErrDamaged, head.Format, format)
	}
	read := &Snapshot{entries: &btree.Map[string, Entry]{}, revision: head.Revision, restored: head.Restored}
	for range head.Keys {
		var one record
		if err := decoder.Decode(&one); err != nil {
			return nil, damaged(summed, "reading its entries", err)
		}
		if ValidateKey(one.Key) != nil || one.Revision > head.Revision {
			return nil, fmt.Errorf("%w: its entry %q is invalid", ErrDamaged, one.Key)
		}
		read.entries.Set(one.Key, Entry(one))
	}
	if read.entries.Len() != head.Keys {
		return nil, fmt.Errorf("%w: it has entries of the same key", ErrDamaged)
	}
	want := summed.until(decoder.NumBytesRead())
	var got []byte
	if err := decoder.Decode(&got); err != nil {
		return nil, damaged(summed, "reading its sum", err)
	}
	if !bytes.Equal(got, want) {
		return nil, fmt.Errorf("%w: its SHA-256 sum does not match", ErrDamaged)
	}
	if rest, _ := io.Copy(io.Discard, io.MultiReader(decoder.Buffered(), summed.from)); rest > 0 {
		return nil, fmt.Errorf("%w: %d bytes follow its end", ErrDamaged, rest)
	}
	read.sum = want
	return read, nil
}

// damaged returns the error of the reader, or else one that wraps [ErrDamaged].
func damaged(r *summing, doing string, err error) error {
	if r.err != nil {
		return fmt.Errorf("reading the snapshot: %w", r.err)
	}
	return fmt.Errorf("%w: %s: %w", ErrDamaged, doing, err)
}

// summing sums what a decoder reads. The decoder reads ahead, so the newest bytes are kept apart.
type summing struct {
	from io.Reader
	sum  hash.Hash
	done int    // bytes in the sum
	late []byte // read and not yet in the sum
	err  error  // of from, other than its end
}

// ahead is how many bytes stay out of the sum. The sum of a snapshot, which ends it, is shorter.
const ahead = 64

func (s *summing) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.late = append(s.late, p[:n]...)
	if extra := len(s.late) - ahead; extra > 0 {
		s.sum.Write(s.late[:extra])
		s.done += extra
		s.late = append(s.late[:0], s.late[extra:]...)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// until returns the sum of the first n bytes. Nothing may be read for the sum afterwards. It returns nil if
// more than the sum of a snapshot follows them.
func (s *summing) until(n int) []byte {
	if n < s.done || n-s.done > len(s.late) {
		return nil
	}
	s.sum.Write(s.late[:n-s.done])
	return s.sum.Sum(nil)
}

// Restore replaces the state of the store by one of the same cluster. Watches of earlier revisions expire.
func (s *Store) Restore(from *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staged = nil
	s.set(from)
}

func (s *Store) set(from *Snapshot) {
	s.entries, s.revision, s.restored, s.bytes = from.entries.Copy(), from.revision, from.restored, from.Bytes()
	close(s.feed.added)
	s.feed = newFeed(s.revision)
}
