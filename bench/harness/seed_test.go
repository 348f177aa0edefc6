package harness

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestWhatRoundsFindIsMadeOnceAndAsAWhole(t *testing.T) {
	r := &run{choice: &choice{Options: Options{Dir: t.TempDir()}}}
	made := 0
	write := func(failure error) func(string) error {
		return func(making string) error {
			made++
			// What an interrupted one left is not taken for a part of this.
			if err := os.Mkdir(making, 0o755); err != nil {
				return err
			}
			return failure
		}
	}
	interrupted := errors.New("interrupted")
	if err := os.MkdirAll(filepath.Join(r.Dir, "found", "n=5"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.kept("n=5/ideal", write(interrupted)); !errors.Is(err, interrupted) {
			t.Fatalf("the error is %v, want that of what makes it", err)
		}
	}
	for range 2 {
		dir, err := r.kept("n=5/ideal", write(nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	if made != 3 {
		t.Errorf("it was made %d times, want 3: two failed, and the third is kept", made)
	}
}
