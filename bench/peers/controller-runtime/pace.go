package main

import (
	"sync"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
)

// pace is how long the StatefulSet controller takes to follow lately. While it is behind, the API server is
// the bottleneck, and the first status of a new object may be held back for twice as long.
type pace struct {
	mu      sync.Mutex
	typical time.Duration
	ended   time.Time // when it followed last
}

// took records that it has followed after a time.
func (p *pace) took(duration time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.ended) > time.Minute {
		p.typical = duration
	}
	p.typical += (duration - p.typical) / 5
	p.ended = now
}

// held returns how long the status of an unfinished rollout is held back.
func (p *pace) held(hero *v1.BellerophonSimple, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if hero.Status.ObservedGeneration > 0 || now.Sub(p.ended) > time.Minute {
		return progressEvery
	}
	return min(max(2*p.typical, progressEvery), 2*time.Minute)
}
