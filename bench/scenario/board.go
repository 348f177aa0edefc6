package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// board knows how far each object is, as a number that grows, and tells when all are as
// far as is wanted. Its methods may be called from any goroutine.
type board struct {
	mu      sync.Mutex
	marks   map[types.NamespacedName]mark
	wanted  map[types.NamespacedName]uint64
	reached map[types.NamespacedName]time.Time // when the last wanted number was
	changed chan struct{}                      // closed and replaced when somebody may wait for less
}

type mark struct {
	value uint64
	at    time.Time
}

func newBoard() *board {
	return &board{
		marks: map[types.NamespacedName]mark{}, wanted: map[types.NamespacedName]uint64{}, reached: map[types.NamespacedName]time.Time{},
		changed: make(chan struct{}),
	}
}

// mark notes how far an object is.
func (b *board) mark(object types.NamespacedName, value uint64, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if value <= b.marks[object].value {
		return
	}
	b.marks[object] = mark{value, at}
	if wanted, is := b.wanted[object]; is && value >= wanted {
		b.reach(object, at)
	}
}

// want says how far an object has to come. It may be there already.
func (b *board) want(object types.NamespacedName, value uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if held := b.marks[object]; held.value >= value {
		b.reach(object, held.at)
		return
	}
	delete(b.reached, object)
	b.wanted[object] = value
}

// gone notes that an object was deleted. Nothing is wanted of it any more.
func (b *board) gone(object types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.marks, object)
	delete(b.wanted, object)
	b.tell()
}

// reach and tell are called with the lock held.
func (b *board) reach(object types.NamespacedName, at time.Time) {
	b.reached[object] = at
	delete(b.wanted, object)
	b.tell()
}

func (b *board) tell() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// at is when an object was as far as was wanted last.
func (b *board) at(object types.NamespacedName) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, is := b.reached[object]
	return at, is
}

// await waits until all objects are as far as is wanted, and calls each with the number
// that is missing when that may have changed. The error names one that is not.
func (b *board) await(ctx context.Context, each func(missing int)) error {
	for {
		b.mu.Lock()
		missing, changed := len(b.wanted), b.changed
		var one types.NamespacedName
		for one = range b.wanted {
			break
		}
		b.mu.Unlock()
		each(missing)
		if missing == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d objects are missing, among them %s: %w", missing, one, context.Cause(ctx))
		}
	}
}
