package signal_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/signal"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// observer counts the items of an observation.
type observer struct {
	t     *testing.T
	group *lifecycle.Group
	items atomic.Int64
	errs  atomic.Int64
}

// observe observes a signal until the observer ends. seen is called for each item; it may be nil.
func observe(t *testing.T, source *signal.Signal, seen func()) *observer {
	t.Helper()
	made := &observer{t: t, group: lifecycle.New(t.Context())}
	made.group.Go("observer", func(ctx context.Context) error {
		return streams.ForEach(ctx, source.Stream(), func(items []struct{}) {
			made.items.Add(int64(len(items)))
			if seen != nil {
				seen()
			}
		}, func(error) { made.errs.Add(1) })
	})
	return made
}

func (o *observer) end() {
	o.t.Helper()
	o.group.Stop()
	if err := o.group.Wait(); err != nil {
		o.t.Error(err)
	}
	if failures := o.errs.Load(); failures != 0 {
		o.t.Errorf("the stream has reported %d errors, want none", failures)
	}
}

func (o *observer) want(items int64, after string) {
	o.t.Helper()
	synctest.Wait()
	if found := o.items.Load(); found != items {
		o.t.Errorf("after %s, the observer has %d items, want %d", after, found, items)
	}
}

func TestAnObservationBeginsWithASignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &signal.Signal{}
		source.Send() // No observation has begun.
		first := observe(t, source, nil)
		first.want(1, "its begin")
		second := observe(t, source, nil)
		second.want(1, "its begin")
		first.want(1, "the begin of another one")
		first.end()
		second.end()
	})
}

func TestEachObserverGetsEachSendThatItIsReadyFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &signal.Signal{}
		observers := []*observer{observe(t, source, nil), observe(t, source, nil), observe(t, source, nil)}
		synctest.Wait()
		for sends := int64(1); sends <= 10; sends++ {
			source.Send()
			for _, each := range observers {
				each.want(1+sends, "a Send")
			}
		}
		observers[0].end()
		source.Send()
		observers[1].want(12, "the end of another observer and a Send")
		for _, each := range observers[1:] {
			each.end()
		}
		if found := observers[0].items.Load(); found != 11 {
			t.Errorf("the observer that has ended has %d items, want 11", found)
		}
	})
}

// A reader that is slow must see every change, although it gets fewer items than there were changes.
func TestNoSignalIsLostWhileASlowObserverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &signal.Signal{}
		var value, read atomic.Int64
		slow := observe(t, source, func() {
			read.Store(value.Load())
			<-time.After(time.Second)
		})
		synctest.Wait()
		for range 1000 {
			value.Add(1)
			source.Send()
			<-time.After(10 * time.Millisecond)
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
		if read.Load() != 1000 {
			t.Errorf("the observer has read %d, want the last value, 1000", read.Load())
		}
		if items := slow.items.Load(); items > 20 {
			t.Errorf("a second for each of %d items is longer than 10 s of sends; want signals that are one", items)
		}
		slow.end()
	})
}

// The clock is real here, so that the goroutines run at once.
func TestTheLastOfManyConcurrentSendsReachesEachObserver(t *testing.T) {
	source := &signal.Signal{}
	const senders, sends, want = 4, 500, 4 * 500
	var value atomic.Int64
	done := make([]chan struct{}, 3)
	observers := make([]*observer, len(done))
	for i := range done {
		var once sync.Once
		done[i] = make(chan struct{})
		observers[i] = observe(t, source, func() {
			if value.Load() == want {
				once.Do(func() { close(done[i]) })
			}
		})
	}
	group := lifecycle.New(t.Context())
	for range senders {
		group.Go("sender", func(context.Context) error {
			for range sends {
				value.Add(1)
				source.Send()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	late := time.After(20 * time.Second)
	for i, each := range done {
		select {
		case <-each:
		case <-late:
			t.Errorf("observer %d has not seen the last value within 20 s", i)
		}
	}
	for _, each := range observers {
		each.end()
	}
}

func TestAnObserverEndsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // The bubble fails if a goroutine is left.
		source := &signal.Signal{}
		one := observe(t, source, nil)
		one.want(1, "its begin")
		one.end()
		source.Send()
		if found := one.items.Load(); found != 1 {
			t.Errorf("an observer that has ended gets %d items, want 1", found)
		}
	})
}
