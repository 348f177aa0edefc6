package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
)

// outcome is the result of a comparison.
type outcome struct {
	Base   string  `json:"base"`   // commit
	Change string  `json:"change"` // commit
	Pairs  int     `json:"pairs"`
	Worse  int     `json:"worse"` // how many of the ratios are worse
	Ratios []ratio `json:"ratios"`
}

// units lists the units of a benchmark in the order of their rows. Units of writes follow them.
var units = []string{"ns/op", cpuUnit, "B/op", "allocs/op"}

// newOutcome computes the ratios for all units that both sides have in all pairs.
func newOutcome(base, change string, pairs int, benchmarks []benchmark, values []paired) outcome {
	o := outcome{Base: base, Change: change, Pairs: pairs}
	for i, benchmark := range benchmarks {
		for _, unit := range values[i].units() {
			compared := ratioOf(benchmark.label(), unit, column(values[i].base, unit), column(values[i].change, unit))
			if compared.Worse {
				o.Worse++
			}
			o.Ratios = append(o.Ratios, compared)
		}
	}
	return o
}

// units returns the compared units that all runs of the benchmark have, in the order of their rows.
func (p paired) units() []string {
	var found []string
	for unit := range p.base[0] {
		has := func(values map[string]float64) bool { _, has := values[unit]; return has }
		lacks := func(values map[string]float64) bool { return !has(values) }
		if isCompared(unit) && !slices.ContainsFunc(p.base, lacks) && !slices.ContainsFunc(p.change, lacks) {
			found = append(found, unit)
		}
	}
	slices.SortFunc(found, func(a, b string) int {
		place := func(unit string) int {
			if i := slices.Index(units, unit); i >= 0 {
				return i
			}
			return len(units)
		}
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return found
}

func column(of []map[string]float64, unit string) []float64 {
	var values []float64
	for _, run := range of {
		values = append(values, run[unit])
	}
	return values
}

// verdict returns an error if the change is slower.
func (o outcome) verdict() error {
	if o.Worse == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d ratios are worse: an upper end exceeds %v, or writes differ", o.Worse, len(o.Ratios), bound)
}

// print writes the outcome: JSON, a table on a terminal, or lines with tabs on a pipe.
func (o outcome) print(out io.Writer, asJSON bool, to *screen.Screen) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(o); err != nil {
			return fmt.Errorf("print ratios: %w", err)
		}
		return nil
	}
	header := "benchmark\tunit\tbase\tchange\tratio\t95 % interval\t"
	if !to.IsLive() {
		fmt.Fprintln(out, header+"verdict")
		for _, ratio := range o.Ratios {
			fmt.Fprintln(out, ratio.line()+ratio.verdict())
		}
		return nil
	}
	// Only the last column has colours, because the tabwriter counts escape sequences as width.
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, header)
	for _, ratio := range o.Ratios {
		colour := screen.Green
		if ratio.Worse {
			colour = screen.Red
		}
		fmt.Fprintln(table, ratio.line()+to.Paint(colour, ratio.verdict()))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print ratios: %w", err)
	}
	fmt.Fprintf(out, "\n%d pairs, %s against base %.12s\n", o.Pairs, "change "+o.Change[:min(12, len(o.Change))], o.Base)
	return nil
}

func (r ratio) line() string {
	mean, limits := "-", "-"
	if r.Mean != nil {
		mean, limits = fmt.Sprintf("%.3f", *r.Mean), fmt.Sprintf("%.3f to %.3f", *r.Low, *r.High)
	}
	return fmt.Sprintf("%s\t%s\t%.4g\t%.4g\t%s\t%s\t", r.Benchmark, r.Unit, r.Base, r.Change, mean, limits)
}

func (r ratio) verdict() string {
	if r.Worse {
		return "worse"
	}
	return "ok"
}
