package loop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"k8s.io/apimachinery/pkg/types"
)

// fakeContainers is the containers of a cluster, in memory. Their syncs and commands take virtual time, and end in the
// middle when their pod does.
type fakeContainers struct {
	mu   sync.Mutex
	pods map[types.UID]*fakePod

	out      bool                  // the API server does not answer
	changed  chan struct{}         // closed at each change of out, or of a pod's life
	buildFor time.Duration         // how long a build takes
	sendFor  time.Duration         // how long a packet of files takes
	exits    func(root string) int // the exit code of a build; nil for 0
	hangs    int                   // how many syncs get no answer, not even when their pod ends
	syncs    []worktree.Change     // all that were asked for
	atSync   func(step int)        // called before each file of a sync
}

// fakePod is the volumes and processes of one pod.
type fakePod struct {
	gone    bool
	tree    worktree.Tree // what the directory really has
	held    worktree.Tree // the manifest
	pending map[string]bool
	unsure  bool // a sync has failed since the last Held
	marks   map[string]string
	epoch   int    // the number of syncs that have begun
	built   string // the root of the tree of the last build
	running string // the root of the build that runs, or ""
	starts  int
}

func newFakeContainers() *fakeContainers {
	return &fakeContainers{pods: map[types.UID]*fakePod{}, changed: make(chan struct{}), buildFor: 2 * time.Second, sendFor: time.Millisecond}
}

// stir wakes everything that waits for a change. c.mu is held.
func (c *fakeContainers) stir() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// pod returns the pod of a place. c.mu is held.
func (c *fakeContainers) pod(at container.Place) (*fakePod, error) {
	if c.out {
		return nil, fmt.Errorf("exec in %s: %w", at.Pod, container.ErrConnection)
	}
	found := c.pods[at.PodUID]
	if found == nil {
		found = &fakePod{tree: worktree.Tree{}, held: worktree.Tree{}, pending: map[string]bool{}, marks: map[string]string{}}
		c.pods[at.PodUID] = found
	}
	if found.gone {
		return nil, fmt.Errorf("exec in %s: %w", at.Pod, container.ErrGone)
	}
	return found, nil
}

// kill ends a pod.
func (c *fakeContainers) kill(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pods[uid] == nil {
		c.pods[uid] = &fakePod{}
	}
	c.pods[uid].gone, c.pods[uid].running = true, ""
	c.stir()
}

// cutOff begins or ends an outage of the API server.
func (c *fakeContainers) cutOff(out bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = out
	c.stir()
}

// Held implements container.Containers.
func (c *fakeContainers) Held(_ context.Context, at container.Place) (worktree.Tree, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod, err := c.pod(at)
	if err != nil {
		return nil, err
	}
	pod.unsure = false
	held := maps.Clone(pod.held)
	for path := range pod.pending {
		held[path] = worktree.File{}
	}
	return held, nil
}

// Sync implements container.Containers. Each file takes time.
func (c *fakeContainers) Sync(ctx context.Context, at container.Place, change worktree.Change, contents []worktree.Content, then worktree.Tree) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod, err := c.pod(at)
	if err != nil {
		return err
	}
	if pod.unsure {
		return errors.New("a sync has failed; list the files again")
	}
	pod.unsure = true
	pod.epoch++
	c.syncs = append(c.syncs, change)
	if c.hangs > 0 {
		c.hangs--
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
		return ctx.Err()
	}
	for _, path := range change.Paths() {
		pod.pending[path] = true
	}
	for _, path := range change.Remove {
		below := path + "/"
		maps.DeleteFunc(pod.tree, func(name string, _ worktree.File) bool { return name == path || strings.HasPrefix(name, below) })
	}
	for step, content := range contents {
		if step%(1+len(contents)/4) == 0 { // A packet of files.
			if err := c.pass(ctx, at, c.sendFor); err != nil {
				return err
			}
		}
		if c.atSync != nil {
			c.mu.Unlock()
			c.atSync(step)
			c.mu.Lock()
		}
		pod.tree[content.Path] = content.File
	}
	if err := c.pass(ctx, at, c.sendFor); err != nil {
		return err
	}
	pod.unsure = false
	pod.held, pod.pending = maps.Clone(then), map[string]bool{}
	return nil
}

// pass lets time pass, and fails if the pod has ended or the connection has. c.mu is held before and after.
func (c *fakeContainers) pass(ctx context.Context, at container.Place, lasting time.Duration) error {
	c.mu.Unlock()
	select {
	case <-time.After(lasting):
	case <-ctx.Done():
	}
	c.mu.Lock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := c.pod(at)
	return err
}

// Mark implements container.Containers.
func (c *fakeContainers) Mark(_ context.Context, at container.Place, slot string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod, err := c.pod(at)
	if err != nil {
		return "", err
	}
	return pod.marks[slot], nil
}

// Run implements container.Containers. A build takes time, and the run command runs until it is stopped.
func (c *fakeContainers) Run(ctx context.Context, at container.Place, command container.Command, output io.Writer) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod, err := c.pod(at)
	if err != nil {
		return 0, err
	}
	if command.Slot == "build" {
		before, epoch, isWhole := pod.tree.Root(), pod.epoch, len(pod.pending) == 0
		delete(pod.marks, command.Slot)
		if err := c.pass(ctx, at, c.buildFor); err != nil {
			return 0, err
		}
		if c.exits != nil {
			if code := c.exits(before); code != 0 {
				fmt.Fprintln(output, "main.go:3: syntax error")
				return code, nil
			}
		}
		if pod.built = before; pod.tree.Root() != before {
			pod.built = "a mixture"
		}
		if isWhole && pod.epoch == epoch {
			pod.marks[command.Slot] = command.Mark
		}
		return 0, nil
	}
	pod.running = pod.built
	pod.starts++
	for ctx.Err() == nil {
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if _, err := c.pod(at); err != nil { // The process may live on without its connection.
			return 0, err
		}
	}
	pod.running = ""
	return 0, ctx.Err()
}

// asked returns how many syncs were asked for.
func (c *fakeContainers) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.syncs)
}

// since returns the syncs that were asked for after the first ones.
func (c *fakeContainers) since(first int) []worktree.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.syncs[first:])
}

// fakeProject is a project in memory.
type fakeProject struct {
	mu       sync.Mutex
	tree     worktree.Tree
	watchers []func()
}

// Snapshot implements loop.Project.
func (p *fakeProject) Snapshot() worktree.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return worktree.Snapshot{Tree: p.tree, Listed: true}
}

// Contents implements loop.Project.
func (p *fakeProject) Contents(paths []string) (contents []worktree.Content, missing []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, path := range paths {
		file, is := p.tree[path]
		if !is {
			missing = append(missing, path)
			continue
		}
		contents = append(contents, worktree.Content{Path: path, File: file})
	}
	return contents, missing, nil
}

// edit changes the files.
func (p *fakeProject) edit(change func(tree worktree.Tree)) {
	p.mu.Lock()
	tree := maps.Clone(p.tree)
	change(tree)
	p.tree = tree
	watchers := slices.Clone(p.watchers)
	p.mu.Unlock()
	for _, changed := range watchers {
		changed()
	}
}
