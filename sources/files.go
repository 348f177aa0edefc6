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

// FileEventType is the type of a FileEvent.
type FileEventType uint8

// The vocabulary of Files. A list is a FilesListStart, its FileListed events and a FilesListEnd,
// with nothing between them. A list replaces everything emitted before.
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

// FileEvent is one observation made by Files.
type FileEvent struct {
	Type FileEventType
	Path string // from the root to the file, with slashes; empty for the start and end of a list
}

// FilesOptions configures [Files]. The zero value watches all files except those ignored by
// .gitignore files.
type FilesOptions struct {
	// Ignore holds patterns in the language of .gitignore, for the whole tree. The .gitignore files
	// come after them and may override them.
	Ignore []string

	// NoGitignore makes Files treat .gitignore files as ordinary files.
	NoGitignore bool
}

// Files emits a list of the files below a directory, and then their changes. Files are regular
// files and symbolic links, which are not followed. No events are emitted for directories.
//
//   - No change below the root is lost. Files looks at the tree before it emits an event, so a
//     reader that applies all events ends with the tree, whatever happened meanwhile. A reader that
//     opens each file on its event ends with the last content of each. A change may be emitted
//     twice, and a file that is already gone again may not be emitted at all.
//   - A rename is a FileRemoved and a FileCreated, for each file of a directory. A rename over an
//     existing file is a FileModified.
//   - Paths ignored by .gitignore files, at any level, are neither emitted nor watched. When a
//     .gitignore file changes, the files that it now hides are removed, and the files that it now
//     shows are created. Any path named .git is ignored. Git's settings outside the tree are not
//     read.
//   - When the kernel drops notifications because they come too fast, a new list follows.
//   - A directory that cannot be read or watched is a [streams.Error] with a *FileError, and is
//     retried every 10 seconds. The other directories are watched meanwhile.
//   - While the root does not exist or is not a directory, it is retried with a backoff of up to 10
//     seconds. Each failure is a *FileError, too. When the root is removed, so are its files; when
//     it is back, a new list follows. If the root is a symbolic link, that link is followed.
//
// Changes through a memory map, and changes by another host on a network file system, are not
// noticed, because the kernel does not report them.
func Files(root string, options FilesOptions) streams.Stream[FileEvent] {
	rules := parseIgnore([]byte(strings.Join(options.Ignore, "\n")))
	return streams.Create(func(ctx context.Context, out streams.Sink[FileEvent]) {
		w := &fileWatch{
			root:    root,
			rules:   rules,
			options: options,
			name:    "files of " + root,
			queue:   streams.NewQueue[FileEvent](),
		}
		group := lifecycle.New(ctx)
		group.Go(w.name, w.run)
		w.queue.Drain(group.Context(), out)
		group.Stop()
		if err := group.Wait(); err != nil {
			out.Error(&streams.Error{Source: w.name, Err: err})
		}
	})
}

// FileError is the failure to watch or read a file or directory.
type FileError struct {
	Path string // from the root, with slashes; "." is the root
	Err  error
}

func (e *FileError) Error() string {
	switch {
	case errors.Is(e.Err, syscall.ENOSPC):
		return fmt.Sprintf("watching %s: too many watches; raise the limit with sysctl fs.inotify.max_user_watches, or ignore directories: %v", e.Path, e.Err)
	case errors.Is(e.Err, syscall.EMFILE):
		return fmt.Sprintf("watching %s: too many watchers or open files; raise the limit with sysctl fs.inotify.max_user_instances or ulimit -n: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("watching %s: %v", e.Path, e.Err)
}

// Unwrap returns the error of the file system.
func (e *FileError) Unwrap() error { return e.Err }

// fileWatch is the state of one observation of Files.
type fileWatch struct {
	root    string
	rules   []ignoreRule
	options FilesOptions
	name    string
	queue   *streams.Queue[FileEvent]
}

// errListAnew ends a session whose notifications are incomplete. A new list follows.
var errListAnew = errors.New("list anew")

// run watches the root in one session after another, until ctx ends.
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
	w.queue.Error(ctx, &streams.Error{Source: w.name, Err: &FileError{Path: name, Err: err}})
}

// retryPeriod is the time between attempts to read failed directories. Nothing notifies Files when
// such a failure ends.
const retryPeriod = 10 * time.Second

// session lists the files and emits changes until the root is gone, or until an error prevents it
// from continuing.
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
	ticker := time.NewTicker(retryPeriod)
	defer ticker.Stop()
	for !tree.broken {
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
			// No notification comes when a directory above the root is moved.
			if now, err := os.Stat(w.root); err != nil || !os.SameFile(now, info) {
				tree.drop(tree.top)
				tree.flush(ctx)
				return true, errListAnew
			}
			tree.retry(tree.top)
		}
		tree.flush(ctx)
	}
	return true, errListAnew
}
