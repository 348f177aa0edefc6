//go:build unix

package worktree_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
)

const unprivileged = "WORKTREE_UNPRIVILEGED"

// TestFilesThatCannotBeReadAreProblems runs itself in a process of another user if this one is root, who may read
// everything.
func TestFilesThatCannotBeReadAreProblems(t *testing.T) {
	root := os.Getenv(unprivileged)
	if root == "" && os.Geteuid() == 0 {
		root = t.TempDir()
		for _, directory := range []string{filepath.Dir(root), root} {
			if err := os.Chmod(directory, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v")
		command.Env = append(os.Environ(), unprivileged+"="+root)
		if said, err := command.CombinedOutput(); err != nil || !strings.Contains(string(said), "PASS: "+t.Name()) {
			t.Fatalf("%v\n%s", err, said)
		}
		return
	}
	if root == "" {
		root = t.TempDir()
	} else if err := syscall.Setuid(65534); err != nil {
		t.Fatal("the user cannot be changed:", err)
	}
	write(t, root, "open", "")
	write(t, root, "secret", "")
	write(t, root, "dir/inner", "")
	mode := func(name string, mode os.FileMode) {
		if err := os.Chmod(filepath.Join(root, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	mode("secret", 0)
	mode("dir", 0)
	defer mode("dir", 0o755) // It has to be removed.
	project := open(t, root, worktree.Options{})
	got := until(t, project, "there are two problems", func(s worktree.Snapshot) bool { return s.Listed && len(s.Problems) == 2 })
	if !slices.Equal(keys(got.Tree), []string{"open"}) || !strings.Contains(got.Problems[1], "dir: ") ||
		got.Problems[0] != "secret: not synced: permission denied; change its permissions, or ignore it" {
		t.Errorf("the files are %q, with the problems %q", keys(got.Tree), got.Problems)
	}
	mode("secret", 0o600)
	mode("dir", 0o755)
	until(t, project, "all files are in the tree", func(s worktree.Snapshot) bool { return len(s.Tree) == 3 && len(s.Problems) == 0 })

	mode("dir", 0) // No event follows for the files in it.
	if _, missing, err := project.Contents([]string{"dir/inner", "open"}); err != nil || !slices.Equal(missing, []string{"dir/inner"}) {
		t.Errorf("missing are %q: %v", missing, err)
	}
	until(t, project, "the file is a problem", func(s worktree.Snapshot) bool { return len(s.Tree) == 2 && len(s.Problems) == 1 })
}
