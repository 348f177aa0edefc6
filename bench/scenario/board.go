package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// board tracks the progress of each object as a number that only grows, such as a generation. A
// caller can wait until all objects have reached their wanted numbers. The methods may be called
// from any goroutine.
type board struct {
	mu      sync.Mutex
	marks   map[types.NamespacedName]mark
	wanted  map[types.NamespacedName]uint64
	reached map[types.NamespacedName]time.Time // when the object reached its last wanted number
	changed chan struct{}                      // closed and replaced when fewer objects may be missing
}

// mark is the number of an object and the time at which the object reached it.
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

// mark records the number that an object has reached. A smaller number than before is ignored.
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

// want sets the number that an object has to reach. The object may have reached it already.
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

// gone records that an object was deleted. It is not waited for any more.
func (b *board) gone(object types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.marks, object)
	delete(b.wanted, object)
	b.notify()
}

// reach records that an object has reached its wanted number. Its caller holds the lock.
func (b *board) reach(object types.NamespacedName, at time.Time) {
	b.reached[object] = at
	delete(b.wanted, object)
	b.notify()
}

// notify wakes the callers of await. Its caller holds the lock.
func (b *board) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// at returns when an object reached its last wanted number, and whether it did.
func (b *board) at(object types.NamespacedName) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, is := b.reached[object]
	return at, is
}

// await waits until all objects have reached their wanted numbers. It calls each with the number of
// missing objects whenever that may have changed. The error names one missing object.
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
