package streams_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/streams"
)

// follower collects what one observation of a stream gets.
type follower struct {
	values []int
	errs   []error
	done   chan struct{}
}

// follow observes a stream until it ends. At each batch it waits until pass is closed, or receives
// from pass.
func follow(ctx context.Context, t *testing.T, stream streams.Stream[int], pass <-chan struct{}) *follower {
	t.Helper()
	made := &follower{done: make(chan struct{})}
	parallel(t, func(context.Context) {
		defer close(made.done)
		_ = streams.ForEach(ctx, stream,
			func(batch []int) { <-pass; made.values = append(made.values, batch...) },
			func(err error) { made.errs = append(made.errs, err) })
	})
	return made
}

func TestASubjectSendsToAllWhoObserveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject, open := streams.NewSubject[int](0), make(chan struct{})
		close(open)
		batch := []int{1}
		subject.Send(batch)
		first := follow(t.Context(), t, subject.Stream(), open)
		synctest.Wait()
		batch[0] = 2
		subject.Send(batch)
		batch[0] = 9 // The batch stays the sender's own.
		second := follow(t.Context(), t, subject.Stream(), open)
		synctest.Wait()
		subject.Send([]int{3})
		failed := errors.New("failed")
		subject.Error(failed)
		subject.Send([]int{4})
		subject.End()
		<-first.done
		<-second.done
		if !slices.Equal(first.values, []int{2, 3, 4}) || !slices.Equal(second.values, []int{3, 4}) {
			t.Errorf("got %v and %v, want what was sent from the start of each observation on", first.values, second.values)
		}
		if len(first.errs) != 1 || !errors.Is(first.errs[0], failed) || len(second.errs) != 1 {
			t.Errorf("got the errors %v and %v, want the one that was sent", first.errs, second.errs)
		}
		late := follow(t.Context(), t, subject.Stream(), open)
		<-late.done
		if len(late.values) > 0 || subject.Observed() {
			t.Errorf("got %v after the end, want nothing; observed: %v", late.values, subject.Observed())
		}
	})
}

func TestASubjectWaitsForNoObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject, open, shut := streams.NewSubject[int](4), make(chan struct{}), make(chan struct{})
		close(open)
		quick := follow(t.Context(), t, subject.Stream(), open)
		slow := follow(t.Context(), t, subject.Stream(), shut)
		synctest.Wait()
		var sent []int
		for i := range 100 {
			sent = append(sent, i)
			subject.Send([]int{i})
			synctest.Wait()
		}
		close(shut)
		subject.End()
		<-quick.done
		<-slow.done
		if !slices.Equal(quick.values, sent) || len(quick.errs) > 0 {
			t.Errorf("the quick observer got %v and %v, want all 100 values", quick.values, quick.errs)
		}
		var lagged *streams.Lagged
		if len(slow.errs) != 1 || !errors.As(slow.errs[0], &lagged) {
			t.Fatalf("the slow observer got the errors %v, want that it lags", slow.errs)
		}
		if len(slow.values)+lagged.Missed != 100 || lagged.Missed < 50 {
			t.Errorf("the slow observer got %d values and missed %d, want 100 together, and most missed", len(slow.values), lagged.Missed)
		}
	})
}

func TestASubjectThatIsNotObservedDropsWhatIsSent(t *testing.T) {
	subject := streams.NewSubject[int](0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	open := make(chan struct{})
	<-follow(ctx, t, subject.Stream(), open).done
	if allocated := testing.AllocsPerRun(100, func() { subject.Send([]int{1}) }); allocated > 0 {
		t.Errorf("a send that no observer gets allocates %v times, want 0", allocated)
	}
}

func TestASubjectRefusesABufferOutOfItsRange(t *testing.T) {
	for _, buffer := range []int{-1, 1<<20 + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a buffer of %d was taken", buffer)
				}
			}()
			streams.NewSubject[int](buffer)
		}()
	}
}

// The sender and the observer race for the place in the log.
func TestAnObservationOfASubjectGetsEverythingThatIsSentAfterObserveHasReturned(t *testing.T) {
	for i := range 2000 {
		subject := streams.NewSubject[int](0)
		items := subject.Stream().Observe(t.Context())
		subject.Send([]int{i})
		subject.End()
		var got []int
		for item := range items {
			batch, err := streams.Values[int](item)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, batch...)
		}
		if !slices.Equal(got, []int{i}) {
			t.Fatalf("observation %d got %v", i, got)
		}
		if subject.Observed() {
			t.Fatal("the subject has an observer that has gone")
		}
	}
}
