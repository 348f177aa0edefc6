package loop

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/controller"
)

// maxBatch bounds the content in memory: a sync with more of it goes in several batches, in bytes.
const maxBatch = 32 << 20

// maxRounds bounds the syncs of one call. Files that change all the time are left to the next call, so that a
// reconcile ends.
const maxRounds = 3

// waiting is the delay of a call that waits for an event, in case that none comes.
const waiting = time.Minute

// held is what a container has of the project.
type held struct {
	place   container.Place
	tree    worktree.Tree // nil if it is unknown
	sent    int
	removed int
	bytes   int64
}

// sync makes the files in a container equal to the project's, and returns them. A sync that must go on later returns
// a delay.
func (l *Loop) sync(ctx context.Context, place container.Place, status *contract.Status) (tree worktree.Tree, again time.Duration, err error) {
	if l.held.place != place {
		l.held = held{place: place}
	}
	defer func() { l.reportSync(status) }()
	ctx, done := l.guard.use(ctx, place)
	defer done()
	for range maxRounds {
		seen := l.options.Project.Snapshot()
		if !seen.Listed {
			status.Message = "reading the project's files"
			return nil, waiting, nil // The end of the list is a change, which makes another call.
		}
		status.Sync.Problems = seen.Problems
		if l.held.tree == nil {
			if l.held.tree, err = l.options.Containers.Held(ctx, place); err != nil {
				l.held.tree = nil
				return nil, 0, fmt.Errorf("read the list of synced files: %w", ended(ctx, err))
			}
		}
		change := worktree.Difference(l.held.tree, seen.Tree)
		if change.IsEmpty() {
			return seen.Tree, 0, nil
		}
		if err := l.send(ctx, place, change, seen.Tree); err != nil {
			l.held.tree = nil // What the container has now, it knows best.
			return nil, 0, fmt.Errorf("sync the files: %w", ended(ctx, err))
		}
	}
	return nil, controller.RequeueSoon, nil
}

// ended returns why ctx has ended, or err if it has not.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// send applies a change to the container, in batches. Each file is sent as it is now. It may differ from what want has:
// then the next round sends it again, or removes it.
func (l *Loop) send(ctx context.Context, place container.Place, change worktree.Change, want worktree.Tree) error {
	// A build during which files change has had some of each state. The container decides whether it counts: see Mark.
	l.slots.stopSlot(buildSlot)
	l.held.sent, l.held.removed, l.held.bytes = 0, len(change.Remove), 0
	for first := true; first || len(change.Send) > 0; first = false {
		paths, rest := batch(change.Send, want)
		contents, _, err := l.options.Project.Contents(paths)
		if err != nil {
			return err
		}
		then := maps.Clone(l.held.tree)
		part := worktree.Change{Send: make([]string, 0, len(contents))}
		if first {
			part.Remove, part.RemoveEmpty = change.Remove, change.RemoveEmpty
			for _, path := range change.Remove {
				delete(then, path)
			}
		}
		for _, content := range contents {
			part.Send = append(part.Send, content.Path)
			then[content.Path] = content.File
			l.held.bytes += int64(len(content.Data))
		}
		if err := l.options.Containers.Sync(ctx, place, part, contents, then); err != nil {
			return err
		}
		l.held.tree, l.held.sent, change.Send = then, l.held.sent+len(contents), rest
	}
	return nil
}

// batch returns the first paths of a change whose sizes fit in a batch, and the others.
func batch(paths []string, sizes worktree.Tree) (now, later []string) {
	var sum int64
	for i, path := range paths {
		if sum += sizes[path].Size; sum > maxBatch && i > 0 {
			return paths[:i], paths[i:]
		}
	}
	return paths, nil
}

// reportSync notes in the Status what the container has.
func (l *Loop) reportSync(status *contract.Status) {
	if l.held.tree == nil {
		return
	}
	status.Sync.Root, status.Sync.Files = l.held.tree.Root(), len(l.held.tree)
	status.Sync.Sent, status.Sync.Removed, status.Sync.Bytes = l.held.sent, l.held.removed, l.held.bytes
}
