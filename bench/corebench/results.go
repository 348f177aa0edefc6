package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// results holds the values of all runs so far, by measurement, side and unit.
type results map[string]map[string]map[string][]float64

// add records a run and returns its line for benchstat.
func (r results) add(measured measurement, side string, o sample) string {
	if r[measured.name] == nil {
		r[measured.name] = map[string]map[string][]float64{}
	}
	if r[measured.name][side] == nil {
		r[measured.name][side] = map[string][]float64{}
	}
	line := fmt.Sprintf("Benchmark%s/impl=%s-%d\t%d", measured.name, side, runtime.GOMAXPROCS(0), max(1, o.Updates))
	for _, metric := range measured.metrics {
		if metric.net {
			continue // A net value is computed from the others.
		}
		value := metric.value(measured.load, o)
		r[measured.name][side][metric.unit] = append(r[measured.name][side][metric.unit], value)
		line += "\t" + strconv.FormatFloat(value, 'f', -1, 64) + " " + metric.unit
	}
	return line
}

// values returns the values of a metric, or nil if there are none.
func (r results) values(measurement, side string, metric metric) []float64 {
	values := slices.Clone(r[measurement][side][metric.unit])
	if metric.net {
		generators := rundir.Median(r[measurement][baseline][metric.unit])
		for i := range values {
			values[i] -= generators
		}
	}
	return values
}

func (r results) median(measurement, side string, metric metric) float64 {
	return rundir.Median(r.values(measurement, side, metric))
}

// table writes the medians, with the smallest and the largest value. For Bellerophon's sides it
// adds the ratio to client-go's median.
func (r results) table(out io.Writer, measurements []measurement) error {
	writer := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	section := ""
	for _, measured := range measurements {
		if title, _, _ := strings.Cut(measured.name, "/"); title != section {
			section = title
			fmt.Fprintf(writer, "\n%s\tunit\tside\tmedian\tleast\tgreatest\tof client-go's\n", section)
		}
		for _, metric := range measured.metrics {
			unit := metric.unit
			if metric.net {
				unit += " net"
			}
			peer := r.median(measured.name, theirs, metric)
			for _, side := range measured.sides {
				values := r.values(measured.name, side.name, metric)
				if len(values) == 0 || (metric.net && side.name == baseline) {
					continue
				}
				middle := rundir.Median(values)
				ratio := ""
				if peer != 0 && side.name != theirs && side.name != baseline {
					ratio = fmt.Sprintf("%.2fx", middle/peer)
				}
				fmt.Fprintf(writer, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", strings.TrimPrefix(measured.name, section+"/"), unit, side.name,
					short(middle), short(slices.Min(values)), short(slices.Max(values)), ratio)
			}
		}
	}
	if err := writer.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// short formats a number with three significant digits, or with all digits before the point.
func short(value float64) string {
	switch {
	case value >= 100 || value <= -100:
		return strconv.FormatFloat(value, 'f', 0, 64)
	case value >= 10 || value <= -10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	}
	return strconv.FormatFloat(value, 'f', 2, 64)
}
