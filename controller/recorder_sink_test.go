package controller

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	apieventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
)

// slowSink reports each call on asked, and returns when answer is closed.
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
	to := &slowSink{asked: make(chan struct{}, 2), answer: make(chan struct{})}
	sink := &quietSink{to: to}
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
	if !to.answered { // The race detector would see this, too.
		t.Error("end returned while an event was in flight")
	}
	if _, err := sink.Create(t.Context(), nil); err != nil || len(to.asked) > 0 {
		t.Errorf("an event after the end was sent, or failed with %v; want it dropped", err)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// crowdedSink records how many calls run at a time.
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
	sink := &quietSink{to: to}
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
		t.Errorf("%d events were sent at a time, want 1", most)
	}
}

func TestEventsBeyondAThousandThatWaitAreDropped(t *testing.T) {
	const sent = maxEvents + 500
	to := &slowSink{asked: make(chan struct{}, sent), answer: make(chan struct{})}
	sink := &quietSink{to: to}
	group := lifecycle.New(t.Context())
	dropped := make(chan struct{}, sent)
	for range sent {
		group.Go("event", func(ctx context.Context) error {
			_, err := sink.Create(ctx, nil)
			dropped <- struct{}{}
			return err
		})
	}
	for range sent - maxEvents {
		<-dropped // None is answered yet.
	}
	close(to.answer)
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if got := len(to.asked); got != maxEvents {
		t.Errorf("%d were sent, want %d", got, maxEvents)
	}
}

func TestAnEventThatIsNotAnsweredHoldsUpOthersForTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := (&quietSink{to: silentSink{}}).Create(t.Context(), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took != eventTimeout {
			t.Errorf("it took %v", took)
		}
	})
}

// silentSink never answers: a call ends with its context.
type silentSink struct{ events.EventSink }

func (silentSink) Create(ctx context.Context, _ *apieventsv1.Event) (*apieventsv1.Event, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
