// Package signal tells streams that something has changed, without saying what. Signals that a slow
// reader has not seen are one, and none is lost: an observation begins with a signal.
package signal

import (
	"context"
	"sync"

	"github.com/bellerophon-io/bellerophon/streams"
)

// Signal is a source of signals. The zero value is ready. Its methods may be called from any goroutine.
type Signal struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next Send; nil before the first observation
}

// Send signals a change. It never waits.
func (s *Signal) Send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// Stream returns a stream that emits an item at once, and one after each Send.
func (s *Signal) Stream() streams.Stream[struct{}] {
	return streams.Create(func(ctx context.Context, out streams.Sink[struct{}]) {
		for {
			next := s.wait() // Before the item, so that a Send meanwhile makes another one.
			if !out.Send([]struct{}{{}}) {
				return
			}
			select {
			case <-next:
			case <-ctx.Done():
				return
			}
		}
	})
}

func (s *Signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}
