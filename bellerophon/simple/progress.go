package simple

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// progressEvery is the interval between writes of an interim status, which is the status of an object
	// that has not settled. A state that lasts less is not worth a write, because each write costs the
	// API server as much as a child does.
	progressEvery = time.Second
	// mostHeld bounds how long the interim status of a new object is held back while the API server is the
	// bottleneck. Then these writes delay the work that they report. Until its first status, the object has
	// the default of its definition, which says that it is pending.
	mostHeld = 2 * time.Minute
)

// progress limits how often interim statuses are written. Its methods may be called from any
// goroutine.
type progress struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time // when an interim status was written, or before the first one, when it differed first
}

func newProgress() *progress { return &progress{since: map[types.NamespacedName]time.Time{}} }

// forget drops the state of an object that is gone, or has settled.
func (p *progress) forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, name)
}

// wait returns how long to wait before the interim status of an object is written, or 0 to write it
// now. An object's first interim status waits for the whole interval. The interval may change while
// an object waits, and the latest one counts.
func (p *progress) wait(name types.NamespacedName, interval time.Duration, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, pending := p.since[name]
	if !pending {
		p.since[name] = now
		return interval
	}
	if left := since.Add(interval).Sub(now); left > 0 {
		return left
	}
	p.since[name] = now
	return 0
}
