package simulation

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// printResults prints results as a table, or as JSON.
func printResults(results []Result, asJSON bool, out io.Writer) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", " ")
		return encoder.Encode(results)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "OBJECTS\tREPLICAS\tRUN\tMEMORY\tPHASE\tREQUESTS\tREADS\tPAGES MB\tWATCH MB\tLEASES MB\tMOVED\tHAND-OVER s\tPAUSE s\t")
	for _, result := range results {
		for i, phase := range result.Phases {
			cell := "\t\t\t\t"
			all, memory, watched := phase.All, "-", "-"
			if result.Caches == All { // Otherwise the heap also has what replicas without caches need.
				memory = fmt.Sprintf("%.1f MB", megabytes(result.Heap))
			}
			if result.Caches != None {
				watched = fmt.Sprintf("%.2f", megabytes(all.WatchBytes))
			}
			if i == 0 {
				cell = fmt.Sprintf("%d\t%d\t%s\t%s\t", result.Objects, result.Replicas, result.kind(), memory)
			}
			fmt.Fprintf(table, "%s%s\t%d\t%d\t%.2f\t%s\t%.2f\t%d\t%.2f\t%.2f\t\n", cell, phase.Name, all.Requests(), all.Reads,
				megabytes(all.PageBytes), watched, megabytes(all.LeaseBytes), phase.Moved, phase.HandOver, phase.Pause)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the results: %w", err)
	}
	for _, pair := range comparisons(results) {
		fmt.Fprintf(out, "%d objects, %d replicas, simulated over real: requests %+.1f %%, bytes %+.1f %%\n",
			pair.Objects, pair.Replicas, 100*(pair.requests-1), 100*(pair.bytes-1))
	}
	return nil
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

// kind returns how the result was made.
func (r Result) kind() string {
	if r.Real {
		return "real"
	}
	return "caches: " + string(r.Caches)
}

// total returns the traffic of all replicas in all phases.
func (r Result) total() (all Traffic) {
	for _, phase := range r.Phases {
		all = all.plus(1, phase.All)
	}
	return all
}

// comparison has the ratios of a simulated run to a real one.
type comparison struct {
	Cell
	requests, bytes float64
}

// comparisons compares the cells that were run both ways.
func comparisons(results []Result) (made []comparison) {
	for _, measured := range results {
		for _, simulated := range results {
			if measured.Real && !simulated.Real && measured.Objects == simulated.Objects && measured.Replicas == simulated.Replicas {
				is, want := simulated.total(), measured.total()
				made = append(made, comparison{
					measured.Cell, float64(is.Requests()) / float64(want.Requests()), float64(is.Bytes()) / float64(want.Bytes()),
				})
			}
		}
	}
	return made
}
