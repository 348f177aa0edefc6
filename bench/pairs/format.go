package main

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// cpuUnit is the unit of CPU time, with the name that core gives it.
const cpuUnit = "cpu-ns/op"

// sample is the result that one run of a benchmark printed.
type sample struct {
	name       string // without the prefix Benchmark and the number of processors
	iterations int
	values     map[string]float64 // by unit
}

// parse reads samples in the format of Go's benchmarks.
func parse(output []byte) ([]sample, error) {
	var samples []sample
	reader := benchfmt.NewReader(bytes.NewReader(output), "output")
	for reader.Scan() {
		result, is := reader.Result().(*benchfmt.Result)
		if !is {
			continue // Programs may print other lines.
		}
		read := sample{nameOf(result.Name), result.Iters, map[string]float64{}}
		for _, value := range result.Values {
			unit, number := value.Unit, value.Value
			if value.OrigUnit != "" { // The reader converted ns into seconds.
				unit, number = value.OrigUnit, value.OrigValue
			}
			if math.IsNaN(number) || math.IsInf(number, 0) || number < 0 {
				return nil, fmt.Errorf("read benchmark %s: %v %s is not a measurement", read.name, number, unit)
			}
			read.values[unit] = number
		}
		samples = append(samples, read)
	}
	if err := reader.Err(); err != nil {
		return nil, fmt.Errorf("read benchmarks: %w", err)
	}
	return samples, nil
}

// nameOf returns the name without the suffix for the number of processors.
func nameOf(full benchfmt.Name) string {
	base, parts := full.Parts()
	name := string(base)
	for _, part := range parts {
		if part[0] != '-' {
			name += string(part)
		}
	}
	return name
}

// exactly returns the pattern with which a test binary runs only this benchmark. A test binary
// matches each level of a name with a separate pattern.
func exactly(name string) string {
	levels := strings.Split("Benchmark"+name, "/")
	for i, level := range levels {
		levels[i] = "^" + regexp.QuoteMeta(level) + "$"
	}
	return strings.Join(levels, "/")
}
