package store

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/report"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/goals"
)

// Result is the outcome of a comparison.
type Result struct {
	Started  time.Time `json:"started"`
	Settings Settings  `json:"settings"`
	Rounds   []Round   `json:"rounds"`
}

// least is the goal for the writes a second, as a share of etcd's.
const least = 0.3

// values returns a number of each turn of a store and a phase.
func (r Result) values(store, phase string, of func(Round) float64) (found []float64) {
	for _, round := range r.Rounds {
		if round.Store == store && round.Phase == phase {
			found = append(found, of(round))
		}
	}
	return found
}

func perSecond(r Round) float64 { return r.PerSecond }

func p99(r Round) float64 { return r.P99.Seconds() * 1000 }

// print writes a table, and the goal.
func (r Result) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "PHASE\tSTORE\tREQUESTS/s\tP99 ms\tRATIO OF REQUESTS/s\tFROM\tTO\t")
	goal := ""
	for _, phase := range []string{writes, reads} {
		a, b := r.values(ours, phase, perSecond), r.values(theirs, phase, perSecond)
		ratios := make([]float64, len(a))
		for i := range a {
			ratios[i] = a[i] / b[i] // Of one turn.
		}
		ratio, low, high := report.Interval(ratios)
		fmt.Fprintf(table, "%s\t%s\t%.0f\t%.1f\t%.2f\t%.2f\t%.2f\t\n", phase, ours, rundir.Median(a), rundir.Median(r.values(ours, phase, p99)), ratio, low, high)
		fmt.Fprintf(table, "%s\t%s\t%.0f\t%.1f\t\t\t\t\n", phase, theirs, rundir.Median(b), rundir.Median(r.values(theirs, phase, p99)))
		if phase == writes {
			goal = goals.Line("writes a second beside etcd", fmt.Sprintf("%.2f (%.2f to %.2f)", ratio, low, high), fmt.Sprintf(">= %.1f", least), low >= least)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	_, err := io.WriteString(out, goal)
	return err
}
