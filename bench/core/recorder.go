package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recorder keeps the books of one run: which events a reconcile has seen, and how long
// after their delivery. Reconciles of one key must not overlap, which both sides promise;
// those of different keys may.
type recorder struct {
	world      *world
	kinds      []*seen // as in the world
	reconciles atomic.Int64

	listing, updating atomic.Int64 // events that are not seen yet
	listed, updated   chan struct{}
}

type seen struct {
	last  []int           // by key: the number of the last event seen; -1 before
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

// reconcile is the reconciler of both sides. It reads the object of each kind by get.
func (r *recorder) reconcile(name string, get func(kind int) (metav1.Object, bool)) {
	r.reconciles.Add(1)
	now := time.Since(r.world.clock)
	for kind := range r.kinds {
		if object, found := get(kind); found {
			r.saw(kind, keyOfName(name), numberOf(object), now)
		}
	}
}

// sawNow is for one object of a kind.
func (r *recorder) sawNow(kind int, object metav1.Object) {
	r.saw(kind, keyOfName(object.GetName()), numberOf(object), time.Since(r.world.clock))
}

// saw notes that everything of a key up to a number is seen.
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
		// A reconcile may read what was delivered after its start: then nothing was waited for.
		books.delay[n-feed.script.keys-1] = max(now-feed.delivered[n], 0)
		updates++
	}
	if updates > 0 && r.updating.Add(int64(-updates)) == 0 {
		close(r.updated)
	}
}

// wait returns when all of a phase is seen, or says what is missing.
func (r *recorder) wait(ctx context.Context, phase <-chan struct{}) error {
	select {
	case <-phase:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d listed objects and %d updates were not seen: %w", r.listing.Load(), r.updating.Load(), context.Cause(ctx))
	}
}

// delays is the delay of every update, sorted.
func (r *recorder) delays() []time.Duration {
	var all []time.Duration
	for _, books := range r.kinds {
		all = append(all, books.delay...)
	}
	slices.Sort(all)
	return all
}

// percentile is the smallest of sorted values that so many percent do not exceed.
func percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
