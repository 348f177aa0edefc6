package store

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// backupOf returns what a restore reads of a backup of the store.
func backupOf(t testing.TB, s *Store) *Snapshot {
	t.Helper()
	var content bytes.Buffer
	if _, err := s.Backup().Write(&content); err != nil {
		t.Fatal(err)
	}
	read, err := Read(&content)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// commandsOf returns the commands of a restore, as the log has them.
func commandsOf(t testing.TB, from *Snapshot, attempt string, onlyEmpty bool) (commands []Command) {
	t.Helper()
	for command, err := range from.Restoration(attempt, onlyEmpty) {
		if err != nil {
			t.Fatal(err)
		}
		content, err := command.Encode()
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := Decode(content)
		if err != nil {
			t.Fatal(err)
		}
		commands = append(commands, decoded)
	}
	return commands
}

// filled returns a store with some keys of about 100 kB each, which need several parts.
func filled(keys int) *Store {
	s := New()
	for i := range keys {
		s.Apply(Command{Kind: Put, Key: fmt.Sprint("key-", i), Value: bytes.Repeat([]byte{byte(i)}, 100_000)})
	}
	return s
}

// TestARestoreHappensAsAWholeBetweenOtherChanges puts writes between the parts. The revisions never go back, and each write is
// before the restore, and gone, or after it.
func TestARestoreHappensAsAWholeBetweenOtherChanges(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		from := backupOf(t, filled(rapid.IntRange(0, 12).Draw(r, "keys")))
		s, last := New(), uint64(0)
		apply := func(c Command) Result {
			result := s.Apply(c)
			if result.Revision < last {
				r.Fatalf("the revision goes back from %d to %d", last, result.Revision)
			}
			last = result.Revision
			return result
		}
		before := rapid.IntRange(0, 30).Draw(r, "writes before")
		for range before {
			apply(Command{Kind: Put, Key: "key-0", Value: []byte("old")})
		}
		for _, command := range commandsOf(t, from, "one", false) {
			for range rapid.IntRange(0, 2).Draw(r, "writes between") {
				apply(Command{Kind: Put, Key: "between"})
			}
			if result := apply(command); result.Lost || result.Refused {
				r.Fatalf("%v", result)
			}
		}
		if got := s.Size(); got.Keys != from.entries.Len() || got.Bytes != from.Bytes() {
			r.Fatalf("restored %+v, want %d keys", got, from.entries.Len())
		}
		if before > 0 {
			if entry, _, found := s.Get("key-0"); found && entry.Revision <= uint64(before) {
				r.Fatalf("key-0 has the revision %d, which a client may have seen with another value", entry.Revision)
			}
		}
		if apply(Command{Kind: Put, Key: "after"}).Revision != last || s.IsStaging() {
			r.Fatal("the store still has parts")
		}
	})
}

// TestARestoreIntoANewStoreIsEqualToItsBackup compares the sums.
func TestARestoreIntoANewStoreIsEqualToItsBackup(t *testing.T) {
	from := backupOf(t, filled(12))
	s := New()
	for _, command := range commandsOf(t, from, "one", true) {
		s.Apply(command)
	}
	if got := backupOf(t, s); !bytes.Equal(got.Sum(), from.Sum()) {
		t.Errorf("the sum is %x, want %x", got.Sum(), from.Sum())
	}
}

// TestARestoreThatIsTriedAgainSucceeds covers an answer that was lost. A member that starts from its snapshot agrees.
func TestARestoreThatIsTriedAgainSucceeds(t *testing.T) {
	from, s := backupOf(t, filled(3)), New()
	for _, command := range commandsOf(t, from, "one", true) {
		s.Apply(command)
	}
	s.Apply(Command{Kind: Put, Key: "key-0", Value: []byte("newer")})
	var content bytes.Buffer
	if _, err := s.Snapshot().Write(&content); err != nil {
		t.Fatal(err)
	}
	read, err := Read(&content)
	if err != nil {
		t.Fatal(err)
	}
	started := New()
	started.Restore(read)
	for name, one := range map[string]*Store{"the store": s, "a member that was started": started} {
		for _, command := range commandsOf(t, from, "two", true) {
			if result := one.Apply(command); result.Refused || result.Lost || result.Changed {
				t.Errorf("%s: %+v", name, result)
			}
		}
		if entry, _, _ := one.Get("key-0"); string(entry.Value) != "newer" || one.IsStaging() || !one.HasRestored(from.Sum()) {
			t.Errorf("%s has lost a later write", name)
		}
		last := Result{}
		for _, command := range commandsOf(t, backupOf(t, filled(2)), "three", true) {
			last = one.Apply(command)
		}
		if !last.Refused || one.Size().Keys != 3 {
			t.Errorf("%s was replaced by another backup: %+v", name, last)
		}
	}
}

// TestPartsOfAnotherRestoreAreRefused covers two restores at once, and one that never ends.
func TestPartsOfAnotherRestoreAreRefused(t *testing.T) {
	from, s := backupOf(t, filled(12)), New()
	one, two := commandsOf(t, from, "one", false), commandsOf(t, from, "two", false)
	s.Apply(one[0])
	s.Apply(two[0])
	for _, late := range one[1:] {
		if result := s.Apply(late); !result.Lost {
			t.Errorf("a part of the first restore: %+v, want lost", result)
		}
	}
	if result := s.Apply(two[2]); !result.Lost {
		t.Errorf("a part out of order: %+v, want lost", result)
	}
	for range maxStagedAge/MaxValue + 1 {
		s.Apply(Command{Kind: Put, Key: "a", Value: make([]byte, MaxValue)})
	}
	if s.IsStaging() || !s.Apply(two[1]).Lost {
		t.Error("the parts of a restore that does not go on are kept")
	}
}

func TestACommandOfALaterVersionIsNotDecoded(t *testing.T) {
	for name, command := range map[string]Command{"no kind": {Key: "a"}, "an unknown kind": {Kind: 9, Key: "a"}, "nothing to replace by": {Kind: Replace, Key: "a"}} {
		content, err := command.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(content); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
}
