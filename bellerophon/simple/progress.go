package simple

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// progressEvery is how often a status on its way is written: a state that lasts less is
// no news, and each write costs the API server as much as a child does.
const progressEvery = time.Second

// progress says when a status on its way is written. Its methods may be called from any
// goroutine.
type progress struct {
	mu   sync.Mutex
	next map[types.NamespacedName]time.Time // of objects on their way
}

func newProgress() *progress { return &progress{next: map[types.NamespacedName]time.Time{}} }

// forget drops what is known of an object that is gone, or has settled.
func (p *progress) forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.next, name)
}

// wait is how long the status of an object on its way is not written yet: 0 to write it now.
func (p *progress) wait(name types.NamespacedName) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	next, onItsWay := p.next[name]
	if onItsWay && now.Before(next) {
		return next.Sub(now)
	}
	p.next[name] = now.Add(progressEvery)
	if !onItsWay {
		return progressEvery
	}
	return 0
}
