package worktree_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/streams"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// failer is a testing.TB or a rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, arguments ...any)
}

// open opens a project until the test has ended.
func open(t *testing.T, directory string, options worktree.Options) *worktree.Project {
	t.Helper()
	project, err := worktree.Open(directory, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := project.Close(); err != nil {
			t.Error(err)
		}
	})
	return project
}

// until waits until the state of a project has a property.
func until(t failer, project *worktree.Project, what string, holds func(worktree.Snapshot) bool) worktree.Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var last worktree.Snapshot
	held := false
	err := streams.ForEach(ctx, project.Changes(), func(snapshots []worktree.Snapshot) {
		for _, snapshot := range snapshots {
			if !held {
				last, held = snapshot, holds(snapshot)
			}
		}
		if held {
			cancel()
		}
	}, func(err error) { t.Fatalf("following: %v", err) })
	if err != nil || !held {
		t.Fatalf("not within 20 s: %s (%v); the last state is listed: %t, %d files %v, problems %q", what, err, last.Listed, len(last.Tree), last.Tree, last.Problems)
	}
	return last
}

func keys(tree worktree.Tree) []string { return slices.Sorted(maps.Keys(tree)) }

func isListed(s worktree.Snapshot) bool { return s.Listed }

func write(t failer, directory, name, content string) {
	t.Helper()
	full := filepath.Join(directory, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		t.Fatalf("%v", err)
	}
}

func sum(content []byte) string {
	hashed := sha256.Sum256(content)
	return hex.EncodeToString(hashed[:])
}

// walk reads a tree in the simplest way. Nothing else may change it.
func walk(t failer, directory string, isIgnored func(name string) bool) worktree.Tree {
	t.Helper()
	tree := worktree.Tree{}
	err := filepath.WalkDir(directory, func(full string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && isIgnored(entry.Name()) && entry.IsDir():
			return filepath.SkipDir
		case err != nil || entry.IsDir() || isIgnored(entry.Name()):
			return err
		}
		relative, err := filepath.Rel(directory, full)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		if entry.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(full)
			tree[name] = worktree.File{Mode: fs.ModeSymlink | fs.ModePerm, Link: target}
			return err
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		info, err := os.Stat(full)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(full)
		tree[name] = worktree.File{Mode: info.Mode().Perm(), Size: int64(len(content)), Sum: sum(content)}
		return err
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return tree
}
