//go:build unix

package worktree_test

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"pgregory.net/rapid"
)

var names = []string{"a", "b", "c", "x.log"}

func randomPath(rt *rapid.T) string {
	return path.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 3).Draw(rt, "path")...)
}

// operate applies a random operation to a tree. The operation may fail. Writing may follow a link, so no link leads
// out of the test's own directory, which is three levels above the tree.
func operate(rt *rapid.T, root string, number int) {
	name := filepath.Join(root, randomPath(rt))
	text := fmt.Appendf(nil, "%07d", number) // All contents have one length, so that only the time differs.
	switch rapid.SampledFrom([]string{"write", "write", "append", "mkdir", "remove", "rename", "replace", "mode", "link", "fifo", "large"}).Draw(rt, "operation") {
	case "write":
		_ = os.MkdirAll(filepath.Dir(name), 0o755)
		put(name, os.O_CREATE|os.O_TRUNC, text)
	case "append":
		put(name, os.O_APPEND, text)
	case "mkdir":
		_ = os.MkdirAll(name, 0o755)
	case "remove":
		if _, err := os.Lstat(name); err == nil { // RemoveAll would open a FIFO above the name, and wait.
			_ = os.RemoveAll(name)
		}
	case "rename":
		_ = os.Rename(name, filepath.Join(root, randomPath(rt)))
	case "replace": // As editors save files.
		put(name+"~", os.O_CREATE|os.O_TRUNC, text)
		if os.Rename(name+"~", name) != nil {
			_ = os.Remove(name + "~")
		}
	case "mode":
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
			_ = os.Chmod(name, rapid.SampledFrom([]os.FileMode{0o600, 0o644, 0o755, 0o444}).Draw(rt, "mode"))
		}
	case "link":
		_ = os.Symlink(rapid.SampledFrom([]string{"a", "b", "../a", "../../b", "/missing/target", "../../../outside", "a/../b"}).Draw(rt, "target"), name)
	case "fifo":
		_ = syscall.Mkfifo(name, 0o644)
	case "large":
		put(name, os.O_CREATE|os.O_TRUNC, make([]byte, 101))
	}
}

// put writes to a file. Opening a FIFO fails at once.
func put(name string, flags int, content []byte) {
	file, err := os.OpenFile(name, flags|os.O_WRONLY|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return
	}
	_, _ = file.Write(content)
	_ = file.Close()
}

// expected returns the tree that a project has to have, and the number of problems.
func expected(t failer, root string) (worktree.Tree, int) {
	tree := walk(t, root, func(name string) bool { return strings.HasSuffix(name, ".log") })
	problems := 0
	maps.DeleteFunc(tree, func(name string, file worktree.File) bool {
		outside := path.IsAbs(file.Link) || strings.HasPrefix(path.Join(path.Dir(name), file.Link), "..") || file.Link == "a/../b"
		if file.Size > 100 || (file.IsLink() && outside) {
			problems++
			return true
		}
		return false
	})
	return tree, problems
}

// TestATreeIsTheProjectAfterRandomChanges compares with a naive walk. It does so twice, to check that no pending event
// undoes the result.
func TestATreeIsTheProjectAfterRandomChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		base, err := os.MkdirTemp(t.TempDir(), "base")
		if err != nil {
			rt.Fatal(err)
		}
		root := filepath.Join(base, "above", "tree")
		if err := os.MkdirAll(root, 0o755); err != nil {
			rt.Fatal(err)
		}
		for i := range rapid.IntRange(0, 10).Draw(rt, "operations before") {
			operate(rt, root, i)
		}
		project, err := worktree.Open(root, worktree.Options{Ignore: []string{"*.log"}, MaxFileSize: 100})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() {
			if err := project.Close(); err != nil {
				rt.Fatal(err)
			}
		}()
		for i := range rapid.IntRange(1, 60).Draw(rt, "operations") {
			operate(rt, root, 1000+i)
			<-time.After(rapid.SampledFrom([]time.Duration{0, 0, 0, 50, 300, 3000}).Draw(rt, "microseconds") * time.Microsecond)
		}
		for round := range 2 {
			write(rt, root, fmt.Sprintf("marker-%d", round), "")
			want, problems := expected(rt, root)
			got := until(rt, project, fmt.Sprintf("the tree is %v with %d problems", want, problems), func(s worktree.Snapshot) bool {
				return s.Listed && maps.Equal(s.Tree, want) && len(s.Problems) == problems
			})
			contents, missing, err := project.Contents(keys(got.Tree))
			if err != nil || len(missing) > 0 {
				rt.Fatalf("reading the contents: %v, missing %q", err, missing)
			}
			for _, content := range contents {
				if content.File != want[content.Path] || (!content.File.IsLink() && sum(content.Data) != content.File.Sum) {
					rt.Fatalf("the content of %s is %q, and its file %v, want %v", content.Path, content.Data, content.File, want[content.Path])
				}
			}
		}
	})
}
