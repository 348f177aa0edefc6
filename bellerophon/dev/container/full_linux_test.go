package container

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

func TestAFullDiskIsAClearErrorAndLosesNothing(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		root := t.TempDir()
		if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size=256k"); err != nil {
			t.Skipf("a small file system cannot be mounted: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })
		e := newExecs(newLocal(t, shell), root)
		small := projectOf(file("a", "a", 0o644), file("b", "b", 0o644))
		if err := bring(t.Context(), e, place, small); err != nil {
			t.Fatal(err)
		}
		big := projectOf(file("a", "changed", 0o644), file("big", strings.Repeat("x", 1<<20), 0o644))
		for range 2 {
			err := bring(t.Context(), e, place, big)
			if !errors.Is(err, ErrDiskFull) || !strings.Contains(err.Error(), "container app of pod team/demo-1") {
				t.Errorf("Sync() = %v, want ErrDiskFull with the container's name", err)
			}
		}
		if err := bring(t.Context(), e, place, small); err != nil {
			t.Fatal(err)
		}
		compare(t, root, small.tree())
	})
}
