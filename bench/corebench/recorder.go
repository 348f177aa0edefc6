package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recorder records, for one run, the events that a reconcile has seen, and the delay from their
// delivery. Reconciles of one key must not overlap, which both sides guarantee. Reconciles of
// different keys may overlap.
type recorder struct {
	world      *world
	kinds      []*seen // in the order of world.feeds
	reconciles atomic.Int64

	listing, updating atomic.Int64 // the numbers of events that are not seen yet
	listed, updated   chan struct{}
}

type seen struct {
	last  []int           // by key: the number of the last event seen; -1 if none
	delay []time.Duration // by number of the update: from its delivery to the reconcile
}

func newRecorder(world *world) *recorder {
	r := &recorder{world: world, listed: make(chan struct{}), updated: make(chan struct{})}
	for _, feed := range world.feeds {
		books := &seen{last: make([]int, feed.script.keys), delay: make([]time.Duration, feed.script.updates)}
		for key := range books.last {
			books.last[key] = -1
		}
		r.kinds = append(r.kinds, books)
		r.listing.Add(int64(feed.script.keys))
		r.updating.Add(int64(feed.script.updates))
	}
	return r
}

// reconcile implements the reconciler of both sides. It reads the object of each kind with get.
func (r *recorder) reconcile(name string, get func(kind int) (metav1.Object, bool)) {
	r.reconciles.Add(1)
	now := time.Since(r.world.clock)
	for kind := range r.kinds {
		if object, found := get(kind); found {
			r.saw(kind, keyOfName(name), numberOf(object), now)
		}
	}
}

// sawNow records that an object of a kind is seen now.
func (r *recorder) sawNow(kind int, object metav1.Object) {
	r.saw(kind, keyOfName(object.GetName()), numberOf(object), time.Since(r.world.clock))
}

// saw records that all events of a key up to a number are seen.
func (r *recorder) saw(kind, key, number int, now time.Duration) {
	books, feed := r.kinds[kind], r.world.feeds[kind]
	last := books.last[key]
	if number <= last {
		return
	}
	books.last[key] = number
	if last < 0 {
		last = key
		if r.listing.Add(-1) == 0 {
			close(r.listed)
		}
	}
	updates := 0
	for n := feed.script.after(last); n <= number; n = feed.script.after(n) {
		// A reconcile may read an object that was delivered after the reconcile started. The
		// delay is 0 then.
		books.delay[n-feed.script.keys-1] = max(now-feed.delivered[n], 0)
		updates++
	}
	if updates > 0 && r.updating.Add(int64(-updates)) == 0 {
		close(r.updated)
	}
}

// wait waits until all events of a phase are seen. If ctx ends before that, the error counts the
// missing events.
func (r *recorder) wait(ctx context.Context, phase <-chan struct{}) error {
	select {
	case <-phase:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d listed objects and %d updates were not seen: %w", r.listing.Load(), r.updating.Load(), context.Cause(ctx))
	}
}

// delays returns the delay of every update, sorted.
func (r *recorder) delays() []time.Duration {
	var all []time.Duration
	for _, books := range r.kinds {
		all = append(all, books.delay...)
	}
	slices.Sort(all)
	return all
}

// percentile returns the smallest value that at least percent % of the sorted values do not
// exceed.
func percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
