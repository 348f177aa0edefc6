package worktree_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
)

func TestFilesOverTheLimitAreProblemsUntilTheyShrink(t *testing.T) {
	root := t.TempDir()
	write(t, root, "large", strings.Repeat("x", 11))
	write(t, root, "small", strings.Repeat("x", 10))
	project := open(t, root, worktree.Options{MaxFileSize: 10})
	got := until(t, project, "the files are listed", isListed)
	want := "large: not synced: its size of 11 bytes is over the limit of 10; raise the limit with --max-file-size, or ignore the file"
	if !slices.Equal(got.Problems, []string{want}) || !slices.Equal(keys(got.Tree), []string{"small"}) {
		t.Errorf("the files are %q with the problems %q, want %q", keys(got.Tree), got.Problems, want)
	}
	if contents, missing, err := project.Contents([]string{"large"}); err != nil || len(contents) != 0 || !slices.Equal(missing, []string{"large"}) {
		t.Errorf("read %d contents, missing %q: %v", len(contents), missing, err)
	}
	write(t, root, "large", "x")
	until(t, project, "both files are synced", func(s worktree.Snapshot) bool { return len(s.Tree) == 2 && len(s.Problems) == 0 })
	write(t, root, "small", strings.Repeat("x", 12))
	until(t, project, "the other file is too large", func(s worktree.Snapshot) bool { return len(s.Tree) == 1 && len(s.Problems) == 1 })
}

func TestOptionsAndPathsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, size := range []int64{-1, 3 << 30} {
		if _, err := worktree.Open(t.TempDir(), worktree.Options{MaxFileSize: size}); err == nil || !strings.Contains(err.Error(), "--max-file-size") {
			t.Errorf("MaxFileSize %d: %v", size, err)
		}
	}
	if _, err := worktree.Open(filepath.Join(t.TempDir(), "missing"), worktree.Options{}); err == nil {
		t.Error("a directory that does not exist is opened")
	}
	project := open(t, t.TempDir(), worktree.Options{})
	for _, name := range []string{"", ".", "..", "../a", "/etc/passwd", "a/../../b"} {
		if _, _, err := project.Contents([]string{name}); err == nil {
			t.Errorf("%q is read", name)
		}
	}
}

func TestLinksStayInTheProject(t *testing.T) {
	for name, links := range map[string]map[string]bool{ // true for targets that may be synced
		"link":         {"file": true, "./dir/file": true, "missing": true, "dir": true, "..": false, "../file": false, "/etc/passwd": false, "dir/../file": false, "dir/../../file": false},
		"dir/sub/link": {"../file": true, "../../file": true, "../..": true, "../../../file": false, "../../..": false, "..//..//..//etc": false},
	} {
		for target, isInside := range links {
			t.Run(name+" to "+strings.ReplaceAll(target, "/", "|"), func(t *testing.T) {
				root := t.TempDir()
				write(t, root, "dir/sub/file", "")
				if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
					t.Fatal(err)
				}
				got := until(t, open(t, root, worktree.Options{}), "the files are listed", isListed)
				if file, synced := got.Tree[name]; synced != isInside || (synced && (file.Link != target || !file.IsLink())) {
					t.Errorf("the tree is %v", got.Tree)
				}
				hasProblem := len(got.Problems) == 1 && strings.HasPrefix(got.Problems[0], name+": ") && strings.Contains(got.Problems[0], target)
				if hasProblem == isInside {
					t.Errorf("the problems are %q", got.Problems)
				}
			})
		}
	}
}

func TestPatternsOfOdoignoreTakeEffectAtOnce(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a.txt", "b.log", "c.tmp", "d/e.log"} {
		write(t, root, name, "")
	}
	project := open(t, root, worktree.Options{Ignore: []string{"*.tmp"}})
	has := func(names ...string) {
		t.Helper()
		until(t, project, fmt.Sprintf("the files are %q", names), func(s worktree.Snapshot) bool { return s.Listed && slices.Equal(keys(s.Tree), names) })
	}
	has("a.txt", "b.log", "d/e.log")
	write(t, root, ".odoignore", "*.log\n")
	has(".odoignore", "a.txt")
	write(t, root, ".odoignore", "/*.log\n")
	has(".odoignore", "a.txt", "d/e.log")
	if err := os.Remove(filepath.Join(root, ".odoignore")); err != nil {
		t.Fatal(err)
	}
	has("a.txt", "b.log", "d/e.log")
}

// TestADirectoryThatIsReplacedIsNotAnEmptyProject checks that the files stay in the tree while the directory is missing,
// so that no copy is emptied.
func TestADirectoryThatIsReplacedIsNotAnEmptyProject(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "project")
	write(t, root, "a", "1")
	write(t, root, "b/c", "2")
	project := open(t, root, worktree.Options{})
	before := until(t, project, "the files are listed", isListed)
	if err := os.Rename(root, filepath.Join(base, "moved")); err != nil {
		t.Fatal(err)
	}
	gone := until(t, project, "the directory is missing", func(s worktree.Snapshot) bool { return !s.Listed && len(s.Problems) == 1 })
	if !maps.Equal(gone.Tree, before.Tree) {
		t.Errorf("without its directory the tree is %v", gone.Tree)
	}
	write(t, filepath.Join(base, "other"), "b/c", "other")
	if err := os.Rename(filepath.Join(base, "other"), root); err != nil {
		t.Fatal(err)
	}
	until(t, project, "the tree is the new directory", func(s worktree.Snapshot) bool {
		return s.Listed && len(s.Problems) == 0 && maps.Equal(s.Tree, walk(t, root, func(string) bool { return false }))
	})
	contents, _, err := project.Contents([]string{"b/c"})
	if err != nil || len(contents) != 1 || string(contents[0].Data) != "other" {
		t.Errorf("read %v: %v", contents, err)
	}
}

func TestNamesThatAreNotUTF8AreProblems(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a\xff"), nil, 0o644); err != nil {
		t.Skip("the file system refuses the name:", err)
	}
	got := until(t, open(t, root, worktree.Options{}), "the files are listed", isListed)
	if len(got.Tree) != 0 || len(got.Problems) != 1 {
		t.Errorf("the tree is %v, with the problems %q", got.Tree, got.Problems)
	}
}

// fill writes 5,000 files of a few kilobytes in 50 directories.
func fill(b *testing.B, root string, content string) {
	for i := range 5000 {
		write(b, root, fmt.Sprintf("pkg%02d/sub/file%04d.go", i%50, i), strings.Repeat(content, 500))
	}
}

func BenchmarkFirstListOf5000Files(b *testing.B) {
	root := b.TempDir()
	fill(b, root, "content")
	for b.Loop() {
		project, err := worktree.Open(root, worktree.Options{})
		if err != nil {
			b.Fatal(err)
		}
		until(b, project, "the files are listed", isListed)
		if err := project.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSwitchOf5000Files measures from the last change to the tree that has them all, after each file was replaced
// as git does.
func BenchmarkSwitchOf5000Files(b *testing.B) {
	root := b.TempDir()
	fill(b, root, "content")
	project, err := worktree.Open(root, worktree.Options{})
	if err != nil {
		b.Fatal(err)
	}
	until(b, project, "the files are listed", isListed)
	var total, writing time.Duration
	round := 0
	for b.Loop() {
		round++
		began := time.Now()
		content := strings.Repeat(fmt.Sprintf("round%d;", round), 500)
		for name := range project.Snapshot().Tree {
			full := filepath.Join(root, filepath.FromSlash(name))
			if err := os.Remove(full); err != nil {
				b.Fatal(err)
			}
			write(b, root, name, content)
		}
		written := time.Now()
		want := sum([]byte(content))
		until(b, project, "all files are new", func(s worktree.Snapshot) bool {
			if len(s.Tree) != 5000 {
				return false
			}
			for _, file := range s.Tree {
				if file.Sum != want {
					return false
				}
			}
			return true
		})
		writing += written.Sub(began)
		total += time.Since(written)
	}
	b.ReportMetric(writing.Seconds()/float64(round)*1000, "ms-writing/op")
	b.ReportMetric(total.Seconds()/float64(round)*1000, "ms-after/op")
	if err := project.Close(); err != nil {
		b.Fatal(err)
	}
}
