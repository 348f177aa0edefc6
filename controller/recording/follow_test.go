package recording

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
)

func TestAFollowerGetsEachRecordOfARingThatGoesOn(t *testing.T) {
	world, r := newCluster(1), newRing(t)
	added, total := write(t, world, r, 1), 0
	err := follow(t, r, func(batch Batch) error {
		for range batch.Arrived {
			total++
		}
		if total < added {
			return nil
		}
		if added > 5000 {
			return errAllArrived
		}
		added += write(t, world, r, 100) // Nothing that was not read is dropped: a file has more records.
		return nil
	})
	if !errors.Is(err, errAllArrived) || total != added || r.number < 10 {
		t.Errorf("%v after %d of %d records in %d files", err, total, added, r.number)
	}
}

func TestAFollowerThatIsTooSlowSaysThatItLacksRecords(t *testing.T) {
	world, r := newCluster(1), newRing(t)
	write(t, world, r, 1)
	err := follow(t, r, func(Batch) error {
		for first := r.number; r.number < first+3*segments; {
			write(t, world, r, 100)
		}
		return nil
	})
	if !errors.Is(err, errBehind) {
		t.Errorf("Follow returned %v, want %v", err, errBehind)
	}
}

func TestTheFirstErrorOfAFollowersFunctionEndsIt(t *testing.T) {
	world, r := newCluster(1), newRing(t)
	write(t, world, r, 1)
	calls := 0
	err := follow(t, r, func(Batch) error {
		if calls++; calls == 1 {
			return errAllArrived
		}
		return nil
	})
	if !errors.Is(err, errAllArrived) || calls != 1 {
		t.Errorf("after %d calls, Follow returned %v", calls, err)
	}
}

func TestAnAttemptThatDoesNotEndMakesAFollowerHoldNoMoreThanItsBound(t *testing.T) {
	r, body := newRing(t), make([]byte, 1<<20)
	r.options.Bytes = 1 << 30
	begun := &Start{Attempt: 1, ID: "cafe", Request: operators.Request{Controller: "stable"}}
	for i := range mostHeld>>20 + 2 {
		record := &Record{At: int64(i), Position: uint64(i), Object: &Object{Body: body}}
		if i == 0 {
			record = &Record{Start: begun}
		}
		if err := r.add(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.flush(); err != nil {
		t.Fatal(err)
	}
	err := follow(t, r, func(Batch) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "the attempt cafe of stable") {
		t.Errorf("Follow returned %v", err)
	}
}

var errAllArrived = errors.New("all have arrived")

// follow calls Follow for a ring, and returns its error.
func follow(t *testing.T, r *ring, each func(Batch) error) error {
	t.Helper()
	group := lifecycle.New(t.Context())
	group.Go("follower", func(ctx context.Context) error { return Follow(ctx, r.options.Dir, each) })
	return group.Wait()
}

func newRing(t *testing.T) *ring {
	t.Helper()
	return &ring{options: Options{Dir: t.TempDir(), Bytes: 40 << 10, Age: time.Hour}, header: func() Header { return Header{Format: format} }, size: new(atomic.Int64)}
}

// write adds changes to a ring, and returns the number of their records.
func write(t *testing.T, world *cluster, r *ring, changes int) (made int) {
	t.Helper()
	for range changes {
		for _, record := range world.next() {
			made++
			if err := r.add(record); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.flush(); err != nil {
		t.Fatal(err)
	}
	return made
}
