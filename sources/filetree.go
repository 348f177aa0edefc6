package sources

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

const gitignoreFile = ".gitignore"

// fileTree is the tree as Files has emitted it. Notifications are hints: after each, fileTree looks
// at one name, compares it with its own state, and emits the difference.
//
// A directory is watched before it is read, so that no change is missed in between. The watch of
// the parent reports what happens to the name of a directory. After such a report, the directory is
// dropped with everything below it and all their watches, and read again if it exists. This is
// necessary because a watch follows a directory that is moved, and would report its changes under
// the old name.
type fileTree struct {
	root     string
	watch    *fileWatch
	watcher  *fsnotify.Watcher
	top      *folder
	byID     map[fileID]*folder // finds the former place of a directory that was moved
	emitting bool               // false while the list is being read
	pending  []FileEvent
	failing  []*FileError
	limited  bool // a failure for too many watches was reported
	broken   bool // the watcher has failed, and the tree has to be listed anew by another one
}

// folder is a directory that is not ignored.
type folder struct {
	parent  *folder
	name    string // from the root, with slashes; empty for the root
	info    fs.FileInfo
	rules   []ignoreRule
	files   map[string]knownFile // by their names in the folder
	folders map[string]*folder   // by their names in the folder
	err     error                // the error of watching or reading it
}

type knownFile struct {
	info    fs.FileInfo
	scanned bool // Reading the folder found it, and its own notification may still follow.
}

func newFileTree(root string, watch *fileWatch, watcher *fsnotify.Watcher, info fs.FileInfo) *fileTree {
	t := &fileTree{root: root, watch: watch, watcher: watcher, byID: map[fileID]*folder{}}
	t.top = newFolder(nil, "", info)
	return t
}

func newFolder(parent *folder, name string, info fs.FileInfo) *folder {
	return &folder{parent: parent, name: name, info: info, files: map[string]knownFile{}, folders: map[string]*folder{}}
}

// list reads the whole tree and emits it as a list.
func (t *fileTree) list() error {
	if err := t.enter(t.top); err != nil {
		return err
	}
	t.pending = append(t.pending, FileEvent{Type: FilesListStart})
	t.emitAll(t.top)
	slices.SortFunc(t.pending[1:], func(a, b FileEvent) int { return strings.Compare(a.Path, b.Path) })
	t.pending = append(t.pending, FileEvent{Type: FilesListEnd})
	t.emitting = true
	return nil
}

func (t *fileTree) emitAll(f *folder) {
	for name := range f.files {
		t.pending = append(t.pending, FileEvent{FileListed, path.Join(f.name, name)})
	}
	for _, sub := range f.folders {
		t.emitAll(sub)
	}
}

func (t *fileTree) emit(kind FileEventType, f *folder, name string) {
	if t.emitting {
		t.pending = append(t.pending, FileEvent{kind, path.Join(f.name, name)})
	}
}

// flush puts the pending events and failures on the queue.
func (t *fileTree) flush(ctx context.Context) {
	if len(t.pending) > 0 {
		t.watch.queue.Put(ctx, t.pending...)
		t.pending = t.pending[:0]
	}
	for _, failure := range t.failing {
		t.watch.fail(ctx, failure.Path, failure.Err)
	}
	t.failing = nil
}

func (t *fileTree) disk(name string) string { return filepath.Join(t.root, filepath.FromSlash(name)) }

// find returns the folder with a name, or nil if there is none in the tree.
func (t *fileTree) find(name string) *folder {
	f := t.top
	if name == "." || name == "" {
		return f
	}
	for part := range strings.SplitSeq(name, "/") {
		if f = f.folders[part]; f == nil {
			return nil
		}
	}
	return f
}

// hint looks at the name in a notification. It reports whether the root is gone.
func (t *fileTree) hint(event fsnotify.Event) (rootGone bool) {
	name, err := filepath.Rel(t.root, event.Name)
	if err != nil {
		return false
	}
	name = filepath.ToSlash(name)
	if name == "." {
		return event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename)
	}
	// A folder that is not in the tree is ignored or gone, or was moved and has been read since.
	if f := t.find(path.Dir(name)); f != nil {
		t.look(f, path.Base(name), event.Op)
	}
	return false
}

// look compares one name in a folder with the tree, and emits the difference. Without a
// notification, op is 0.
func (t *fileTree) look(f *folder, name string, op fsnotify.Op) {
	info, err := os.Lstat(t.disk(path.Join(f.name, name)))
	if err != nil && !isGone(err) {
		t.fault(f, f.err, err)
		return
	}
	replaced := op.Has(fsnotify.Remove) || op.Has(fsnotify.Rename)
	ignored := info != nil && t.ignored(f, name, info.IsDir())
	sub := f.folders[name]
	if sub != nil && (info == nil || ignored || replaced || !os.SameFile(sub.info, info)) {
		t.drop(sub)
		sub = nil
	}
	isFile := info != nil && !ignored && (info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0)
	t.lookAtFile(f, name, info, isFile, op)
	if info != nil && info.IsDir() && !ignored {
		if sub == nil {
			t.add(f, name, info)
		} else if op == 0 || sub.err != nil {
			_ = t.scan(sub)
		}
	}
	if name == gitignoreFile && op != 0 && !t.watch.options.NoGitignore {
		_ = t.scan(f) // scan reads the rules again.
	}
}

func (t *fileTree) lookAtFile(f *folder, name string, info fs.FileInfo, isFile bool, op fsnotify.Op) {
	known, was := f.files[name]
	if !isFile {
		if was {
			delete(f.files, name)
			t.emit(FileRemoved, f, name)
		}
		return
	}
	f.files[name] = knownFile{info: info, scanned: op == 0 && (known.scanned || !was)}
	switch {
	case !was:
		t.emit(FileCreated, f, name)
	case op&(fsnotify.Write|fsnotify.Remove|fsnotify.Rename) != 0,
		op.Has(fsnotify.Create) && !known.scanned,
		!sameState(known.info, info):
		// Times are too coarse to show all changes, so a notification counts, too.
		t.emit(FileModified, f, name)
	}
}

func sameState(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Mode() == b.Mode() && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// ignored reports whether a name in a folder is ignored. The folder itself is not ignored.
func (t *fileTree) ignored(f *folder, name string, dir bool) bool {
	if name == ".git" {
		return true
	}
	for ; f != nil; f = f.parent {
		if ignored, decided := ignoredBy(f.rules, name, dir); decided {
			return ignored
		}
		name = path.Join(path.Base(f.name), name)
	}
	ignored, _ := ignoredBy(t.watch.rules, name, dir)
	return ignored
}

// add begins to watch a directory and emits the files in it.
func (t *fileTree) add(parent *folder, name string, info fs.FileInfo) {
	if moved := t.byID[idOf(info)]; moved != nil && os.SameFile(moved.info, info) {
		t.drop(moved) // Otherwise its watch would keep the old name.
		if t.find(parent.name) != parent {
			return // The parent was in it; the notifications of both are pending.
		}
	}
	f := newFolder(parent, path.Join(parent.name, name), info)
	parent.folders[name] = f
	_ = t.enter(f) // enter has queued the failure, which is not a failure of the parent.
}

// enter reads a folder for the first time.
func (t *fileTree) enter(f *folder) error {
	t.byID[idOf(f.info)] = f
	return t.scan(f)
}

// scan watches a folder, reads it with everything below it, and compares that with the tree. It
// returns why the folder itself could not be watched or read.
func (t *fileTree) scan(f *folder) error {
	before := f.err
	f.err = nil
	failure := t.watchFolder(f)
	if failure != nil {
		t.fault(f, before, failure)
	} else if errors.Is(before, syscall.ENOSPC) {
		t.limited = false
	}
	t.readRules(f)
	entries, err := os.ReadDir(t.disk(f.name))
	if err != nil {
		t.fault(f, before, err)
		return err
	}
	found := make(map[string]bool, len(entries))
	for _, entry := range entries {
		found[entry.Name()] = true
		t.look(f, entry.Name(), 0)
	}
	for name := range f.files {
		if !found[name] {
			t.look(f, name, 0)
		}
	}
	for name := range f.folders {
		if !found[name] {
			t.look(f, name, 0)
		}
	}
	return failure
}

// errReplaced says that a directory was replaced just before it was watched. The notification of
// the replacement is pending.
var errReplaced = &fs.PathError{Op: "watch", Err: fs.ErrNotExist}

func (t *fileTree) watchFolder(f *folder) error {
	if err := t.watcher.Add(t.disk(f.name)); err != nil {
		return err
	}
	info, err := os.Lstat(t.disk(f.name))
	if err == nil && os.SameFile(info, f.info) {
		return nil
	}
	t.unwatch(f.name) // The watch may be on another directory.
	return errReplaced
}

// unwatch ends the watch of a name. The kernel may have ended it before.
//
// fsnotify 1.10.1 panics if a watched name leads to another watched directory, is watched again and then removed: it
// forgets the first watch of the name, and keeps the name. A directory that is moved over another one can lead to it. The
// watcher's state is not to be relied on then.
func (t *fileTree) unwatch(name string) {
	defer func() {
		t.broken = recover() != nil || t.broken
	}()
	_ = t.watcher.Remove(t.disk(name))
}

func (t *fileTree) readRules(f *folder) {
	f.rules = nil
	if t.watch.options.NoGitignore {
		return
	}
	name := t.disk(path.Join(f.name, gitignoreFile))
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return // Git does not follow a link here either.
	}
	content, err := os.ReadFile(name)
	if err != nil {
		if !isGone(err) {
			t.fault(f, f.err, err)
		}
		return
	}
	f.rules = parseIgnore(content)
}

// drop removes a folder and everything below it from the tree.
func (t *fileTree) drop(f *folder) {
	t.unwatch(f.name)
	for _, sub := range f.folders {
		t.drop(sub)
	}
	for name := range f.files {
		t.emit(FileRemoved, f, name)
	}
	clear(f.files)
	if id := idOf(f.info); t.byID[id] == f {
		delete(t.byID, id)
	}
	if f.parent != nil && f.parent.folders[path.Base(f.name)] == f {
		delete(f.parent.folders, path.Base(f.name))
	}
}

// retry scans the folders that failed.
func (t *fileTree) retry(f *folder) {
	if f.err != nil {
		_ = t.scan(f)
		return
	}
	for _, sub := range f.folders {
		t.retry(sub)
	}
}

// fault records why a folder could not be watched or read, and reports each failure once. A folder
// that is gone is not reported: a notification follows.
func (t *fileTree) fault(f *folder, before, err error) {
	f.err = err
	if !isGone(err) && (before == nil || before.Error() != err.Error()) {
		t.failed(f, err)
	}
}

// failed queues a failure of a folder to be reported.
func (t *fileTree) failed(f *folder, err error) {
	if errors.Is(err, syscall.ENOSPC) {
		if t.limited {
			return // There may be thousands of them.
		}
		t.limited = true
	}
	t.failing = append(t.failing, &FileError{Path: path.Join(".", f.name), Err: err})
}

// isGone reports whether a name no longer leads to a file. Instead of a folder in its path there
// may be a file, or a link to itself.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}
