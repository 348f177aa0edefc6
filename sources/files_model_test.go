package sources_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/sources"
	"pgregory.net/rapid"
)

// git runs git with no settings except the settings in the tree.
func git(t fataler, root, input string, args ...string) string {
	t.Helper()
	command := exec.Command("git", args...)
	command.Dir = root
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	command.Stdin = strings.NewReader(input)
	var failure bytes.Buffer
	command.Stderr = &failure
	output, err := command.Output()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, failure.String())
	}
	return string(output)
}

// visible returns the files that git sees in a tree, as content by path.
func visible(t fataler, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	listed := git(t, root, "", "ls-files", "--others", "--exclude-standard", "-z")
	for name := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		if name != "" {
			files[name] = content(filepath.Join(root, name))
		}
	}
	return files
}

var (
	names    = []string{"a", "b", "c", "x.log"}
	patterns = []string{"", "*.log", "a/", "/b", "c\n!c/a", "**/b/a", "a/**\n!a/b", "b/*\n!b/c", "[a-b]", "!x.log", "*\n!*/\n!a"}
)

// randomPath returns a path of up to three names. There are few names, so that operations meet.
func randomPath(rt *rapid.T) string {
	return filepath.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 3).Draw(rt, "path")...)
}

// operate applies a random operation to a tree. The operation may fail.
func operate(rt *rapid.T, root string, number int) {
	name := filepath.Join(root, randomPath(rt))
	text := []byte(fmt.Sprintf("%07d", number)) // All contents have one length, so that only the time differs.
	switch rapid.SampledFrom([]string{"write", "write", "mkdir", "remove", "rename", "replace", "ignore", "link"}).Draw(rt, "operation") {
	case "write":
		_ = os.MkdirAll(filepath.Dir(name), 0o755)
		_ = os.WriteFile(name, text, 0o644)
	case "mkdir":
		_ = os.MkdirAll(name, 0o755)
	case "remove":
		_ = os.RemoveAll(name)
	case "rename":
		_ = os.Rename(name, filepath.Join(root, randomPath(rt)))
	case "replace": // As editors save files.
		if os.WriteFile(name+"~", text, 0o644) == nil && os.Rename(name+"~", name) != nil {
			_ = os.Remove(name + "~")
		}
	case "ignore":
		pattern := rapid.SampledFrom(patterns).Draw(rt, "pattern")
		_ = os.WriteFile(filepath.Join(filepath.Dir(name), ".gitignore"), []byte(pattern), 0o644)
	case "link":
		_ = os.Symlink(rapid.SampledFrom(names).Draw(rt, "target"), name)
	}
}

// TestFoldingTheEventsOfFilesComesToTheTree changes a tree at random, at random times, while it is
// watched. Git lists the expected tree. Then the test continues, to check that no pending
// notification undoes the result.
func TestFoldingTheEventsOfFilesComesToTheTree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp(t.TempDir(), "tree")
		if err != nil {
			rt.Fatal(err)
		}
		git(rt, root, "", "init", "--quiet", "--template=")
		before := rapid.IntRange(0, 10).Draw(rt, "operations before")
		for i := range before {
			operate(rt, root, i)
		}
		f := fold(t, root, sources.FilesOptions{})
		defer f.stop()
		for i := range rapid.IntRange(1, 60).Draw(rt, "operations") {
			operate(rt, root, 1000+i)
			f.pause(rt, rapid.SampledFrom([]time.Duration{0, 0, 0, 50, 300, 3000}).Draw(rt, "microseconds"))
		}
		for round := range 2 {
			marker := fmt.Sprintf("%d-marker", round)
			_ = os.Remove(filepath.Join(root, ".gitignore"))
			if err := os.WriteFile(filepath.Join(root, marker), nil, 0o644); err != nil {
				rt.Fatal(err)
			}
			want := visible(rt, root)
			f.until(rt, fmt.Sprintf("%q", want), func() bool { return f.listed == nil && maps.Equal(f.files, want) })
		}
		if len(f.errs) > 0 {
			rt.Fatalf("errors: %v", f.errs)
		}
	})
}

// pause takes events for some microseconds.
func (f *folding) pause(t fataler, microseconds time.Duration) {
	end := time.After(microseconds * time.Microsecond)
	for {
		select {
		case item := <-f.items:
			f.take(t, item)
		case <-end:
			return
		}
	}
}

// TestIgnoringAgreesWithGit creates trees with random .gitignore files and compares the list with
// git's.
func TestIgnoringAgreesWithGit(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "ab", "*", "**", "?", "a*", "*b", "[ab]", "[!a]", "a.b", "{a,b}", `\a`, `\!a`, `\#a`, "a**b", "[a", "a b", "."})
	line := rapid.Custom(func(rt *rapid.T) string {
		return rapid.SampledFrom([]string{"", "", "", "!", "#"}).Draw(rt, "before") +
			rapid.SampledFrom([]string{"", "", "/"}).Draw(rt, "anchor") +
			strings.Join(rapid.SliceOfN(part, 1, 3).Draw(rt, "parts"), "/") +
			rapid.SampledFrom([]string{"", "", "/", " ", `\ `, "\r"}).Draw(rt, "after")
	})
	file := rapid.SampledFrom([]string{"a", "b", "ab", "a.b", "c", "{a,b}", "!a", "#a", "a b", "a "})
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp(t.TempDir(), "tree")
		if err != nil {
			rt.Fatal(err)
		}
		git(rt, root, "", "init", "--quiet", "--template=")
		for _, parts := range rapid.SliceOfN(rapid.SliceOfN(file, 1, 4), 1, 20).Draw(rt, "files") {
			name := filepath.Join(root, filepath.Join(parts...))
			_ = os.MkdirAll(filepath.Dir(name), 0o755)
			_ = os.WriteFile(name, nil, 0o644)
		}
		for _, folder := range []string{"", "a", "a/b"} {
			lines := rapid.SliceOfN(line, 0, 3).Draw(rt, "lines")
			_ = os.WriteFile(filepath.Join(root, folder, ".gitignore"), []byte(strings.Join(lines, "\n")), 0o644)
		}
		f := fold(t, root, sources.FilesOptions{})
		defer f.stop()
		f.until(rt, "the list", f.isEmitted("FilesListEnd"))
		got, want := slices.Sorted(maps.Keys(f.files)), slices.Sorted(maps.Keys(visible(rt, root)))
		if !slices.Equal(got, want) {
			rt.Fatalf("got %q, git has %q", got, want)
		}
	})
}
