package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// snapshotOf returns a backup with keys of 100 kB each.
func snapshotOf(t *testing.T, keys int, value byte) string {
	t.Helper()
	s := store.New()
	for i := range keys {
		s.Apply(store.Command{Kind: store.Put, Key: fmt.Sprintf("backup-%03d", i), Value: bytes.Repeat([]byte{value}, 100_000)})
	}
	var content bytes.Buffer
	if _, err := s.Backup().Write(&content); err != nil {
		t.Fatal(err)
	}
	return content.String()
}

// TestARestoreBesideWritesLetsNoRevisionGoBack writes all the time. Each acknowledged revision is larger than the one before.
func TestARestoreBesideWritesLetsNoRevisionGoBack(t *testing.T) {
	w := newWorld(t, 3, true)
	leader := w.formed()
	backup := snapshotOf(t, 50, 'a')
	ctx, stop := context.WithCancel(t.Context())
	group := lifecycle.New(ctx)
	written := make(chan int, 1)
	group.Go("writer", func(ctx context.Context) error {
		last, count := uint64(0), 0
		defer func() { written <- count }()
		for ; ctx.Err() == nil; count++ {
			got, err := w.call(leader, "PUT", "/v1/keys/written", fmt.Sprint(count))
			var said struct{ Revision uint64 }
			if err != nil || got.code != 200 || json.Unmarshal([]byte(got.body), &said) != nil {
				return fmt.Errorf("write %d: %d %s, %w", count, got.code, got.body, err)
			}
			if said.Revision <= last {
				return fmt.Errorf("write %d got the revision %d after %d", count, said.Revision, last)
			}
			last = said.Revision
		}
		return nil
	})
	for i := range 10 {
		w.must(w.members[i%3], "PUT", "/v1/snapshot", backup, 200)
	}
	stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if count := <-written; count < 20 {
		t.Errorf("only %d writes were made beside the restores", count)
	}
	for _, p := range w.members {
		if keys, _ := w.pages(p, "backup-", "1000"); len(keys) != 50 {
			t.Errorf("%s has %d restored keys", p.options.Name, len(keys))
		}
	}
}

// TestARestoreForANewClusterIsRefusedWithKeysAndRepeatable covers an answer that the client did not get.
func TestARestoreForANewClusterIsRefusedWithKeysAndRepeatable(t *testing.T) {
	w := newWorld(t, 3, true)
	leader := w.formed()
	mine, other := snapshotOf(t, 3, 'a'), snapshotOf(t, 3, 'b')
	w.must(leader, "PUT", "/v1/snapshot", "refused before it is read", 400, "If-None-Match", "no star")
	w.must(leader, "PUT", "/v1/snapshot", "refused before it is read", 400, "If-Match", `"7"`)
	w.must(leader, "PUT", "/v1/snapshot", mine, 200, "If-None-Match", "*")
	w.must(leader, "PUT", "/v1/keys/backup-000", "changed", 200)
	for _, p := range w.members {
		w.must(p, "PUT", "/v1/snapshot", mine, 200, "If-None-Match", "*")
		w.must(p, "PUT", "/v1/snapshot", other, 412, "If-None-Match", "*")
		if got := w.must(p, "GET", "/v1/keys/backup-000", "", 200); got.body != "changed" {
			t.Errorf("the later write was replaced by %d bytes", len(got.body))
		}
	}
	for _, p := range w.members {
		w.kill(p)
	}
	for _, p := range w.members {
		w.start(p)
	}
	w.ready(w.members...)
	w.must(w.members[1], "PUT", "/v1/snapshot", mine, 200, "If-None-Match", "*")
	w.must(w.members[1], "PUT", "/v1/snapshot", other, 412, "If-None-Match", "*")
}

func TestARestoreAboveTheQuotaIsRefused(t *testing.T) {
	w := newWorld(t, 0, true)
	p := w.alone(w.dir+"/small", 1000)
	w.must(p, "PUT", "/v1/keys/a", "kept", 200)
	if refused := w.must(p, "PUT", "/v1/snapshot", snapshotOf(t, 1, 'a'), 507); !strings.Contains(refused.body, "allowed are 1000") {
		t.Errorf("the refusal is %s", refused.body)
	}
	w.must(p, "GET", "/v1/keys/a", "", 200)
}

// TestALeaderThatIsKilledDuringARestoreLeavesAllOrNothing kills the leader at random moments of a restore. All members agree
// afterwards, and have all keys of one of the two states.
func TestALeaderThatIsKilledDuringARestoreLeavesAllOrNothing(t *testing.T) {
	w := newWorld(t, 3, true)
	leader := w.formed()
	states := []string{snapshotOf(t, 100, 'a'), snapshotOf(t, 100, 'b')}
	w.must(leader, "PUT", "/v1/snapshot", states[0], 200)
	for i := range 6 {
		var through *process // not the leader, so that the request goes on with the next one
		for _, p := range w.members {
			if p != leader {
				through = p
			}
		}
		answer := make(chan string, 1)
		group := lifecycle.New(t.Context())
		group.Go("restore", func(context.Context) error {
			got, err := w.call(through, "PUT", "/v1/snapshot", states[(i+1)%2])
			answer <- fmt.Sprint(got.code, err)
			return nil
		})
		<-time.After(time.Duration(30+40*i) * time.Millisecond) // The moment is the enemy's.
		w.kill(leader)
		said := <-answer
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		w.start(leader)
		leader = w.ready(w.members...)
		want := ""
		for _, p := range w.members {
			keys, revision := w.pages(p, "backup-", "1000")
			if len(keys) != 100 {
				t.Fatalf("after a kill, %s has %d keys", p.options.Name, len(keys))
			}
			state := fmt.Sprint(revision)
			for _, key := range keys {
				got := w.must(p, "GET", "/v1/keys/"+key, "", 200)
				state += " " + got.body[:1] + got.header.Get("ETag")
			}
			if strings.Contains(state, "a\"") && strings.Contains(state, "b\"") {
				t.Fatalf("%s has keys of both states", p.options.Name)
			}
			if want == "" {
				want = state
			}
			if state != want {
				t.Errorf("%s has %s, and others have %s", p.options.Name, state, want)
			}
		}
		t.Logf("kill %d: the restore ended with %s, and the members have %.20s", i, said, want)
	}
}
