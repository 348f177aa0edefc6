package streams

import (
	"context"
	"slices"

	"github.com/reactivex/rxgo/v2"
)

// shareObserver is one observer's place in the log of a run.
type shareObserver[T, S any] struct {
	run      *shareRun[T, S]
	snapshot []T   // to send before the entry at place
	place    int   // of the next entry to read
	values   int   // total of values that were ever in the log before place
	errors   int   // total of errors that were ever in the log before place
	parts    [][]T // reused by take
}

// toEnd moves the place to the end of the log and takes the snapshot of the current state. The
// caller holds the lock of the run.
func (o *shareObserver[T, S]) toEnd() {
	r := o.run
	if r.options.Replay != nil {
		o.snapshot = r.options.Replay(r.state)
	}
	o.place, o.values, o.errors = r.first+len(r.log), r.values, r.errors
}

// serve sends the snapshot and the entries of the log until the input or ctx ends.
func (o *shareObserver[T, S]) serve(ctx context.Context, out Sink[T]) {
	for {
		item, filled, ended := o.take()
		switch {
		case ended:
			return
		case filled != nil:
			select {
			case <-filled:
			case <-ctx.Done():
				return
			}
		default:
			if len(o.parts) > 0 {
				// Copy, because others read the parts too, and a receiver may change its batch.
				item.V = slices.Concat(o.parts...)
				clear(o.parts)
				o.parts = o.parts[:0]
			}
			if item.V != nil {
				item = out.item(item.V)
			}
			if !out.forward(item) {
				return
			}
		}
	}
}

// take returns what the observer gets next: an item, or batches in o.parts. If there is nothing
// yet, it returns a channel that is closed once there is.
func (o *shareObserver[T, S]) take() (item rxgo.Item, filled <-chan struct{}, ended bool) {
	r := o.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(o.snapshot) > 0 {
		item.V, o.snapshot = o.snapshot, nil
		return item, nil, false
	}
	if o.place < r.first {
		lagged := &Lagged{Missed: r.values - o.values, Errors: r.errors - o.errors}
		r.read(r.first, r.first+len(r.log))
		o.toEnd()
		return rxgo.Item{E: lagged}, nil, false
	}
	next := o.place
	for taken := 0; next < r.first+len(r.log) && taken < maxBatch; next++ {
		entry := r.log[next-r.first]
		if entry.err != nil {
			if len(o.parts) == 0 {
				item.E = entry.err
				o.errors++
				next++
			}
			break
		}
		o.parts = append(o.parts, entry.batch)
		taken += len(entry.batch)
	}
	if next > o.place {
		for _, part := range o.parts {
			o.values += len(part)
		}
		r.read(o.place, next)
		o.place = next
		return item, nil, false
	}
	if r.ended {
		return item, nil, true
	}
	if r.filled == nil {
		r.filled = make(chan struct{})
	}
	return item, r.filled, false
}

// unsubscribe gives up the place. It reports whether this was the last observer of the run.
func (o *shareObserver[T, S]) unsubscribe() bool {
	r := o.run
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observers--
	r.read(max(o.place, r.first), r.first+len(r.log))
	return r.observers == 0
}
