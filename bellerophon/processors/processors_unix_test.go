//go:build unix

package processors

import (
	"context"
	"errors"
	"runtime"
	"testing"
)

func TestWhatIsGovernedRunsOnOneProcessorAndTheOthersAreThereAfterIt(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	before := runtime.GOMAXPROCS(0)
	failure := errors.New("it fails")
	err := Govern(t.Context(), func(context.Context) error {
		if now := runtime.GOMAXPROCS(0); now != 1 {
			t.Errorf("it runs on %d processors", now)
		}
		return failure
	})
	if now := runtime.GOMAXPROCS(0); now != before {
		t.Errorf("%d processors are there after it, instead of %d", now, before)
	}
	if !errors.Is(err, failure) {
		t.Errorf("Govern returned %v, want what it ran returned", err)
	}
}
