//go:build unix

package worktree_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
)

// disturb calls change again and again while check runs.
func disturb(t *testing.T, change func(), check func()) {
	t.Helper()
	group := lifecycle.New(t.Context())
	group.Go("disturbance", func(ctx context.Context) error {
		for ctx.Err() == nil {
			change()
		}
		return nil
	})
	check()
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// TestNoContentFromOutsideIsReadWhileALinkIsSwapped replaces a directory, a directory in it and a file by links, again
// and again. Some links lead out of the project, and others to an ignored directory in it.
func TestNoContentFromOutsideIsReadWhileALinkIsSwapped(t *testing.T) {
	base := t.TempDir()
	root, outside, parked := filepath.Join(base, "project"), filepath.Join(base, "outside"), filepath.Join(base, "parked")
	for _, directory := range []string{outside, filepath.Join(root, "ignored")} {
		write(t, directory, "file", "secret")
		write(t, directory, "inner/file", "secret")
	}
	write(t, root, "dir/file", "public")
	write(t, root, "dir/inner/file", "public")
	write(t, root, ".gitignore", "/ignored\n")
	project := open(t, root, worktree.Options{})
	until(t, project, "the files are listed", isListed)

	var snapshots []worktree.Snapshot
	watching := lifecycle.New(t.Context())
	watching.Go("snapshots", func(ctx context.Context) error {
		return streams.ForEach(ctx, project.Changes(), func(batch []worktree.Snapshot) { snapshots = append(snapshots, batch...) }, func(error) {})
	})
	targets := []string{outside, filepath.Join(root, "ignored"), "ignored", "../outside"}
	round := 0
	swap := func() {
		round++
		name, target := "dir", targets[round%len(targets)]
		switch round % 3 {
		case 1:
			name, target = "dir/inner", filepath.Join(target, "inner")
		case 2:
			name, target = "dir/file", filepath.Join(target, "file")
		}
		_ = os.Rename(filepath.Join(root, name), parked)
		_ = os.Symlink(target, filepath.Join(root, name))
		_ = os.Remove(filepath.Join(root, name))
		_ = os.Rename(parked, filepath.Join(root, name))
	}
	read, missed := 0, 0
	disturb(t, swap, func() {
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			contents, missing, err := project.Contents([]string{"dir/file", "dir/inner/file"})
			if err != nil {
				t.Fatal(err)
			}
			missed += len(missing)
			for _, content := range contents {
				if bytes.Contains(content.Data, []byte("secret")) {
					t.Fatalf("%s has %q from outside", content.Path, content.Data)
				}
				if !content.File.IsLink() {
					read++
				}
			}
		}
	})
	want := walk(t, root, func(string) bool { return false })
	delete(want, "ignored/file")
	delete(want, "ignored/inner/file")
	until(t, project, "the tree is the project", func(s worktree.Snapshot) bool { return maps.Equal(s.Tree, want) && len(s.Problems) == 0 })
	watching.Stop()
	if err := watching.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, snapshot := range snapshots {
		for name, file := range snapshot.Tree {
			if file.Sum == sum([]byte("secret")) {
				t.Fatalf("the tree had the file %s from outside", name)
			}
		}
	}
	if read == 0 || missed == 0 || len(snapshots) < 10 {
		t.Errorf("the attack shows nothing: %d files read, %d missed, %d trees", read, missed, len(snapshots))
	}
}

func TestFilesThatVanishAreLeftOutSilently(t *testing.T) {
	root := t.TempDir()
	write(t, root, "stays", "here")
	project := open(t, root, worktree.Options{})
	until(t, project, "the files are listed", isListed)
	read, missed := 0, 0
	vanish := func() {
		write(t, root, "deep/down/file", "now")
		_ = os.RemoveAll(filepath.Join(root, "deep"))
	}
	disturb(t, vanish, func() {
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			contents, missing, err := project.Contents([]string{"deep/down/file", "stays"})
			if err != nil {
				t.Fatal(err)
			}
			if problems := project.Snapshot().Problems; len(problems) > 0 {
				t.Fatalf("problems %q", problems)
			}
			read += len(contents) - 1
			missed += len(missing)
		}
	})
	until(t, project, "only one file is left", func(s worktree.Snapshot) bool { return slices.Equal(keys(s.Tree), []string{"stays"}) })
	if missed == 0 {
		t.Errorf("no file vanished: %d read", read)
	}
}

func TestAContentDescribesTheBytesThatWereRead(t *testing.T) {
	root := t.TempDir()
	write(t, root, "file", "")
	project := open(t, root, worktree.Options{})
	until(t, project, "the files are listed", isListed)
	round, sizes := 0, map[int]bool{}
	grow := func() {
		round++
		write(t, root, "file", strings.Repeat("x", round*1000%200000))
	}
	disturb(t, grow, func() {
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			contents, _, err := project.Contents([]string{"file"})
			if err != nil || len(contents) != 1 {
				t.Fatalf("read %d contents: %v", len(contents), err)
			}
			one := contents[0]
			if one.File.Sum != sum(one.Data) || one.File.Size != int64(len(one.Data)) || one.File.Mode != 0o644 {
				t.Fatalf("the file %v does not describe the %d bytes read", one.File, len(one.Data))
			}
			sizes[len(one.Data)] = true
		}
	})
	want := walk(t, root, func(string) bool { return false })
	until(t, project, "the tree is the project", func(s worktree.Snapshot) bool { return maps.Equal(s.Tree, want) })
	if len(sizes) < 2 {
		t.Error("the file did not change while it was read")
	}
}
