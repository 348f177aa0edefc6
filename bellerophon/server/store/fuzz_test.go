package store

import (
	"bytes"
	"errors"
	"testing"
)

// An entry of the log that a member sends, or that a disk has changed, must not stop a member.
func FuzzAnyEntryOfTheLogIsAppliedOrRefused(f *testing.F) {
	one := uint64(1)
	for _, command := range []Command{
		{Kind: Put, Key: "horse", Value: []byte("pegasus"), If: &one}, {Kind: Delete, Key: "horse"}, {Kind: Stage, Key: "restore"},
		{Kind: Replace, Key: "restore", Restoration: &Restoration{Parts: 1, Revision: 9, OnlyEmpty: true}},
	} {
		encoded, err := command.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded, encoded)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s := New()
		for _, content := range [][]byte{first, second} {
			command, err := Decode(content)
			if err != nil {
				continue
			}
			before := s.Size().Revision
			if result := s.Apply(command); result.Revision != s.Size().Revision || result.Revision < before {
				t.Errorf("after %+v the revision is %d, and was %d; the result is %+v", command, s.Size().Revision, before, result)
			}
		}
		if held := s.Snapshot(); held.Bytes() != s.Size().Bytes {
			t.Errorf("the store counts %d bytes, and has %d", s.Size().Bytes, held.Bytes())
		}
	})
}

// A backup comes from a volume or from a client.
func FuzzAnySnapshotIsTheOneThatWasWrittenOrDamaged(f *testing.F) {
	s := New()
	for _, content := range []string{"", "value", "another"} {
		var out bytes.Buffer
		if _, err := s.Backup().Write(&out); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
		s.Apply(Command{Kind: Put, Key: "key" + content, Value: []byte(content)})
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		held, err := Read(bytes.NewReader(content))
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("the error is %v", err)
			}
			return
		}
		s := New()
		s.Restore(held)
		var out bytes.Buffer
		if _, err := s.Snapshot().Write(&out); err != nil {
			t.Fatal(err)
		}
		again, err := Read(&out)
		if err != nil || again.Revision() != held.Revision() || again.Bytes() != held.Bytes() {
			t.Errorf("a snapshot of the restored store has the revision %d and %d bytes, want %d and %d (%v)", again.Revision(), again.Bytes(), held.Revision(), held.Bytes(), err)
		}
	})
}
