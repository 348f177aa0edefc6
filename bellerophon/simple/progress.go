package simple

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// progressEvery is the interval between writes of an interim status, which is the status of an object
// that has not settled. A state that lasts less is not worth a write, because each write costs the
// API server as much as a child does.
const progressEvery = time.Second

// progress limits how often interim statuses are written. Its methods may be called from any
// goroutine.
type progress struct {
	mu   sync.Mutex
	next map[types.NamespacedName]time.Time // when the interim status of an object may be written
}

func newProgress() *progress { return &progress{next: map[types.NamespacedName]time.Time{}} }

// forget drops the state of an object that is gone, or has settled.
func (p *progress) forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.next, name)
}

// wait returns how long to wait before the interim status of an object is written, or 0 to write it
// now. An object's first interim status waits for the whole interval.
func (p *progress) wait(name types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	next, pending := p.next[name]
	if pending && now.Before(next) {
		return next.Sub(now)
	}
	p.next[name] = now.Add(progressEvery)
	if !pending {
		return progressEvery
	}
	return 0
}
