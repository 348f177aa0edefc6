package conformance

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what came of the checks of one process.
type Report struct {
	Name, Version string
	Outcomes      []Outcome
}

// Outcome is what came of one check.
type Outcome struct {
	// Number is that of the behaviour in the contract, with that of the check.
	Number, Title string
	// Err says what the process does wrong; nil is what it should be.
	Err error
	// LeftOut says that the check is not for this process.
	LeftOut bool
	// Reported says that the check is not required of anybody: that it failed is for the
	// readers of the comparison to know.
	Reported bool
	// Notes say what is not a matter of right and wrong.
	Notes []string
	Took  time.Duration
}

func (r *Report) add(c check, err error, notes []string, took time.Duration) {
	r.Outcomes = append(r.Outcomes, Outcome{
		Number: c.number, Title: c.title, Err: err, Reported: c.required == ofNobody, Notes: notes, Took: took,
	})
}

// Err is nil if the process passed all checks that are required, so that it may be timed.
func (r *Report) Err() error {
	var failed []error
	for _, outcome := range r.FailedRequired() {
		failed = append(failed, fmt.Errorf("%s %s: %w", outcome.Number, outcome.Title, outcome.Err))
	}
	return errors.Join(failed...)
}

// FailedRequired are the outcomes of the checks that are required and that the process
// failed, in their order.
func (r *Report) FailedRequired() []Outcome {
	var failed []Outcome
	for _, outcome := range r.Outcomes {
		if outcome.Err != nil && !outcome.Reported {
			failed = append(failed, outcome)
		}
	}
	return failed
}

// Failed are the numbers of the checks that the process failed, in their order, with those
// that are only reported.
func (r *Report) Failed() []string {
	var numbers []string
	for _, outcome := range r.Outcomes {
		if outcome.Err != nil {
			numbers = append(numbers, outcome.Number)
		}
	}
	return numbers
}

// WriteTable writes the outcomes of several processes side by side, a check in each line,
// then what each one did wrong, and the notes.
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
		return "not met" // nor required
	case outcome.Err != nil:
		return "FAILED"
	}
	return fmt.Sprintf("ok %.1fs", outcome.Took.Seconds())
}
