package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/shards"
	"k8s.io/client-go/rest"
)

// light is a replica of a sampled cell that shares its slots as the others do, and has no cache. What it would read
// is modelled: whenever slots come, everything is read from the first page to the last, as package sources does.
type light struct {
	of     *replica
	member *shards.Member
	woken  chan struct{} // has a token when slots came

	mu          sync.Mutex
	kept, owned shards.Set
	reading     chan struct{} // closed when everything is read; nil if it is
}

// newLight makes a replica a light one.
func newLight(of *replica, config *rest.Config, requests *http.Client, options shards.Options) (made *light, err error) {
	made = &light{of: of, woken: make(chan struct{}, 1)}
	if made.member, err = shards.New(config, requests, options, made, slog.New(slog.DiscardHandler)); err != nil {
		return nil, fmt.Errorf("making a light replica: %w", err)
	}
	return made, nil
}

// Keep implements shards.Share.
func (l *light) Keep(slots shards.Set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slots.Without(l.kept) != (shards.Set{}) {
		select {
		case l.woken <- struct{}{}:
		default:
		}
		if l.reading == nil {
			l.reading = make(chan struct{})
		}
	}
	l.kept = slots
}

// Own implements shards.Share.
func (l *light) Own(slots shards.Set) {
	l.mu.Lock()
	lost := l.owned.Without(slots)
	l.owned = slots
	l.mu.Unlock()
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	for slot := range lost.All() {
		l.of.probed[slot] = time.Now().Add(-probeEvery / 2) // Until now, it was reconciled once in probeEvery.
	}
}

// Keys implements shards.Share.
func (l *light) Keys() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept.Len() * l.of.ships() / shards.Slots
}

// has reports whether the replica owns a slot.
func (l *light) has(slot int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owned.Has(slot)
}

// read reads everything whenever slots have come, until ctx ends.
func (l *light) read(ctx context.Context) error {
	var known shards.Set // what was read
	l.of.wire.took(Traffic{Watches: 2, Others: 1})
	for {
		select {
		case <-l.woken:
		case <-ctx.Done():
			return nil
		}
		l.mu.Lock()
		kept := l.kept
		l.mu.Unlock()
		pages := 2 * ((l.of.ships() + pageSize - 1) / pageSize)
		l.of.wire.took(Traffic{Reads: 2, Pages: pages})
		for range pages {
			l.of.wire.take(ctx, &l.of.wire.counts.PageBytes, int(l.of.full)/pages)
		}
		if ctx.Err() == nil {
			l.taken(kept.Without(known))
		}
		known = kept
		l.mu.Lock()
		if len(l.woken) == 0 {
			close(l.reading)
			l.reading = nil
		}
		l.mu.Unlock()
	}
}

// await waits until everything is read.
func (l *light) await(ctx context.Context) error {
	l.mu.Lock()
	reading := l.reading
	l.mu.Unlock()
	if reading == nil {
		return nil
	}
	select {
	case <-reading:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// taken notes that slots were taken over, and that their objects are reconciled.
func (l *light) taken(slots shards.Set) {
	w := l.of.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for slot := range slots.All() {
		w.took(slot, time.Now())
		w.moved += w.shipsIn[slot]
		w.movedAt = time.Now()
	}
}
