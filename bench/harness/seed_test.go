package harness

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestWhatRoundsFindIsMadeOnceAndAsAWhole(t *testing.T) {
	dir := t.TempDir()
	begin := func() *run {
		return &run{choice: &choice{Options: Options{Dir: dir}}, unmade: map[string]error{}}
	}
	r, made := begin(), 0
	write := func(failure error) func(string) error {
		return func(making string) error {
			made++
			// Mkdir fails if the incomplete folder of the interrupted run still exists.
			if err := os.Mkdir(making, 0o755); err != nil {
				return err
			}
			return failure
		}
	}
	interrupted := errors.New("interrupted")
	if err := os.MkdirAll(filepath.Join(dir, "found", "n=5"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // Two rounds need the data.
		if _, err := r.kept("n=5/ideal", write(interrupted)); !errors.Is(err, interrupted) {
			t.Fatalf("the error is %v, want the error of create", err)
		}
	}
	r = begin()
	for range 2 {
		dir, err := r.kept("n=5/ideal", write(nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	if made != 2 {
		t.Errorf("create was called %d times, want 2: once in the run in which it failed, once in the next", made)
	}
}
