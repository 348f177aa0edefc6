package worktree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
)

const (
	defaultMaxFileSize = 100 << 20
	largestMaxFileSize = 2 << 30
)

// Options configures [Open].
type Options struct {
	// Ignore holds patterns in the language of .gitignore. The patterns of the project's .odoignore file come after
	// them, and then the .gitignore files.
	Ignore []string

	// MaxFileSize is the size in bytes above which files are not synced, from 1 to 2 GiB; 0 means 100 MiB.
	MaxFileSize int64
}

// Snapshot is the state of a project at one moment. It must not be changed.
type Snapshot struct {
	Tree     Tree
	Problems []string // files that are not in Tree, with the reasons; sorted

	// Listed reports whether Tree is complete. It is false until the first list has been read, and while the
	// project's directory is missing.
	Listed bool
}

// Project keeps the [Tree] of a directory current. Its methods may be called from any goroutine.
//
// All files are read below the directory. No symbolic link is followed, whatever changes meanwhile. A link that may
// lead out of the project is a problem and is not in Tree. Files that vanish while they are read are left out, and so
// is everything that is neither a file nor a link.
type Project struct {
	directory string
	options   Options
	group     *lifecycle.Group
	ended     chan struct{} // closed when the tree is no longer kept current

	rootLock sync.RWMutex // held while files are read below root
	root     *os.Root

	mu       sync.Mutex
	now      Snapshot
	changed  chan struct{}   // closed when now is replaced
	err      error           // why the tree is no longer kept current
	suspect  map[string]bool // files to read again, because Contents found them changed
	suspects chan struct{}   // holds a value if suspect is not empty
}

// Open begins to read the files of a directory. It does not wait for the first list. The caller must call Close.
func Open(directory string, options Options) (*Project, error) {
	options.MaxFileSize = cmp.Or(options.MaxFileSize, defaultMaxFileSize)
	if options.MaxFileSize < 1 || options.MaxFileSize > largestMaxFileSize {
		return nil, fmt.Errorf("open project %s: the largest size of a file must be 1 to %d bytes, not %d; change --max-file-size", directory, int64(largestMaxFileSize), options.MaxFileSize)
	}
	absolute, err := filepath.Abs(directory)
	if err != nil {
		return nil, fmt.Errorf("open project %s: %w", directory, err)
	}
	root, err := os.OpenRoot(absolute)
	if err != nil {
		return nil, fmt.Errorf("open project %s: %w; name the project's directory", directory, err)
	}
	p := &Project{
		directory: absolute,
		options:   options,
		group:     lifecycle.New(context.Background()),
		ended:     make(chan struct{}),
		root:      root,
		now:       Snapshot{Tree: Tree{}},
		changed:   make(chan struct{}),
		suspect:   map[string]bool{},
		suspects:  make(chan struct{}, 1),
	}
	p.group.Go("files of "+directory, func(ctx context.Context) error {
		defer close(p.ended)
		err := lifecycle.Guard(func() error { return newFollower(p).run(ctx) })
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		return err
	})
	return p, nil
}

// Close stops reading and ends the streams of Changes. It returns the error that ended the reading before, if any.
func (p *Project) Close() error {
	p.group.Stop()
	err := p.group.Wait()
	p.rootLock.Lock()
	defer p.rootLock.Unlock()
	return errors.Join(err, p.root.Close())
}

// Snapshot returns the current state.
func (p *Project) Snapshot() Snapshot {
	now, _ := p.current()
	return now
}

// current returns the current state, and a channel that is closed when another state follows it.
func (p *Project) current() (Snapshot, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.changed
}

// publish replaces the current state.
func (p *Project) publish(next Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = next
	close(p.changed)
	p.changed = make(chan struct{})
}

// Changes emits the current state, and then each state that replaces it. States that a slow reader has not seen are
// replaced by the last one. The stream ends with Close, and with an error if the files can no longer be followed.
func (p *Project) Changes() streams.Stream[Snapshot] {
	return streams.Create(func(ctx context.Context, out streams.Sink[Snapshot]) {
		for {
			now, changed := p.current()
			if !out.Send([]Snapshot{now}) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-p.ended:
				p.mu.Lock()
				err := p.err
				p.mu.Unlock()
				if err != nil {
					out.Error(&streams.Error{Source: "files of " + p.directory, Err: err})
				}
				return
			}
		}
	})
}

// Contents reads files as they are now. Each Content describes exactly the bytes in it, which may be others than the
// Tree says. The paths of files that are gone or cannot be synced any more are missing; the Tree follows.
func (p *Project) Contents(paths []string) (contents []Content, missing []string, err error) {
	p.rootLock.RLock()
	defer p.rootLock.RUnlock()
	reader := newReader(p.root, p.options.MaxFileSize)
	defer reader.close()
	tree := p.Snapshot().Tree
	var suspect []string
	for _, name := range paths {
		if !fs.ValidPath(name) || name == "." {
			return nil, nil, fmt.Errorf("read %q of the project: it is no path below the project's directory", name)
		}
		var data bytes.Buffer
		data.Grow(int(tree[name].Size)) // At most MaxFileSize.
		file, _, err := reader.read(name, &data)
		if errors.Is(err, os.ErrClosed) {
			return nil, nil, fmt.Errorf("read %s of the project: %w", name, err)
		}
		if file != tree[name] {
			suspect = append(suspect, name)
		}
		if err != nil {
			missing = append(missing, name)
			continue
		}
		content := Content{Path: name, File: file}
		if !file.IsLink() {
			content.Data = data.Bytes()
		}
		contents = append(contents, content)
	}
	p.suspectAll(suspect)
	return contents, missing, nil
}

// suspectAll makes the follower read files again. Without it, changes that cause no event would never reach the tree.
func (p *Project) suspectAll(names []string) {
	if len(names) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		p.suspect[name] = true
	}
	select {
	case p.suspects <- struct{}{}:
	default:
	}
}

// takeSuspects returns the files that suspectAll was called with since the last call.
func (p *Project) takeSuspects() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.suspect
	p.suspect = map[string]bool{}
	return taken
}

// isInPlace reports whether the directory is still the one that root has open.
func (p *Project) isInPlace() bool {
	p.rootLock.RLock()
	defer p.rootLock.RUnlock()
	opened, err := p.root.Stat(".")
	if err != nil {
		return false
	}
	now, err := os.Stat(p.directory)
	return err == nil && os.SameFile(opened, now)
}

// reopen opens the directory again if another one has taken its place.
func (p *Project) reopen() error {
	if p.isInPlace() {
		return nil
	}
	root, err := os.OpenRoot(p.directory)
	if err != nil {
		return err
	}
	p.rootLock.Lock()
	defer p.rootLock.Unlock()
	_ = p.root.Close()
	p.root = root
	return nil
}

// ignoreFile holds patterns of ignored files, beside the .gitignore files.
const ignoreFile = ".odoignore"

// ignored returns the patterns of all ignored files. A file of patterns that cannot be read is a problem like any other.
func (p *Project) ignored() []string {
	p.rootLock.RLock()
	defer p.rootLock.RUnlock()
	reader := newReader(p.root, p.options.MaxFileSize)
	defer reader.close()
	var content bytes.Buffer
	if _, _, err := reader.read(ignoreFile, &content); err != nil {
		return p.options.Ignore
	}
	return slices.Concat(p.options.Ignore, strings.Split(content.String(), "\n")) // Empty for a link, as in git.
}
