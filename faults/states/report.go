package states

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Oracle is the rule that a problem breaks.
type Oracle string

const (
	// EndsAsFresh means: an object ends as one that was created with its last spec.
	EndsAsFresh Oracle = "ends as fresh"
	// AnswersMisuse means: a spec that cannot be fulfilled leads to a condition or a refusal that names the
	// field.
	AnswersMisuse Oracle = "answers misuse"
	// LeavesNothing means: nothing is left after the deletion of an object.
	LeavesNothing Oracle = "leaves nothing"
	// StaysQuiet means: nothing is written after everything has settled.
	StaysQuiet Oracle = "stays quiet"
)

// Problem is something that the operator does not do as it should.
type Problem struct {
	Oracle  Oracle `json:"oracle"`
	Walk    string `json:"walk"`    // the walk, or the value that was tried
	Details string `json:"details"` // what was found
}

// String returns the problem as a line.
func (p Problem) String() string { return fmt.Sprintf("%s: %s: %s", p.Oracle, p.Walk, p.Details) }

// Report is the result of an exploration.
type Report struct {
	Fields  int // fields of the kind
	Values  int // values that were sent to the API server
	Refused int // values that it refused
	Misuses int // refused values and reported problems
	Walks   int // finished walks, also in the journal
	Planned int // walks that were to be made
	All     int // walks of the whole plan
	// Writes counts the writes in the quiet window, by resource.
	Writes map[string]float64
	Window time.Duration
	// Problems holds what was found, with the problems of the journal.
	Problems []Problem
}

// count returns the number of walks or values with a problem of an oracle.
func (r Report) count(oracle Oracle) int {
	found := map[string]bool{}
	for _, problem := range r.Problems {
		if problem.Oracle == oracle {
			found[problem.Walk] = true
		}
	}
	return len(found)
}

// WriteGoals writes a line for each goal: the word goal, the name, what was measured, the target, and met or missed, with
// tabs between them. The prefix names the operator.
func (r Report) WriteGoals(to io.Writer, prefix string) error {
	written := 0.0
	for _, count := range r.Writes {
		written += count
	}
	for _, goal := range []struct {
		name, measured, target string
		met                    bool
	}{
		{"states: walks of the plan finished", fmt.Sprintf("%d of %d", r.Walks, r.Planned), "all", r.Walks >= r.Planned},
		{"states: walks that end as a fresh object", fmt.Sprintf("%d of %d", r.Walks-r.count(EndsAsFresh), r.Walks), "all", r.count(EndsAsFresh) == 0},
		{"states: misuses answered with the field", fmt.Sprintf("%d of %d", r.Misuses-r.count(AnswersMisuse), r.Misuses), "all", r.count(AnswersMisuse) == 0},
		{"states: deletions that leave something", fmt.Sprint(r.count(LeavesNothing)), "0", r.count(LeavesNothing) == 0},
		{fmt.Sprintf("states: writes in the %v after quiet", r.Window), fmt.Sprint(written), "0", written == 0 && r.count(StaysQuiet) == 0},
	} {
		result := "missed"
		if goal.met {
			result = "met"
		}
		if _, err := fmt.Fprintf(to, "goal\t%s%s\t%s\t%s\t%s\n", prefix, goal.name, goal.measured, goal.target, result); err != nil {
			return fmt.Errorf("states: write the goals: %w", err)
		}
	}
	return nil
}

// sorted returns the problems by oracle and walk.
func sorted(problems []Problem) []Problem {
	slices.SortFunc(problems, func(a, b Problem) int {
		switch {
		case a.String() < b.String():
			return -1
		case a.String() > b.String():
			return 1
		}
		return 0
	})
	return slices.Compact(problems)
}
