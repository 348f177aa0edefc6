package conformance

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report holds the outcomes of the checks of one process.
type Report struct {
	Name, Version string
	Outcomes      []Outcome
}

// Outcome is the result of one check.
type Outcome struct {
	// Number is the number of the behaviour in the contract, followed by the number of the check.
	Number, Title string
	// Err describes what the process does wrong. It is nil if the check passed.
	Err error
	// LeftOut reports that the check does not apply to this process.
	LeftOut bool
	// Reported reports that no contender has to pass the check. A failure is only information for
	// the readers of the comparison.
	Reported bool
	// Notes holds observations that are neither right nor wrong.
	Notes []string
	Took  time.Duration
}

func (r *Report) add(c check, err error, notes []string, took time.Duration) {
	r.Outcomes = append(r.Outcomes, Outcome{
		Number: c.number, Title: c.title, Err: err, Reported: c.required == ofNone, Notes: notes, Took: took,
	})
}

// Err returns nil if the process passed all required checks, so that it may be timed. Otherwise
// it returns the failures.
func (r *Report) Err() error {
	var failed []error
	for _, outcome := range r.FailedRequired() {
		failed = append(failed, fmt.Errorf("%s %s: %w", outcome.Number, outcome.Title, outcome.Err))
	}
	return errors.Join(failed...)
}

// FailedRequired returns the outcomes of the required checks that the process failed, in order.
func (r *Report) FailedRequired() []Outcome {
	var failed []Outcome
	for _, outcome := range r.Outcomes {
		if outcome.Err != nil && !outcome.Reported {
			failed = append(failed, outcome)
		}
	}
	return failed
}

// Failed returns the numbers of all checks that the process failed, in order. It includes the
// checks that are only reported.
func (r *Report) Failed() []string {
	var numbers []string
	for _, outcome := range r.Outcomes {
		if outcome.Err != nil {
			numbers = append(numbers, outcome.Number)
		}
	}
	return numbers
}

// WriteTable writes the outcomes of several processes side by side, one check a line. The
// failures of each process and the notes follow.
func WriteTable(out io.Writer, reports ...*Report) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var order []Outcome
	for _, report := range reports {
		for _, outcome := range report.Outcomes {
			if find(order, outcome.Number) == nil {
				order = append(order, outcome)
			}
		}
	}
	_, err := fmt.Fprint(table, "\tcheck")
	for _, report := range reports {
		_, e := fmt.Fprint(table, "\t", report.Name)
		err = errors.Join(err, e)
	}
	for _, line := range order {
		_, e := fmt.Fprintf(table, "\n%s\t%s", line.Number, line.Title)
		err = errors.Join(err, e)
		for _, report := range reports {
			_, e := fmt.Fprint(table, "\t", word(find(report.Outcomes, line.Number)))
			err = errors.Join(err, e)
		}
	}
	_, e := fmt.Fprintln(table)
	err = errors.Join(err, e, table.Flush())
	for _, report := range reports {
		_, e := fmt.Fprintf(out, "\n%s: %s\n", report.Name, report.Version)
		err = errors.Join(err, e)
		for _, outcome := range report.Outcomes {
			if outcome.Err != nil {
				_, e := fmt.Fprintf(out, "  %s %s %s: %s\n", word(&outcome), outcome.Number, outcome.Title, strings.ReplaceAll(outcome.Err.Error(), "\n", "\n    "))
				err = errors.Join(err, e)
			}
			for _, note := range outcome.Notes {
				_, e := fmt.Fprintf(out, "  %s %s\n", outcome.Number, note)
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

func find(outcomes []Outcome, number string) *Outcome {
	for i := range outcomes {
		if outcomes[i].Number == number {
			return &outcomes[i]
		}
	}
	return nil
}

func word(outcome *Outcome) string {
	switch {
	case outcome == nil, outcome.LeftOut:
		return "-"
	case outcome.Err != nil && outcome.Reported:
		return "not met" // not required either
	case outcome.Err != nil:
		return "FAILED"
	}
	return fmt.Sprintf("ok %.1fs", outcome.Took.Seconds())
}
