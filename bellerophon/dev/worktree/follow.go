package worktree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
)

// checkPeriod is the time between checks of the directories that could not be read. No event says that they can be read.
const checkPeriod = 10 * time.Second

// settleTime is how long a file must be unchanged before its time of modification can show a later change. It is the
// resolution of the coarsest file systems.
const settleTime = 2 * time.Second

// publishPause is the shortest time between two states. A branch switch would cause thousands of them.
const publishPause = 20 * time.Millisecond

// follower keeps the tree of a project current. All its fields belong to the goroutine of run.
type follower struct {
	project *Project
	tree    Tree
	seen    map[string]seen
	unread  map[string]string // why files are not synced, by their paths
	failed  map[string]error  // why directories are not watched, by their paths
	listed  bool

	listing   map[string]bool // the files of a list that is not complete
	changed   bool            // since the last publish
	published time.Time       // the last publish
	patterns  []string        // of ignored files
}

// seen is a file of the tree as it was when it was read.
type seen struct {
	info    fs.FileInfo
	settled bool // a later change shows in the info
}

func newFollower(project *Project) *follower {
	return &follower{project: project, tree: Tree{}, seen: map[string]seen{}, unread: map[string]string{}, failed: map[string]error{}}
}

// run follows the files until ctx ends. A change of the ignored files begins a new list.
func (f *follower) run(ctx context.Context) error {
	for ctx.Err() == nil {
		f.patterns = f.project.ignored()
		if err := f.session(ctx); err != nil {
			return err
		}
	}
	return nil
}

// session follows the files until ctx ends or the patterns change.
func (f *follower) session(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	items := sources.Files(f.project.directory, sources.FilesOptions{Ignore: f.patterns}).Observe(ctx)
	defer func() {
		cancel()
		for range items {
		}
	}()
	ticker := time.NewTicker(checkPeriod)
	defer ticker.Stop()
	paused := time.NewTimer(publishPause)
	defer paused.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-paused.C:
		case <-f.project.suspects:
			names := slices.DeleteFunc(slices.Sorted(maps.Keys(f.project.takeSuspects())), func(name string) bool {
				_, known := f.tree[name]
				return !known // It may be ignored.
			})
			f.read(names)
		case item, open := <-items:
			if !open {
				if ctx.Err() != nil {
					return nil
				}
				return errors.New("follow the files: the stream has ended; restart the program")
			}
			events, err := streams.Values[sources.FileEvent](item)
			f.apply(events)
			f.fail(err)
			if slices.ContainsFunc(events, mayChangePatterns) && !slices.Equal(f.project.ignored(), f.patterns) {
				return nil
			}
		}
		f.checkFailed()
		if pause := publishPause - time.Since(f.published); pause > 0 {
			paused.Reset(pause)
		} else if f.changed {
			f.publish()
		}
	}
}

func mayChangePatterns(event sources.FileEvent) bool {
	return event.Path == ignoreFile || event.Type == sources.FilesListEnd
}

// apply applies a batch of events.
func (f *follower) apply(events []sources.FileEvent) {
	touched := map[string]bool{} // true for files to read, and false for removed ones
	for _, event := range events {
		switch event.Type {
		case sources.FilesListStart:
			f.listing = map[string]bool{}
			f.changed = f.changed || len(f.failed) > 0
			clear(f.failed) // The failures of the new list follow.
			clear(touched)
		case sources.FileListed:
			f.listing[event.Path] = true
		case sources.FilesListEnd:
			f.list()
		case sources.FileRemoved:
			touched[event.Path] = false
		case sources.FileCreated, sources.FileModified:
			touched[event.Path] = true
		}
	}
	var read, removed []string
	for name, exists := range touched {
		if exists {
			read = append(read, name)
		} else {
			removed = append(removed, name)
		}
	}
	if len(removed) > 0 && !f.project.isInPlace() {
		f.setListed(false) // The files are not removed one by one: their directory is gone, or was replaced.
		return
	}
	for _, name := range removed {
		f.forget(name)
	}
	slices.Sort(read)
	f.read(read)
}

// list compares the tree with a complete list.
func (f *follower) list() {
	if err := f.project.reopen(); err != nil {
		f.setListed(false) // The source tries again.
		return
	}
	for name := range f.tree {
		if !f.listing[name] {
			f.forget(name)
		}
	}
	for name := range f.unread {
		if !f.listing[name] {
			f.forget(name)
		}
	}
	names := slices.Sorted(maps.Keys(f.listing))
	f.listing = nil
	f.read(f.differing(names))
	f.setListed(true)
}

// differing returns the files that may have changed since they were read.
func (f *follower) differing(names []string) []string {
	f.project.rootLock.RLock()
	defer f.project.rootLock.RUnlock()
	reader := newReader(f.project.root, f.project.options.MaxFileSize)
	defer reader.close()
	return slices.DeleteFunc(names, func(name string) bool {
		known, is := f.seen[name]
		if !is || !known.settled {
			return false
		}
		info, err := reader.stat(name)
		return err == nil && os.SameFile(info, known.info) && info.Mode() == known.info.Mode() &&
			info.Size() == known.info.Size() && info.ModTime().Equal(known.info.ModTime())
	})
}

// read reads files, and notes them in the tree.
func (f *follower) read(names []string) {
	f.project.rootLock.RLock()
	defer f.project.rootLock.RUnlock()
	reader := newReader(f.project.root, f.project.options.MaxFileSize)
	defer reader.close()
	for _, name := range names {
		began := time.Now()
		file, info, err := reader.read(name, io.Discard)
		switch {
		case err == nil:
			f.accept(name, file, seen{info: info, settled: began.Sub(info.ModTime()) > settleTime})
		case isGone(err):
			f.forget(name)
		default:
			f.reject(name, err)
		}
	}
}

// accept notes a file that was read.
func (f *follower) accept(name string, file File, info seen) {
	if before, is := f.tree[name]; !is || before != file {
		f.tree[name] = file
		f.changed = true
	}
	f.seen[name] = info
	if _, was := f.unread[name]; was {
		delete(f.unread, name)
		f.changed = true
	}
}

// reject notes why a file is not synced.
func (f *follower) reject(name string, err error) {
	var reason *unsyncedError
	switch {
	case errors.As(err, &reason):
	case errors.Is(err, fs.ErrPermission):
		err = unsynced("%v; change its permissions, or ignore it", cause(err))
	default:
		err = unsynced("%v", cause(err))
	}
	if f.unread[name] == err.Error() {
		return
	}
	f.forget(name)
	f.unread[name] = err.Error()
	f.changed = true
}

// cause returns an error without the path in it, which may be only a part of the path.
func cause(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// forget removes a file from the tree, and its problem.
func (f *follower) forget(name string) {
	_, was := f.tree[name]
	_, wasUnread := f.unread[name]
	f.changed = f.changed || was || wasUnread
	delete(f.tree, name)
	delete(f.seen, name)
	delete(f.unread, name)
}

func (f *follower) setListed(listed bool) {
	f.changed = f.changed || f.listed != listed
	f.listed = listed
}

// fail notes the failure of a directory.
func (f *follower) fail(err error) {
	if err == nil {
		return
	}
	name := "."
	var failure *sources.FileError
	if errors.As(err, &failure) {
		name, err = failure.Path, failure
	}
	if before := f.failed[name]; before == nil || before.Error() != err.Error() {
		f.failed[name] = err
		f.changed = true
	}
	if name == "." && !f.project.isInPlace() {
		f.setListed(false)
	}
}

// checkFailed drops the failures of directories that can be read again, or are gone. Other failures last until the
// next list.
func (f *follower) checkFailed() {
	if len(f.failed) == 0 || !f.listed {
		return
	}
	f.project.rootLock.RLock()
	defer f.project.rootLock.RUnlock()
	reader := newReader(f.project.root, f.project.options.MaxFileSize)
	defer reader.close()
	for name, failure := range f.failed {
		err := reader.list(name)
		if isGone(err) || (err == nil && errors.Is(failure, fs.ErrPermission)) {
			delete(f.failed, name)
			f.changed = true
		}
	}
}

// publish publishes the state.
func (f *follower) publish() {
	f.changed, f.published = false, time.Now()
	problems := make([]string, 0, len(f.unread)+len(f.failed))
	for name, reason := range f.unread {
		problems = append(problems, name+": "+reason)
	}
	for _, failure := range f.failed {
		problems = append(problems, failure.Error())
	}
	slices.Sort(problems)
	f.project.publish(Snapshot{Tree: maps.Clone(f.tree), Problems: problems, Listed: f.listed})
}
