package container

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
)

func sum(data string) string {
	hash := sha256.Sum256([]byte(data))
	return hex.EncodeToString(hash[:])
}

func describe(tree worktree.Tree, name string) string {
	file, is := tree[name]
	if !is {
		return "missing"
	}
	return fmt.Sprintf("%v %d bytes %.8s %q", file.Mode, file.Size, file.Sum, file.Link)
}

func put(t testing.TB, root, name, data string) {
	t.Helper()
	target := filepath.Join(root, projectDirectory, name)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestASyncMakesTheDirectoryEqualToTheTree(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		root := t.TempDir()
		e := newExecs(newLocal(t, shell), root)
		long := strings.Repeat("long-directory/", 30) + strings.Repeat("f", 200)
		first := projectOf(
			file("main.go", "package main", 0o644),
			file("run.sh", "#!/bin/sh", 0o755),
			file("secret", "x", 0o400),
			file("empty", "", 0o666),
			file("-rf", "dash", 0o644),
			file("a b/ c'd\"e$(x)`y`*?[z]\\n", "odd", 0o644),
			file(" leading and trailing ", "spaces", 0o644),
			file("tab\there\r", "tab", 0o644),
			file("ünïcode/日本", "unicode", 0o644),
			file(long, "long", 0o644),
			file(".hidden/.file", "hidden", 0o600),
			file("...", "dots", 0o644),
			file("binary", "\x00\x01\xff\n\r\n", 0o644),
			link("to-main", "main.go"),
			link("out", "/etc/hostname"),
			link("up", "../../x"),
			link("dangling 'q'", strings.Repeat("d/", 100)+"ü"),
		)
		began := time.Now()
		if err := bring(t.Context(), e, place, first); err != nil {
			t.Fatal(err)
		}
		compare(t, root, first.tree())
		// The clock of this machine may be behind the node's. A file with its time could look older than the last build.
		info, err := os.Stat(filepath.Join(root, projectDirectory, "main.go"))
		if err != nil || info.ModTime().Before(began.Truncate(time.Second)) {
			t.Errorf("main.go was modified at %v (%v), before the sync at %v", info.ModTime(), err, began)
		}
		has, err := newExecs(newLocal(t, shell), root).Held(t.Context(), place)
		if err != nil || has.Root() != first.tree().Root() {
			t.Errorf("Held() = %v, %v, want the tree", has, err)
		}
		second := maps.Clone(first)
		for _, name := range []string{"-rf", "a b/ c'd\"e$(x)`y`*?[z]\\n", long, "out", ".hidden/.file", "..."} {
			delete(second, name)
		}
		second["run.sh"] = file("run.sh", "#!/bin/sh\ntrue", 0o700)
		second["main.go"] = link("main.go", "run.sh")
		second["to-main"] = file("to-main", "a file", 0o644)
		if err := bring(t.Context(), e, place, second); err != nil {
			t.Fatal(err)
		}
		compare(t, root, second.tree())
		if _, err := os.Lstat(filepath.Join(root, projectDirectory, "long-directory")); err == nil {
			t.Error("the directories of a removed file are still there")
		}
	})
}

func TestFilesThatWereNotSyncedStay(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		root := t.TempDir()
		e := newExecs(newLocal(t, shell), root)
		if err := bring(t.Context(), e, place, projectOf(file("src/a.go", "a", 0o644), file("src/sub/b.go", "b", 0o644))); err != nil {
			t.Fatal(err)
		}
		put(t, root, "src/a.o", "object")
		put(t, root, "bin/app", "program")
		want := projectOf(file("src/c.go", "c", 0o644))
		if err := bring(t.Context(), e, place, want); err != nil {
			t.Fatal(err)
		}
		tree := want.tree()
		tree["src/a.o"] = file("", "object", 0o644).File
		tree["bin/app"] = file("", "program", 0o644).File
		compare(t, root, tree)
	})
}

func TestAThingInTheWayOfAFileIsRemoved(t *testing.T) {
	outside := func(t *testing.T, root string) string {
		path := filepath.Join(root, "outside")
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "b"), []byte("keep"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, test := range map[string]struct {
		before   project
		obstacle func(t *testing.T, root string)
		want     project
	}{
		"file to directory":           {projectOf(file("a", "1", 0o644)), nil, projectOf(file("a/b", "2", 0o644))},
		"directory to file":           {projectOf(file("a/b/c", "1", 0o644)), nil, projectOf(file("a", "2", 0o644))},
		"link to directory":           {projectOf(link("a", "x"), file("x/b", "x", 0o644)), nil, projectOf(file("a/b", "2", 0o644), file("x/b", "x", 0o644))},
		"directory to link":           {projectOf(file("a/b", "1", 0o644), file("x/b", "x", 0o644)), nil, projectOf(link("a", "x"), file("x/b", "x", 0o644))},
		"file to link":                {projectOf(file("a", "1", 0o644), file("x", "x", 0o644)), nil, projectOf(link("a", "x"), file("x", "x", 0o644))},
		"link to file":                {projectOf(link("a", "x"), file("x", "x", 0o644)), nil, projectOf(file("a", "1", 0o644), file("x", "x", 0o644))},
		"directory with results":      {projectOf(file("a/b", "1", 0o644)), func(t *testing.T, root string) { put(t, root, "a/result", "r") }, projectOf(file("a", "2", 0o644))},
		"untracked file as parent":    {projectOf(), func(t *testing.T, root string) { put(t, root, "a", "r") }, projectOf(file("a/b", "2", 0o644))},
		"untracked directory as file": {projectOf(), func(t *testing.T, root string) { put(t, root, "a/b/c", "r") }, projectOf(file("a", "2", 0o644), link("l", "a"))},
		"untracked link as parent": {projectOf(file("z", "z", 0o644)), func(t *testing.T, root string) {
			if err := os.Symlink(outside(t, root), filepath.Join(root, projectDirectory, "a")); err != nil {
				t.Fatal(err)
			}
		}, projectOf(file("a/b", "2", 0o644))},
		"link in place of a removed directory": {projectOf(file("a/b", "z", 0o644)), func(t *testing.T, root string) {
			if err := os.RemoveAll(filepath.Join(root, projectDirectory, "a")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside(t, root), filepath.Join(root, projectDirectory, "a")); err != nil {
				t.Fatal(err)
			}
		}, projectOf(file("c", "2", 0o644))},
	} {
		t.Run(name, func(t *testing.T) {
			eachShell(t, func(t *testing.T, shell []string) {
				root := t.TempDir()
				kept := filepath.Join(outside(t, root), "b")
				e := newExecs(newLocal(t, shell), root)
				if err := bring(t.Context(), e, place, test.before); err != nil {
					t.Fatal(err)
				}
				if test.obstacle != nil {
					test.obstacle(t, root)
				}
				if err := bring(t.Context(), e, place, test.want); err != nil {
					t.Fatal(err)
				}
				compare(t, root, test.want.tree())
				if data, err := os.ReadFile(kept); err != nil || string(data) != "keep" {
					t.Errorf("a file outside the project is now %q, %v", data, err)
				}
			})
		})
	}
}

func TestANameThatCannotBeSyncedIsAnError(t *testing.T) {
	e := newExecs(newLocal(t, []string{"sh"}), t.TempDir())
	for _, bad := range []worktree.Content{
		file("a\nb", "x", 0o644), file("../x", "x", 0o644), file("/x", "x", 0o644), file("a\xff", "x", 0o644), link("l", "\xff"),
	} {
		if err := bring(t.Context(), e, place, projectOf(bad)); !errors.Is(err, ErrName) {
			t.Errorf("the sync of %q returns %v, want ErrName", bad.Path, err)
		}
	}
}

func TestADamagedListOfFilesIsRepairedByTheNextSync(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		root := t.TempDir()
		e := newExecs(newLocal(t, shell), root)
		if err := bring(t.Context(), e, place, projectOf(file("old/a", "a", 0o644), file(".b", "b", 0o644))); err != nil {
			t.Fatal(err)
		}
		for _, damage := range []string{"", "{", "null"} {
			put(t, root, "..result", "r")
			if err := os.WriteFile(filepath.Join(root, StateDirectory, "manifest"), []byte(damage), 0o644); err != nil {
				t.Fatal(err)
			}
			want := projectOf(file("new"+damage, "n", 0o644))
			if err := bring(t.Context(), e, place, want); err != nil {
				t.Fatal(err)
			}
			compare(t, root, want.tree())
		}
	})
}

func TestASyncThatIsBasedOnOldFilesChangesNothing(t *testing.T) {
	root := t.TempDir()
	old, other := newExecs(newLocal(t, []string{"sh"}), root), newExecs(newLocal(t, []string{"sh"}), root)
	if _, err := old.Held(t.Context(), place); err != nil {
		t.Fatal(err)
	}
	want := projectOf(file("a", "new", 0o644))
	if err := bring(t.Context(), other, place, want); err != nil {
		t.Fatal(err)
	}
	stale := projectOf(file("b", "stale", 0o644))
	sync := func() error {
		return old.Sync(t.Context(), place, worktree.Change{Send: []string{"b"}}, stale.contents([]string{"b"}), stale.tree())
	}
	for range 2 {
		if err := sync(); !errors.Is(err, errStale) {
			t.Errorf("Sync() = %v, want errStale", err)
		}
		compare(t, root, want.tree())
	}
}

func TestAnImageWithoutTarIsAClearError(t *testing.T) {
	root, bin := t.TempDir(), t.TempDir()
	for _, program := range []string{"sh", "mkdir", "cat", "mv", "rm", "rmdir"} {
		for _, directory := range []string{"/bin/", "/usr/bin/"} {
			if _, err := os.Stat(directory + program); err == nil {
				_ = os.Symlink(directory+program, filepath.Join(bin, program))
			}
		}
	}
	t.Setenv("PATH", bin)
	err := bring(t.Context(), newExecs(newLocal(t, []string{"sh"}), root), place, projectOf(file("a", "a", 0o644)))
	if !errors.Is(err, ErrNoTar) || !strings.Contains(err.Error(), "container app of pod team/demo-1") {
		t.Errorf("Sync() = %v, want ErrNoTar with the container's name", err)
	}
}

func Test5000FilesAreSynced(t *testing.T) {
	root := t.TempDir()
	e := newExecs(newLocal(t, []string{"sh"}), root)
	want := project{}
	for i := range 5000 {
		name := fmt.Sprintf("internal/package-%03d/some/directory/file-number-%04d.go", i/20, i)
		want[name] = file(name, strings.Repeat(name, 20), 0o644)
	}
	for _, round := range []string{"first sync", "sync of one file", "removal of all"} {
		switch round {
		case "sync of one file":
			want["new"] = file("new", "n", 0o644)
		case "removal of all":
			want = projectOf(file("only", "o", 0o644))
		}
		began := time.Now()
		if err := bring(t.Context(), e, place, want); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v", round, time.Since(began))
	}
	compare(t, root, want.tree())
}
