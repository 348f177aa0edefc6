package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/fsnotify/fsnotify"
)

// FileEventType says what a FileEvent tells.
type FileEventType uint8

// The vocabulary of Files. A list is a FilesListStart, its FileListed and a FilesListEnd,
// with nothing between them; it replaces all that was said before.
const (
	FilesListStart FileEventType = iota + 1
	FileListed
	FilesListEnd
	FileCreated
	FileModified
	FileRemoved
)

var fileEventTypes = [...]string{"Unknown", "FilesListStart", "FileListed", "FilesListEnd", "FileCreated", "FileModified", "FileRemoved"}

func (t FileEventType) String() string {
	if int(t) >= len(fileEventTypes) {
		return fileEventTypes[0]
	}
	return fileEventTypes[t]
}

// FileEvent is something that Files saw.
type FileEvent struct {
	Type FileEventType
	Path string // of the file, from the root, with slashes; empty at the ends of a list
}

// FilesOptions set up [Files]. The zero value watches what git would.
type FilesOptions struct {
	// Ignore holds patterns in the language of .gitignore, for the whole tree. The
	// .gitignore files come after them and may take them back.
	Ignore []string

	// NoGitignore says that .gitignore files are files like others.
	NoGitignore bool
}

// Files is the files below a directory: a list of them, then what changes. Files are
// regular files and symbolic links, which are not followed; directories are not told of.
//
//   - Nothing that changes below the root is lost. Each event is made by looking at the
//     tree, so that folding the events comes to the tree, whatever happened meanwhile.
//     A reader that opens a file when it is told of it has read its last content in the
//     end. A change may be told twice, and a file that is gone again not at all.
//   - A rename is a FileRemoved and a FileCreated, for each file of a directory; over an
//     existing file it is a FileModified.
//   - What .gitignore files ignore, at all levels, is neither told of nor watched. When
//     one changes, what it hides is removed and what it shows is created. Anything
//     called .git is ignored. Git's settings outside of the tree are not read.
//   - When the kernel drops notifications because they come too fast, there is a new list.
//   - A directory that cannot be read or watched is a [streams.Error] with a *FileError,
//     and is tried again every 10 seconds; the others go on.
//   - The root is tried again with a backoff of up to 10 seconds for as long as it is not
//     there or is no directory, each a *FileError too. When it is removed, so are its
//     files; when it is back there is a new list. If it is a symbolic link, then that one
//     is followed.
//
// Changes through a memory map, or of another host on a network file system, are not
// noticed: the kernel does not tell.
func Files(root string, options FilesOptions) streams.Stream[FileEvent] {
	rules := parseIgnore([]byte(strings.Join(options.Ignore, "\n")))
	return streams.Create(func(ctx context.Context, out streams.Sink[FileEvent]) {
		w := &fileWatch{
			root:    root,
			rules:   rules,
			options: options,
			name:    "files of " + root,
			inlet:   streams.NewQueue[FileEvent](),
		}
		group := lifecycle.New(ctx)
		group.Go(w.name, w.run)
		w.inlet.Drain(group.Context(), out)
		group.Stop()
		if err := group.Wait(); err != nil {
			out.Error(&streams.Error{Source: w.name, Err: err})
		}
	})
}

// FileError is a file or directory that could not be watched or read.
type FileError struct {
	Path string // from the root, with slashes; "." is the root
	Err  error
}

func (e *FileError) Error() string {
	switch {
	case errors.Is(e.Err, syscall.ENOSPC):
		return fmt.Sprintf("watching %s: there are too many watches; raise the limit with sysctl fs.inotify.max_user_watches, or ignore directories: %v", e.Path, e.Err)
	case errors.Is(e.Err, syscall.EMFILE):
		return fmt.Sprintf("watching %s: there are too many watchers or open files; raise the limit with sysctl fs.inotify.max_user_instances or ulimit -n: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("watching %s: %v", e.Path, e.Err)
}

// Unwrap is what the file system said.
func (e *FileError) Unwrap() error { return e.Err }

// fileWatch is the state of one observation of Files.
type fileWatch struct {
	root    string
	rules   []ignoreRule
	options FilesOptions
	name    string
	inlet   *streams.Queue[FileEvent]
}

// errListAnew ends a session whose notifications are incomplete.
var errListAnew = errors.New("list anew")

// run watches the root, in session after session, until ctx ends.
func (w *fileWatch) run(ctx context.Context) error {
	backoff := retry()
	for ctx.Err() == nil {
		listed, err := w.session(ctx)
		if listed {
			backoff = retry()
		}
		if errors.Is(err, errListAnew) || ctx.Err() != nil {
			continue
		}
		w.fail(ctx, ".", err)
		timer := time.NewTimer(backoff.Step())
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

func (w *fileWatch) fail(ctx context.Context, name string, err error) {
	w.inlet.Error(ctx, &streams.Error{Source: w.name, Err: &FileError{Path: name, Err: err}})
}

// again is when directories that failed are tried again: their failure has no end that
// anything would tell of.
const again = 10 * time.Second

// session lists the files and tells of changes until the root is gone or something else
// keeps it from going on.
func (w *fileWatch) session(ctx context.Context) (listed bool, err error) {
	root, err := filepath.EvalSymlinks(w.root)
	if err != nil {
		return false, err
	}
	info, err := os.Stat(root)
	if err != nil {
		return false, err
	}
	if !info.IsDir() {
		return false, &fs.PathError{Op: "open", Path: root, Err: syscall.ENOTDIR}
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return false, err
	}
	defer watcher.Close()
	tree := newFileTree(root, w, watcher, info)
	if err := tree.list(); err != nil {
		return false, err
	}
	tree.flush(ctx)
	ticker := time.NewTicker(again)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return true, nil
		case event := <-watcher.Events:
			if tree.hint(event) {
				tree.drop(tree.top)
				tree.flush(ctx)
				return true, errListAnew
			}
		case err := <-watcher.Errors:
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				return true, errListAnew
			}
			tree.failed(tree.top, err)
		case <-ticker.C:
			// Nothing tells that a directory above the root was moved.
			if now, err := os.Stat(w.root); err != nil || !os.SameFile(now, info) {
				tree.drop(tree.top)
				tree.flush(ctx)
				return true, errListAnew
			}
			tree.retry(tree.top)
		}
		tree.flush(ctx)
	}
}
