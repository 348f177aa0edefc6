package lifecycle

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheFirstFailureStopsTheOthersAndIsReturnedWithItsName(t *testing.T) {
	group := New(t.Context())
	group.Go("waits", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	group.Go("fails", func(context.Context) error { return io.ErrUnexpectedEOF })
	err := group.Wait()
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(err.Error(), "fails: ") {
		t.Fatalf("Wait() = %v, want the failure, named", err)
	}
}

func TestStoppingIsNoFailure(t *testing.T) {
	group := New(t.Context())
	group.Go("waits", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Fatalf("Wait() = %v, want nil", err)
	}
}

func TestAPanicBecomesAnErrorWithItsStack(t *testing.T) {
	group := New(t.Context())
	group.Go("panics", func(context.Context) error { panic(io.EOF) })
	err := group.Wait()
	var panicked *PanicError
	if !errors.As(err, &panicked) || !errors.Is(err, io.EOF) {
		t.Fatalf("Wait() = %v, want a PanicError that wraps io.EOF", err)
	}
	if !strings.Contains(string(panicked.Stack), "lifecycle_test.go") {
		t.Errorf("the stack does not name the function that panicked:\n%s", panicked.Stack)
	}
}

func TestAPauseEndsAfterItsTimeOrWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := Pause(ctx, time.Second); err != nil || time.Since(began) != time.Second {
			t.Errorf("a pause of a second took %v, %v", time.Since(began), err)
		}
		if err := Pause(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("a pause beyond the end of its context ended after %v, %v", time.Since(began), err)
		}
	})
}
