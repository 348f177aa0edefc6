package sources_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
)

// folding observes Files and folds its events into files. It has no other knowledge of the tree,
// and reads a file when an event reports it.
type folding struct {
	root    string
	items   <-chan any // []sources.FileEvent or an error
	stop    func()
	files   map[string]string // content by path
	listed  map[string]string // the files of the list in flight
	emitted []string          // "FileCreated a/b", ...
	errs    []error
}

func fold(t *testing.T, root string, options sources.FilesOptions) *folding {
	t.Helper()
	items := make(chan any)
	group := lifecycle.New(t.Context())
	group.Go("observer", func(ctx context.Context) error {
		hand := func(item any) {
			select {
			case items <- item:
			case <-ctx.Done():
			}
		}
		return streams.ForEach(ctx, sources.Files(root, options),
			func(events []sources.FileEvent) { hand(events) }, func(err error) { hand(err) })
	})
	f := &folding{root: root, files: map[string]string{}, items: items}
	f.stop = func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(f.stop)
	return f
}

// until folds events until a condition holds.
func (f *folding) until(t fataler, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case item := <-f.items:
			f.take(t, item)
		case <-deadline:
			t.Fatalf("waiting for %s: timed out; files %q, events %q, errors %v", what, slices.Sorted(maps.Keys(f.files)), f.emitted, f.errs)
		}
	}
}

// fataler is a testing.T or a rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func (f *folding) take(t fataler, item any) {
	t.Helper()
	if err, failed := item.(error); failed {
		f.errs = append(f.errs, err)
		return
	}
	for _, event := range item.([]sources.FileEvent) {
		f.emitted = append(f.emitted, strings.TrimSpace(event.Type.String()+" "+event.Path))
		if inList := event.Type == sources.FileListed || event.Type == sources.FilesListEnd; inList != (f.listed != nil) {
			t.Fatalf("%v in the wrong place: %q", event, f.emitted)
		}
		_, known := f.files[event.Path]
		switch event.Type {
		case sources.FilesListStart:
			f.listed = map[string]string{}
		case sources.FileListed:
			f.listed[event.Path] = f.read(event.Path)
		case sources.FilesListEnd:
			f.files, f.listed = f.listed, nil
		case sources.FileCreated, sources.FileModified:
			if known == (event.Type == sources.FileCreated) {
				t.Fatalf("%v, but known is %v: %q", event, known, f.emitted)
			}
			f.files[event.Path] = f.read(event.Path)
		case sources.FileRemoved:
			if !known {
				t.Fatalf("%v of a file that was never reported: %q", event, f.emitted)
			}
			delete(f.files, event.Path)
		}
	}
}

func (f *folding) read(name string) string { return content(filepath.Join(f.root, name)) }

// content returns the content of a file, or the target of a link.
func content(name string) string {
	if target, err := os.Readlink(name); err == nil {
		return "-> " + target
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return "gone"
	}
	return string(data)
}

func (f *folding) isEmitted(line string) func() bool {
	return func() bool { return slices.Contains(f.emitted, line) }
}

// expect waits until the folded files are exactly these, as "path=content".
func (f *folding) expect(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	f.until(t, fmt.Sprintf("%q", want), func() bool {
		var got []string
		for name, content := range f.files {
			got = append(got, name+"="+content)
		}
		slices.Sort(got)
		return f.listed == nil && slices.Equal(got, want)
	})
}

func put(t *testing.T, root, name, content string) {
	t.Helper()
	name = filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesListsAndThenTellsOfChanges(t *testing.T) {
	root := t.TempDir()
	put(t, root, "b/c", "1")
	put(t, root, "a", "1")
	f := fold(t, root, sources.FilesOptions{})
	f.expect(t, "a=1", "b/c=1")
	if want := []string{"FilesListStart", "FileListed a", "FileListed b/c", "FilesListEnd"}; !slices.Equal(f.emitted, want) {
		t.Errorf("the events are %q, want %q", f.emitted, want)
	}
	put(t, root, "a", "2")
	f.expect(t, "a=2", "b/c=1")
	put(t, root, "x/y/z", "1") // Created faster than anything can be watched.
	f.expect(t, "a=2", "b/c=1", "x/y/z=1")
	put(t, root, "x/y/z", "2")
	f.expect(t, "a=2", "b/c=1", "x/y/z=2")
	must(t, os.Remove(filepath.Join(root, "a")))
	must(t, os.RemoveAll(filepath.Join(root, "b")))
	f.expect(t, "x/y/z=2")
	if len(f.errs) > 0 {
		t.Errorf("errors: %v", f.errs)
	}
}

func TestFilesFollowsRenames(t *testing.T) {
	root := t.TempDir()
	put(t, root, "a", "1")
	put(t, root, "b", "2")
	put(t, root, "d/e/f", "3")
	rename := func(from, to string) { must(t, os.Rename(filepath.Join(root, from), filepath.Join(root, to))) }
	f := fold(t, root, sources.FilesOptions{})
	f.expect(t, "a=1", "b=2", "d/e/f=3")
	rename("a", "b")
	f.expect(t, "b=1", "d/e/f=3")
	f.until(t, "the change of b", f.isEmitted("FileModified b"))
	rename("d", "x")
	f.expect(t, "b=1", "x/e/f=3")
	put(t, root, "x/e/f", "4") // The watch of the directory was created under another name.
	put(t, root, "d/e/f", "5")
	f.expect(t, "b=1", "x/e/f=4", "d/e/f=5")
	rename("x/e", "d/g")
	f.expect(t, "b=1", "d/g/f=4", "d/e/f=5")
	must(t, os.Rename(filepath.Join(root, "d"), filepath.Join(t.TempDir(), "out")))
	f.expect(t, "b=1")
}

func TestFilesHonoursGitignoreFilesAtAllLevelsAndTheirChanges(t *testing.T) {
	root := t.TempDir()
	put(t, root, ".gitignore", "*.log\nbuild/\n")
	put(t, root, "a.log", "1")
	put(t, root, "build/deep/file", "1")
	put(t, root, ".git/HEAD", "1")
	put(t, root, "sub/.gitignore", "!keep.log\n/only\n")
	put(t, root, "sub/keep.log", "1")
	put(t, root, "sub/only", "1")
	put(t, root, "sub/deeper/only", "1")
	options := sources.FilesOptions{Ignore: []string{".gitignore"}}
	f := fold(t, root, options)
	f.expect(t, "sub/keep.log=1", "sub/deeper/only=1")
	put(t, root, "sub/.gitignore", "")
	f.expect(t, "sub/only=1", "sub/deeper/only=1")
	put(t, root, "build/deep/file", "2")
	must(t, os.Remove(filepath.Join(root, ".gitignore")))
	f.expect(t, "a.log=1", "build/deep/file=2", "sub/keep.log=1", "sub/only=1", "sub/deeper/only=1")
	put(t, root, "build/deep/file", "3") // The directory is being watched.
	f.until(t, "the new content", func() bool { return f.files["build/deep/file"] == "3" })
	put(t, root, ".gitignore", "sub\na.log")
	f.expect(t, "build/deep/file=3")

	options.NoGitignore = true
	fold(t, root, options).expect(t, "a.log=1", "build/deep/file=3", "sub/keep.log=1", "sub/only=1", "sub/deeper/only=1")
}

func TestFilesDoesNotFollowLinks(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	put(t, outside, "secret", "1")
	must(t, os.Symlink(outside, filepath.Join(root, "link")))
	must(t, os.Symlink(root, filepath.Join(root, "loop")))
	f := fold(t, root, sources.FilesOptions{})
	f.expect(t, "link=-> "+outside, "loop=-> "+root)
	put(t, outside, "secret", "2")
	put(t, root, "a", "1")
	f.expect(t, "link=-> "+outside, "loop=-> "+root, "a=1")
	must(t, os.Remove(filepath.Join(root, "loop")))
	put(t, root, "loop/a", "1")
	f.expect(t, "link=-> "+outside, "loop/a=1", "a=1")

	throughLink := fold(t, filepath.Join(root, "link"), sources.FilesOptions{})
	throughLink.expect(t, "secret=2")
}

func TestFilesWaitsForItsRootAndForItsReturn(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	f := fold(t, root, sources.FilesOptions{})
	f.until(t, "an error", func() bool { return len(f.errs) > 0 })
	var fileError *sources.FileError
	if !errors.As(f.errs[0], &fileError) || !errors.Is(f.errs[0], os.ErrNotExist) || !strings.Contains(f.errs[0].Error(), root) {
		t.Errorf("got %v", f.errs[0])
	}
	put(t, root, "a", "1")
	f.expect(t, "a=1")
	must(t, os.RemoveAll(root))
	f.expect(t)
	put(t, root, "b", "1")
	f.expect(t, "b=1")
	must(t, os.Rename(root, root+"2"))
	f.expect(t)
	put(t, root+"2", "b", "2")
	put(t, root, "c", "1")
	f.expect(t, "c=1")
}

func TestADirectoryThatCannotBeWatchedEndsNothing(t *testing.T) {
	root := t.TempDir()
	put(t, root, "a", "1")
	dir, err := os.OpenRoot(root)
	must(t, err)
	name := strings.Repeat("n", 250)
	for range 18 { // The path is longer than the kernel supports.
		must(t, dir.Mkdir(name, 0o755))
		deeper, err := dir.OpenRoot(name)
		must(t, err)
		must(t, dir.Close())
		dir = deeper
	}
	must(t, dir.Close())
	f := fold(t, root, sources.FilesOptions{})
	f.expect(t, "a=1")
	f.until(t, "an error", func() bool { return len(f.errs) > 0 })
	var fileError *sources.FileError
	if !errors.As(f.errs[0], &fileError) || !errors.Is(f.errs[0], syscall.ENAMETOOLONG) || !strings.HasPrefix(fileError.Path, name) {
		t.Errorf("got %v", f.errs[0])
	}
	put(t, root, "b", "1")
	f.expect(t, "a=1", "b=1")
	if len(f.errs) != 1 {
		t.Errorf("%d errors were emitted, want one", len(f.errs))
	}
}

func TestWhenNotificationsAreDroppedFilesListsAnew(t *testing.T) {
	root := t.TempDir()
	f := fold(t, root, sources.FilesOptions{})
	f.expect(t)
	f.emitted = nil
	files := [2]*os.File{}
	for i := range files {
		file, err := os.Create(filepath.Join(root, fmt.Sprint(i)))
		must(t, err)
		defer file.Close()
		files[i] = file
	}
	for i := range 80_000 { // There is no reader. The kernel joins only consecutive equal notifications.
		_, err := files[i%2].WriteAt([]byte{'a' + byte(i%26)}, 0)
		must(t, err)
	}
	put(t, root, "sub/last", "1")
	last := func(i int) string { return string('a' + byte((80_000-2+i)%26)) }
	f.until(t, "a second list", f.isEmitted("FilesListStart"))
	f.expect(t, "0="+last(0), "1="+last(1), "sub/last=1")
	put(t, root, "sub/last", "2")
	f.expect(t, "0="+last(0), "1="+last(1), "sub/last=2")
}

func TestLimitsOfInotifyAreExplained(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC: "fs.inotify.max_user_watches",
		syscall.EMFILE: "fs.inotify.max_user_instances",
	} {
		text := (&sources.FileError{Path: "a/b", Err: fmt.Errorf("adding: %w", err)}).Error()
		if !strings.Contains(text, "sysctl "+want) || !strings.Contains(text, "a/b") {
			t.Errorf("%q names neither the way out, %s, nor the directory", text, want)
		}
	}
}

func TestFilesIsLazyAndIndependentWhenObservedTwice(t *testing.T) {
	root := t.TempDir()
	put(t, root, "a", "1")
	stream := sources.Files(root, sources.FilesOptions{})
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		items := stream.Observe(ctx)
		events, err := streams.Values[sources.FileEvent](<-items)
		if err != nil || len(events) != 3 {
			t.Errorf("got %v, %v", events, err)
		}
		cancel()
		for range items { //nolint:revive // Drain until it is closed.
		}
	}
}
