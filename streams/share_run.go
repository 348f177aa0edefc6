package streams

import (
	"context"
	"sync"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// shareRun is one observation of the input of a Share. It has the state, and a log of the entries
// that some observer has not read yet. The input appends, and each observer reads at its own place.
type shareRun[T, S any] struct {
	options ShareOptions[T, S]
	group   *lifecycle.Group
	gone    chan struct{} // closed when the last observer has left and the input has ended

	mu        sync.Mutex
	state     S
	ended     bool // the input has ended
	observers int
	log       []shareEntry[T]
	first     int           // the place of log[0]
	held      int           // values and errors in log
	values    int           // total of values that were ever in log
	errors    int           // total of errors that were ever in log
	filled    chan struct{} // closed when there is more to read; nil while no observer waits
	room      chan struct{} // closed when log may have room; nil while the input does not wait
}

// shareEntry is a batch or an error. Neither changes while it is in the log.
type shareEntry[T any] struct {
	batch  []T
	err    error
	unread int // the number of observers that have yet to read it
}

func (e shareEntry[T]) size() int {
	if e.err != nil {
		return 1
	}
	return len(e.batch)
}

// start observes the input in a goroutine of the run, because the run outlives its first observer.
func (r *shareRun[T, S]) start(ctx context.Context, in Stream[T]) {
	r.group = lifecycle.New(context.WithoutCancel(ctx))
	r.group.Go("share", func(ctx context.Context) error {
		defer r.end()
		err := ForEach(ctx, in,
			func(batch []T) { r.publish(ctx, shareEntry[T]{batch: batch}) },
			func(err error) { r.publish(ctx, shareEntry[T]{err: err}) })
		if err != nil { // Fold panicked.
			r.publish(ctx, shareEntry[T]{err: err})
		}
		return nil
	})
}

// stop cancels the input and waits for it.
func (r *shareRun[T, S]) stop() {
	r.group.Stop()
	_ = r.group.Wait() // Always nil: its one function returns nil.
}

func (r *shareRun[T, S]) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	wake(&r.filled)
}

func (r *shareRun[T, S]) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// publish appends an entry. It waits while the log is full and no observer has read the oldest
// entry, because all observers are then a buffer behind.
func (r *shareRun[T, S]) publish(ctx context.Context, entry shareEntry[T]) {
	if entry.size() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.log) > 0 && r.held+entry.size() > r.options.Buffer {
		if r.log[0].unread < r.observers {
			r.dropOldest()
			continue
		}
		if r.room == nil {
			r.room = make(chan struct{})
		}
		room := r.room
		r.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		r.mu.Lock()
		if ctx.Err() != nil {
			return
		}
	}
	r.append(entry)
}

// force appends an entry without waiting: observers that have not read the oldest entries lag.
func (r *shareRun[T, S]) force(entry shareEntry[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.log) > 0 && r.held+entry.size() > r.options.Buffer {
		r.dropOldest()
	}
	r.append(entry)
}

// append appends an entry, for which there is room. The run is locked.
func (r *shareRun[T, S]) append(entry shareEntry[T]) {
	if entry.err != nil {
		r.errors++
	} else {
		if r.options.Fold != nil {
			r.state = r.options.Fold(r.state, entry.batch)
		}
		r.values += len(entry.batch)
	}
	if r.observers == 0 {
		return // The last observer has left, so the run is about to end.
	}
	entry.unread = r.observers
	r.log = append(r.log, entry)
	r.held += entry.size()
	wake(&r.filled)
}

// read marks the entries between two places as read by one observer, or as no longer needed by it.
// It drops the entries that all observers have read. The caller holds the lock.
func (r *shareRun[T, S]) read(from, to int) {
	for place := from; place < to; place++ {
		r.log[place-r.first].unread--
	}
	for len(r.log) > 0 && r.log[0].unread == 0 {
		r.dropOldest()
	}
	wake(&r.room)
}

func (r *shareRun[T, S]) dropOldest() {
	r.held -= r.log[0].size()
	r.log[0] = shareEntry[T]{}
	r.log = r.log[1:]
	r.first++
}

// wake closes a channel that others wait on, if there is one, and resets it.
func wake(waiting *chan struct{}) {
	if *waiting != nil {
		close(*waiting)
		*waiting = nil
	}
}

// subscribe creates an observer whose place is the end of the log. It returns nil if the last
// observer has left.
func (r *shareRun[T, S]) subscribe() *shareObserver[T, S] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.observers == 0 && r.group != nil {
		return nil
	}
	o := &shareObserver[T, S]{run: r}
	o.toEnd()
	r.observers++
	wake(&r.room) // The new observer is not behind, so the input need not wait.
	return o
}
