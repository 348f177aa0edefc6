package report

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/golden"
)

// TestCommittedReportsAreWhatTheirRoundsGive makes the report.md of each committed run again and
// compares. A change of a rule or of a text thus changes all reports, or fails here.
func TestCommittedReportsAreWhatTheirRoundsGive(t *testing.T) {
	runs, err := filepath.Glob("../results/*/run.json")
	if err != nil || len(runs) == 0 {
		t.Fatalf("there are no committed runs: %v", err)
	}
	for _, run := range runs {
		dir := filepath.Dir(run)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			described, rounds, err := read(dir)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := Summarize(described, rounds).Markdown(&text); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join(dir, "report.md"), text.String())
			if _, err := readSeries(dir, groupsOf(described, rounds)); err != nil {
				t.Error(err)
			}
		})
	}
}
