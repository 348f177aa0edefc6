package sources

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fsnotify/fsnotify"
)

// TestAWatchWithTwoNamesIsRemovedUnderBoth is about a panic of fsnotify 1.10.1. A link whose target changes leads to it
// here. A directory that takes the place of another one does so only until fsnotify has read the kernel's notification.
func TestAWatchWithTwoNamesIsRemovedUnderBoth(t *testing.T) {
	root := t.TempDir()
	info, err := os.Stat(root)
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	tree := newFileTree(root, &fileWatch{}, watcher, info)
	at := func(name string) string { return filepath.Join(root, name) }
	for _, step := range []func() error{
		func() error { return os.Mkdir(at("one"), 0o755) },
		func() error { return os.Mkdir(at("two"), 0o755) },
		func() error { return os.Symlink("two", at("link")) },
		func() error { return watcher.Add(at("one")) },
		func() error { return watcher.Add(at("link")) },
		func() error { return os.Remove(at("link")) },
		func() error { return os.Symlink("one", at("link")) },
		func() error { return watcher.Add(at("link")) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	tree.unwatch("link")
	if !tree.broken {
		t.Error("fsnotify does not panic any more; remove the recovery in unwatch")
	}
}
