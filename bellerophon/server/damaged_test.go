package server

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/member"
)

func TestADamagedVolumeIsAnErrorOfItsOwn(t *testing.T) {
	garbage := strings.Repeat("damaged ", 10_000)
	for name, files := range map[string]map[string]string{
		"a log that is none":       {"identity.json": `{"id":"hero-0.abc"}`, "raft.db": garbage},
		"an identity without JSON": {"identity.json": garbage},
		"an identity without id":   {"identity.json": "{}"},
		"a log without identity":   {"raft.db": garbage},
	} {
		dir := t.TempDir()
		for file, content := range files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := Run(t.Context(), Options{Name: "hero-0", Listen: "127.0.0.1:0", Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if !errors.Is(err, member.ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged", name, err)
		}
	}
}

// TestAFullVolumeIsReportedAndMendedByMoreSpace fills the volume of a member, which is a file system in memory.
func TestAFullVolumeIsReportedAndMendedByMoreSpace(t *testing.T) {
	w, dir := newWorld(t, 0, true), t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("a file system of 2 MiB needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	p := w.alone(dir, 0)
	w.must(p, "PUT", "/v1/keys/horse", "pegasus", 200)
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the volume: %v", err)
	}
	value := strings.Repeat("x", 200_000)
	w.eventually("the member says so", func() error {
		_, _ = w.call(p, "PUT", "/v1/keys/large", value)
		if said := w.answers(p).Problem; !strings.Contains(said, "no space left on device") {
			return errors.New(said)
		}
		return nil
	})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	w.eventually("it writes again", func() error {
		got, err := w.call(p, "PUT", "/v1/keys/horse", "pegasus")
		if err == nil && got.code != 200 {
			err = errors.New(got.body)
		}
		return err
	})
	if said := w.answers(p).Problem; said != "" {
		t.Errorf("the problem stays: %s", said)
	}
}
