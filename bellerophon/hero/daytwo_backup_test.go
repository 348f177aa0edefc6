package hero

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// TestDayTwoABackupOutlivesAllVolumes takes the backup and restores it by the requests of the members.
func TestDayTwoABackupOutlivesAllVolumes(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3), "storage": map[string]any{"retention": "Delete"}})
	w.ready()
	for i := range 50 {
		w.put(fmt.Sprint("key-", i), strings.Repeat("x", i+1))
	}
	_, entries, err := w.call(http.MethodGet, "/v1/keys?limit=1000", "")
	if err != nil {
		t.Fatal(err)
	}
	code, backup, err := w.call(http.MethodGet, "/v1/snapshot", "")
	if err != nil || code != http.StatusOK {
		t.Fatalf("the backup: %d, %v", code, err)
	}
	w.remove("bellerophon")
	w.eventually("all volumes are lost", func() error {
		if claims := w.claims(); len(claims) > 0 {
			return fmt.Errorf("%v", claims)
		}
		return nil
	})
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	w.ready()
	if code, said, err := w.call(http.MethodPut, "/v1/snapshot", backup); err != nil || code != http.StatusOK {
		t.Fatalf("the restore: %d %s, %v", code, said, err)
	}
	_, again, err := w.call(http.MethodGet, "/v1/snapshot", "")
	if err != nil {
		t.Fatal(err)
	}
	want, got := sha256.Sum256([]byte(backup)), sha256.Sum256([]byte(again))
	report(t, "SHA-256 of a backup after the loss of all volumes and a restore", hex.EncodeToString(got[:4]), hex.EncodeToString(want[:4]), got == want)
	_, restored, err := w.call(http.MethodGet, "/v1/keys?limit=1000", "")
	if err != nil {
		t.Fatal(err)
	}
	report(t, "entries after the loss of all volumes and a restore", fmt.Sprintf("%d bytes of JSON", len(restored)), fmt.Sprintf("the same %d bytes", len(entries)), restored == entries)
}

// TestDayTwoABackupOfARunningHeroIsAConsistentCut counts in one key after another while backups are taken through all members. By
// the largest number in a backup, the numbers of all keys are known.
func TestDayTwoABackupOfARunningHeroIsAConsistentCut(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	w.ready()
	const keys, backups = 20, 30
	written := 0
	count := func() error {
		code, said, err := w.call(http.MethodPut, fmt.Sprintf("/v1/keys/counted-%02d", written%keys), fmt.Sprint(written))
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d %s", code, said)
		}
		written++
		return err
	}
	for range keys {
		if err := count(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	group := lifecycle.New(ctx)
	group.Go("counter", func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := count(); err != nil {
				return err
			}
		}
		return nil
	})
	whole, moments := 0, map[int]bool{}
	for range backups {
		code, backup, err := w.call(http.MethodGet, "/v1/snapshot", "")
		read, damaged := store.Read(strings.NewReader(backup))
		if err != nil || code != http.StatusOK || damaged != nil {
			t.Fatalf("the backup: %d, %v, %v", code, err, damaged)
		}
		held := store.New()
		held.Restore(read)
		last, sum := 0, 0
		for key := range keys {
			entry, _, _ := held.Get(fmt.Sprintf("counted-%02d", key))
			number, err := strconv.Atoi(string(entry.Value))
			if err != nil {
				t.Fatal(err)
			}
			last, sum = max(last, number), sum+number
		}
		moments[last] = true
		if sum == keys*last-keys*(keys-1)/2 { // The last numbers without a gap.
			whole++
		}
	}
	stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	report(t, "backups of a running hero that are consistent cuts", fmt.Sprintf("%d of %d, of %d moments", whole, backups, len(moments)), "all, of 3 moments or more", whole == backups && len(moments) >= 3)
}
