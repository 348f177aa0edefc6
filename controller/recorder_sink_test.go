package controller

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	apieventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
)

// slowSink says when it has been asked, and answers when it is let go.
type slowSink struct {
	events.EventSink
	asked, answer chan struct{}
	answered      bool
}

func (s *slowSink) Create(context.Context, *apieventsv1.Event) (*apieventsv1.Event, error) {
	s.asked <- struct{}{}
	<-s.answer
	s.answered = true
	return nil, nil
}

func TestAfterTheRecordersEndNoEventIsOnItsWayOrSent(t *testing.T) {
	to := &slowSink{asked: make(chan struct{}), answer: make(chan struct{})}
	sink := &endingSink{to: to}
	group := lifecycle.New(t.Context())
	group.Go("event", func(ctx context.Context) error {
		_, err := sink.Create(ctx, nil)
		return err
	})
	<-to.asked
	group.Go("answer", func(context.Context) error {
		close(to.answer)
		return nil
	})
	sink.end()
	if !to.answered { // The race detector sees it, too.
		t.Error("it ended while an event was on its way")
	}
	if _, err := sink.Create(t.Context(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("an event after the end: %v, want that it is not sent", err)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// crowdedSink sees whether more than one is in it.
type crowdedSink struct {
	events.EventSink
	inside, most atomic.Int64
}

func (s *crowdedSink) Create(context.Context, *apieventsv1.Event) (*apieventsv1.Event, error) {
	s.most.Store(max(s.most.Load(), s.inside.Add(1)))
	defer s.inside.Add(-1)
	for range 100 {
		runtime.Gosched()
	}
	return nil, nil
}

func TestEventsAreSentOneAtATime(t *testing.T) {
	to := &crowdedSink{}
	sink := &endingSink{to: to}
	group := lifecycle.New(t.Context())
	for range 100 {
		group.Go("event", func(ctx context.Context) error {
			_, err := sink.Create(ctx, nil)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if most := to.most.Load(); most != 1 {
		t.Errorf("%d were sent at a time", most)
	}
}
