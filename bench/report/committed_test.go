package report

import (
	"os"
	"path/filepath"
	"regexp"
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

// TestCommittedPagesAreWhatTheirRunsGive makes each page of several runs again, from the runs that it links to.
func TestCommittedPagesAreWhatTheirRunsGive(t *testing.T) {
	pages, err := filepath.Glob("../results/program-*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("there are no pages: %v", err)
	}
	link := regexp.MustCompile(`\]\(([^/)]+)/report\.md\)`)
	for _, file := range pages {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var dirs []string
			for _, found := range link.FindAllStringSubmatch(string(old), -1) {
				dirs = append(dirs, filepath.Join("../results", found[1]))
			}
			if len(dirs) == 0 {
				t.Fatal("the page links to no run")
			}
			made, err := severalOf(file, dirs)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := made.write(&text); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, file, text.String())
		})
	}
}
