package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func revision(r uint64) *uint64 { return &r }

func TestACommandWithAConditionIsRefusedWhenTheKeyHasAnotherRevision(t *testing.T) {
	s := New()
	for _, step := range []struct {
		name    string
		command Command
		want    Result
	}{
		{"create", Command{Kind: Put, Key: "a", If: revision(0)}, Result{Revision: 1, Key: 1, Changed: true}},
		{"create again", Command{Kind: Put, Key: "a", If: revision(0)}, Result{Revision: 1, Key: 1, Refused: true}},
		{"another key", Command{Kind: Put, Key: "b"}, Result{Revision: 2, Key: 2, Changed: true}},
		{"swap", Command{Kind: Put, Key: "a", If: revision(1)}, Result{Revision: 3, Key: 3, Changed: true}},
		{"swap of an old revision", Command{Kind: Put, Key: "a", If: revision(1)}, Result{Revision: 3, Key: 3, Refused: true}},
		{"delete an old revision", Command{Kind: Delete, Key: "a", If: revision(1)}, Result{Revision: 3, Key: 3, Refused: true}},
		{"delete", Command{Kind: Delete, Key: "a", If: revision(3)}, Result{Revision: 4, Changed: true}},
		{"delete what is missing", Command{Kind: Delete, Key: "a"}, Result{Revision: 4}},
		{"swap of what is missing", Command{Kind: Put, Key: "a", If: revision(3)}, Result{Revision: 4, Refused: true}},
		{"create once more", Command{Kind: Put, Key: "a", If: revision(0)}, Result{Revision: 5, Key: 5, Changed: true}},
	} {
		if got := s.Apply(step.command); got != step.want {
			t.Errorf("%s: %+v, want %+v", step.name, got, step.want)
		}
	}
}

// TestAStoreIsLikeASortedMap compares a store with a plain map, and each store with one that was restored from
// its snapshot.
func TestAStoreIsLikeASortedMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, model := New(), map[string]string{}
		keys := rapid.SampledFrom([]string{"a", "a/", "a/b", "a/c", "a/c/d", "b", "é", "z"})
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			key, value := keys.Draw(t, "key"), rapid.StringN(0, 5, -1).Draw(t, "value")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				s.Apply(Command{Kind: Delete, Key: key})
				delete(model, key)
			default:
				s.Apply(Command{Kind: Put, Key: key, Value: []byte(value)})
				model[key] = value
			}
		}
		var content bytes.Buffer
		if _, err := s.Snapshot().Write(&content); err != nil {
			t.Fatal(err)
		}
		read, err := Read(iotest.OneByteReader(&content))
		if err != nil {
			t.Fatal(err)
		}
		restored := New()
		restored.Restore(read)
		if s.Size() != restored.Size() {
			t.Fatalf("restored %+v, want %+v", restored.Size(), s.Size())
		}
		prefix, after := rapid.SampledFrom([]string{"", "a", "a/", "b", "x"}).Draw(t, "prefix"), rapid.SampledFrom([]string{"", "a", "a/b", "b"}).Draw(t, "after")
		var want []string
		for _, key := range slices.Sorted(maps.Keys(model)) {
			if strings.HasPrefix(key, prefix) && key > after {
				want = append(want, key)
			}
		}
		limit := rapid.IntRange(1, 9).Draw(t, "limit")
		for _, one := range []*Store{s, restored} {
			entries, _, more := one.List(prefix, after, limit)
			if more != (len(want) > limit) || len(entries) != min(limit, len(want)) {
				t.Fatalf("listed %d with more=%v of %q after %q, want %d of %v", len(entries), more, prefix, after, limit, want)
			}
			for i, entry := range entries {
				if entry.Key != want[i] || string(entry.Value) != model[entry.Key] {
					t.Fatalf("entry %d is %+v, want %s=%q", i, entry, want[i], model[want[i]])
				}
			}
		}
	})
}

func TestASnapshotDoesNotChangeWithItsStore(t *testing.T) {
	s := New()
	for i := range 1000 {
		s.Apply(Command{Kind: Put, Key: fmt.Sprint(i), Value: []byte("old")})
	}
	taken := s.Snapshot()
	var before, after bytes.Buffer
	if _, err := taken.Write(&before); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		s.Apply(Command{Kind: Put, Key: fmt.Sprint(i), Value: []byte("new")})
		s.Apply(Command{Kind: Delete, Key: fmt.Sprint(i / 2)})
	}
	if _, err := taken.Write(&after); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before.Bytes(), after.Bytes()) {
		t.Error("the snapshot changed with its store")
	}
}

// TestADamagedSnapshotIsRefused flips each byte, cuts the snapshot at each byte, and appends to it.
func TestADamagedSnapshotIsRefused(t *testing.T) {
	s := New()
	for i := range 20 {
		s.Apply(Command{Kind: Put, Key: fmt.Sprint("key-", i), Value: []byte(strings.Repeat("v", i))})
	}
	var content bytes.Buffer
	if _, err := s.Snapshot().Write(&content); err != nil {
		t.Fatal(err)
	}
	whole := content.Bytes()
	if _, err := Read(bytes.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1
		for what, damaged := range map[string][]byte{"cut": whole[:i], "flipped": flipped} {
			if _, err := Read(bytes.NewReader(damaged)); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%s at byte %d: %v, want ErrDamaged", what, i, err)
			}
		}
	}
	for _, rest := range []string{"x", strings.Repeat("x", 1<<20)} {
		if _, err := Read(strings.NewReader(string(whole) + rest)); !errors.Is(err, ErrDamaged) {
			t.Errorf("with %d more bytes: %v, want ErrDamaged", len(rest), err)
		}
	}
	failing := iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(whole)))
	if _, err := Read(failing); !errors.Is(err, iotest.ErrTimeout) || errors.Is(err, ErrDamaged) {
		t.Errorf("of a reader that fails: %v, want its error", err)
	}
}

// errSeen ends a watch.
var errSeen = errors.New("seen")

// watched returns the revisions that a watch sees up to the newest revision of the store.
func watched(s *Store, prefix string, after uint64) (seen []uint64, err error) {
	newest := s.Size().Revision
	if after == newest {
		return nil, nil
	}
	err = s.Watch(context.Background(), Following{Prefix: prefix, After: after}, func(e Event) error {
		seen = append(seen, e.Entry.Revision)
		return nil
	}, func(bool) error {
		if len(seen) > 0 && seen[len(seen)-1] == newest {
			return errSeen
		}
		return nil
	})
	if errors.Is(err, errSeen) {
		err = nil
	}
	return seen, err
}

func TestAWatchSeesEachEventOnceAndExpiresWhenItIsTooOld(t *testing.T) {
	s := New()
	for range keptEvents + 500 {
		s.Apply(Command{Kind: Put, Key: "a"})
	}
	for after, want := range map[uint64]int{500: keptEvents, 501: keptEvents - 1, keptEvents + 499: 1, keptEvents + 500: 0} {
		seen, err := watched(s, "", after)
		if err != nil || len(seen) != want {
			t.Errorf("after %d a watch saw %d events and %v, want %d", after, len(seen), err, want)
		}
		for i, one := range seen {
			if one != after+uint64(i)+1 {
				t.Fatalf("event %d after %d has the revision %d", i, after, one)
			}
		}
	}
	for _, after := range []uint64{0, 499, keptEvents + 501} {
		if _, err := watched(s, "", after); !errors.Is(err, ErrExpired) {
			t.Errorf("after %d: %v, want ErrExpired", after, err)
		}
	}
}

func TestAWatchKeepsNoMoreBytesThanItsBound(t *testing.T) {
	s := New()
	for range 3 * keptBytes / MaxValue {
		s.Apply(Command{Kind: Put, Key: "a", Value: make([]byte, MaxValue)})
	}
	if s.feed.bytes > keptBytes {
		t.Errorf("%d bytes are kept, want at most %d", s.feed.bytes, keptBytes)
	}
	if _, err := watched(s, "", s.Size().Revision-5); err != nil {
		t.Errorf("a watch of the last 5 events: %v", err)
	}
}

func TestAWatchOfAnEarlierStateExpiresWithARestore(t *testing.T) {
	s := New()
	for range 10 {
		s.Apply(Command{Kind: Put, Key: "a"})
	}
	from := s.Snapshot()
	from.revision = 11
	err := s.Watch(t.Context(), Following{After: 10}, func(Event) error { return nil }, func(bool) error {
		s.Restore(from)
		return nil
	})
	if !errors.Is(err, ErrExpired) {
		t.Errorf("the watch ended with %v, want ErrExpired", err)
	}
	if got := s.Apply(Command{Kind: Put, Key: "a"}); got.Revision != 12 {
		t.Errorf("the next change has the revision %d, want 12", got.Revision)
	}
}

func TestKeysAreValidated(t *testing.T) {
	for name, key := range map[string]string{"empty": "", "long": strings.Repeat("a", MaxKey+1), "line break": "a\nb", "no UTF-8": "a\xff"} {
		if err := ValidateKey(key); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if err := ValidateKey(strings.Repeat("ä", MaxKey/2)); err != nil {
		t.Errorf("the largest key: %v", err)
	}
}

func TestACommandSurvivesItsEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Command{Kind: Put, Key: rapid.String().Draw(t, "key"), Value: rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "value")}
		if rapid.Bool().Draw(t, "conditional") {
			want.If = revision(rapid.Uint64().Draw(t, "revision"))
		}
		content, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(content)
		if err != nil || got.Kind != want.Kind || got.Key != want.Key || !bytes.Equal(got.Value, want.Value) || (got.If == nil) != (want.If == nil) || got.If != nil && *got.If != *want.If {
			t.Fatalf("decoded %+v and %v, want %+v", got, err, want)
		}
	})
}
