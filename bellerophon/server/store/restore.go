package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/fxamacker/cbor/v2"
	"github.com/tidwall/btree"
)

// Restoration is what a command of the kind [Replace] replaces all keys by. The log has the parts of a snapshot first, as
// commands of the kind [Stage]. So a restore has its place among the other changes, on all members.
type Restoration struct {
	Parts    uint64 `cbor:"1,keyasint"`
	Revision uint64 `cbor:"2,keyasint"` // of the snapshot
	Sum      []byte `cbor:"3,keyasint"` // of the snapshot
	// OnlyEmpty refuses the restore if the store has keys, unless they were restored from the same snapshot.
	OnlyEmpty bool `cbor:"4,keyasint,omitempty"`
}

// partBytes is how many bytes of keys and values a part has at least, except for the last one.
const partBytes = 512 << 10

// maxStagedAge is how many bytes other commands may have before the parts of an abandoned restore are dropped.
const maxStagedAge = 64 << 20

// staged holds the parts of a restore that is not complete. It is in no snapshot of the store.
type staged struct {
	attempt string
	parts   uint64
	entries *btree.Map[string, Entry]
	age     int // bytes of other commands since the newest part
}

// Restoration returns the commands that restore the snapshot, in their order. The attempt is a name that no other restore has.
func (s *Snapshot) Restoration(attempt string, onlyEmpty bool) iter.Seq2[Command, error] {
	return func(yield func(Command, error) bool) {
		var part bytes.Buffer
		parts, goOn, failed := uint64(0), true, error(nil)
		flush := func() {
			goOn = yield(Command{Kind: Stage, Key: attempt, Part: parts, Value: bytes.Clone(part.Bytes())}, nil)
			parts++
			part.Reset()
		}
		encoder := cbor.NewEncoder(&part)
		s.entries.Scan(func(_ string, entry Entry) bool {
			if failed = encoder.Encode(record(entry)); failed != nil {
				return false
			}
			if part.Len() >= partBytes {
				flush()
			}
			return goOn
		})
		if failed != nil {
			yield(Command{}, fmt.Errorf("encoding a part of the snapshot: %w", failed))
			return
		}
		if goOn && (part.Len() > 0 || parts == 0) {
			flush()
		}
		if goOn {
			yield(Command{Kind: Replace, Key: attempt, Restoration: &Restoration{
				Parts: parts, Revision: s.revision, Sum: s.sum, OnlyEmpty: onlyEmpty,
			}}, nil)
		}
	}
}

// HasRestored reports whether the keys were last replaced by a snapshot of this sum. They may have changed since.
func (s *Store) HasRestored(sum []byte) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.restored != "" && s.restored == hex.EncodeToString(sum)
}

// IsStaging reports whether the store has parts of a restore that is not complete. A snapshot would lose them.
func (s *Store) IsStaging() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.staged != nil
}

// stage adds a part to its restore. The first part of a restore drops the parts of another one.
func (s *Store) stage(c Command) Result {
	if c.Part == 0 {
		s.staged = &staged{attempt: c.Key, entries: &btree.Map[string, Entry]{}}
	}
	if s.staged == nil || s.staged.attempt != c.Key || s.staged.parts != c.Part {
		return Result{Revision: s.revision, Lost: true}
	}
	decoder := cbor.NewDecoder(bytes.NewReader(c.Value))
	for {
		var one record
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // The same on all members.
			s.staged = nil
			return Result{Revision: s.revision, Lost: true}
		}
		s.staged.entries.Set(one.Key, Entry(one))
	}
	s.staged.parts++
	s.staged.age = 0
	return Result{Revision: s.revision}
}

// ageStaged drops the parts of a restore after many other commands: the sender has ended.
func (s *Store) ageStaged(c Command) {
	if s.staged == nil || c.Kind == Stage || c.Kind == Replace {
		return
	}
	if s.staged.age += len(c.Key) + len(c.Value) + 64; s.staged.age > maxStagedAge {
		s.staged = nil
	}
}

// replace replaces all keys by the parts of a restore. Watches of earlier revisions expire.
//
// The revision becomes the larger one of both, so that none is used twice. Keys of a new store have their revisions of the
// snapshot. In any other store they get the new revision: a client may hold a revision of a key from before the restore,
// which must not match.
func (s *Store) replace(c Command) Result {
	wanted, parts := *c.Restoration, s.staged
	sum := hex.EncodeToString(wanted.Sum)
	complete := parts != nil && parts.attempt == c.Key && parts.parts == wanted.Parts
	if complete {
		s.staged = nil
	}
	switch {
	case wanted.OnlyEmpty && s.restored == sum:
		return Result{Revision: s.revision}
	case wanted.OnlyEmpty && s.entries.Len() > 0:
		return Result{Revision: s.revision, Refused: true}
	case !complete:
		return Result{Revision: s.revision, Lost: true}
	}
	next, entries := max(wanted.Revision, s.revision+1), parts.entries
	if s.revision > 0 {
		raised := &btree.Map[string, Entry]{}
		entries.Scan(func(key string, entry Entry) bool {
			entry.Revision = next
			raised.Set(key, entry)
			return true
		})
		entries = raised
	}
	s.set(&Snapshot{entries: entries, revision: next, restored: sum})
	return Result{Revision: next, Changed: true}
}
