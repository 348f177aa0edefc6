package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	leastPairs = 10 // with fewer, an interval is too wide to decide anything
	mostPairs  = 1000
)

// options holds the values of the command line.
type options struct {
	base, change string // revisions
	pairs        int
	programs     []program
	only         string // regular expression
	benchtime    time.Duration
	limit        time.Duration
	progress     *progress
}

// validate returns an error if an option is out of its range.
func (o options) validate() error {
	switch {
	case o.base == "":
		return errors.New("--base is empty; give the revision to compare with")
	case o.change == "":
		return errors.New("--change is empty; give the revision to judge")
	case o.pairs < leastPairs || o.pairs > mostPairs:
		return fmt.Errorf("--pairs is %d; allowed is %d to %d", o.pairs, leastPairs, mostPairs)
	case o.benchtime < time.Millisecond || o.benchtime > time.Minute:
		return fmt.Errorf("--benchtime is %v; allowed is 1ms to 1m", o.benchtime)
	case o.limit < time.Minute || o.limit > 24*time.Hour:
		return fmt.Errorf("--limit is %v; allowed is 1m to 24h", o.limit)
	}
	if _, err := regexp.Compile(o.only); err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	return nil
}

// program is a binary with benchmarks.
type program struct {
	bench   string // the name by which --bench selects it
	pkg     string // path from the root of the module, such as ./streams
	former  string // the path in revisions from before a rename, or ""
	command bool   // a command that prints the benchmark format, not a test binary
	rounds  bool   // the command of the comparison of operators, which runs scenarios
	about   string
}

// programs lists the programs that can be compared.
var programs = []program{
	{bench: "pipeline", pkg: "./bench/pipeline", about: "the whole pipeline, without an API server"},
	{bench: "core", pkg: "./bench/corebench", former: "./bench/core", command: true, about: "the core on a synthetic watch: its throughput and paced measurements"},
	{bench: "operators", pkg: "./operators", about: "the Rx operators"},
	{bench: "operators", pkg: "./streams", about: "the streams below the Rx operators"},
	{bench: operatorBench, pkg: "./bench", rounds: true, about: "the operator on local clusters: its writes and CPU time in scenarios"},
}

// operatorBench takes about half a minute for a round of a scenario, so it runs only if --bench names it.
const operatorBench = "operator"

// names returns the names by which programs are selected.
func names(of []program) []string {
	var found []string
	for _, program := range of {
		if !slices.Contains(found, program.bench) {
			found = append(found, program.bench)
		}
	}
	return found
}

// defaults returns the names of the programs that are compared unless --bench is given.
func defaults() []string {
	return slices.DeleteFunc(names(programs), func(name string) bool { return name == operatorBench })
}

// selectPrograms returns the programs that a list of names, separated by commas, selects.
func selectPrograms(from []program, list string) ([]program, error) {
	var selected []program
	for name := range strings.SplitSeq(list, ",") {
		before := len(selected)
		for _, program := range from {
			if program.bench == name && !slices.Contains(selected, program) {
				selected = append(selected, program)
			}
		}
		if len(selected) == before {
			return nil, fmt.Errorf("--bench has %q; allowed are %s, once each", name, strings.Join(names(from), ", "))
		}
	}
	return selected, nil
}

// describe lists programs for the help text.
func describe(of []program) string {
	var text strings.Builder
	for _, program := range of {
		fmt.Fprintf(&text, "  %-10s %-18s %s\n", program.bench, program.pkg, program.about)
	}
	return text.String()
}
