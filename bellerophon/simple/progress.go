package simple

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// progressEvery is how often a status on its way is written: a state that lasts less is
// no news, and each write costs the API server as much as a child does.
const progressEvery = time.Second

// progressBurst is how many such statuses are written of all objects together, and
// progressEvery one more: people read a few, and where many objects are on their way, the API
// server has better things to do.
const progressBurst = 5

// progress says when a status on its way is written. Its methods may be called from any
// goroutine.
type progress struct {
	limit *rate.Limiter

	mu    sync.Mutex
	paces map[types.NamespacedName]pace // of objects on their way
}

type pace struct{ since, next time.Time }

func newProgress() *progress {
	return &progress{limit: rate.NewLimiter(rate.Every(progressEvery), progressBurst), paces: map[types.NamespacedName]pace{}}
}

// forget drops what is known of an object that is gone, or has settled.
func (p *progress) forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.paces, name)
}

// wait is how long the status of an object on its way is not written yet: 0 to write it now.
func (p *progress) wait(name types.NamespacedName) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	known, onItsWay := p.paces[name]
	switch {
	case !onItsWay:
		known = pace{now, now.Add(progressEvery)}
	case now.Before(known.next):
	case !p.limit.Allow(): // The longer it takes, the less often it asks.
		known.next = now.Add(max(progressEvery, now.Sub(known.since)))
	default:
		p.paces[name] = pace{now, now.Add(progressEvery)}
		return 0
	}
	p.paces[name] = known
	return known.next.Sub(now)
}
