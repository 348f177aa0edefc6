package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// benchmark is one benchmark that both sides have.
type benchmark struct {
	program    program
	name       string
	iterations int // how many operations a run does, on both sides
}

// label names a benchmark of several programs.
func (b benchmark) label() string { return strings.TrimPrefix(b.program.pkg, "./") + "." + b.name }

// compare measures two revisions. Whatever happens, its worktrees are gone afterwards.
func compare(ctx context.Context, options options) (outcome outcome, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, options.limit, fmt.Errorf("the comparison took longer than %v; "+
		"raise --limit, shorten --benchtime or measure less with --bench and --only", options.limit))
	defer cancel()
	if status, err := run(ctx, ".", "git", "status", "--porcelain", "--untracked-files=no"); err != nil {
		return outcome, err
	} else if len(status) > 0 {
		options.progress.say("warning: there are changes that are not committed; they are not measured")
	}
	sides, remove, err := checkout(ctx, ".", map[string]string{"base": options.base, "change": options.change})
	defer func() { err = errors.Join(err, remove()) }()
	if err != nil {
		return outcome, err
	}
	base, change := sides["base"], sides["change"]
	var benchmarks []benchmark
	for _, program := range options.programs {
		found, err := prepare(ctx, options, program, base, change)
		if err != nil {
			return outcome, err
		}
		benchmarks = append(benchmarks, found...)
	}
	if len(benchmarks) == 0 {
		return outcome, errors.New("both revisions have no benchmark in common that is asked for; see --bench and --only")
	}
	values, err := measure(ctx, options, benchmarks, base, change)
	if err != nil {
		return outcome, err
	}
	return newOutcome(base.commit, change.commit, options.pairs, benchmarks, values), nil
}

// prepare builds a program of both sides, and returns the benchmarks that both have. What
// base did in about options.benchtime is how many operations each run will do.
func prepare(ctx context.Context, options options, program program, sides ...side) ([]benchmark, error) {
	only := regexp.MustCompile(options.only)
	var common []benchmark
	for i, side := range sides {
		options.progress.show("building " + program.pkg + " of " + side.name)
		if err := side.build(ctx, program); err != nil {
			return nil, err
		}
		options.progress.show("trying " + program.pkg + " of " + side.name)
		samples, _, err := side.measure(ctx, program, arguments(program, options.only, options.benchtime.String()))
		if err != nil {
			return nil, err
		}
		var found []benchmark
		for _, sample := range samples {
			if only.MatchString(sample.name) {
				found = append(found, benchmark{program, sample.name, sample.iterations})
			}
		}
		if i == 0 {
			common = found
			continue
		}
		both := func(b benchmark) bool {
			return slices.ContainsFunc(found, func(other benchmark) bool { return other.name == b.name })
		}
		for _, left := range slices.DeleteFunc(slices.Clone(common), both) {
			options.progress.say("left out: " + left.label() + ", which " + side.name + " does not have")
		}
		common = slices.DeleteFunc(common, func(b benchmark) bool { return !both(b) })
	}
	return common, nil
}

// coreSides selects the measurements of core that have a compared unit, of our own sides.
const coreSides = `^(Throughput|Paced/rate=100k).*/impl=bellerophon`

// arguments returns the command line of a program's trial.
func arguments(p program, only, benchtime string) []string {
	if p.command {
		return []string{"-repeat", "1", "-only", coreSides}
	}
	pattern := "."
	if !strings.Contains(only, "/") && only != "" {
		pattern = only // A pattern with a slash has levels; prepare matches the whole name.
	}
	return []string{"-test.run", "^$", "-test.benchmem", "-test.bench", pattern, "-test.benchtime", benchtime}
}

// arguments returns the command line that runs one benchmark alone.
func (b benchmark) arguments() []string {
	if b.program.command {
		return []string{"-repeat", "1", "-only", "^" + regexp.QuoteMeta(b.name) + "$"}
	}
	return []string{"-test.run", "^$", "-test.benchmem", "-test.bench", exactly(b.name), "-test.benchtime", fmt.Sprintf("%dx", b.iterations)}
}

// measure runs a program of a side once.
func (s side) measure(ctx context.Context, p program, arguments []string) ([]sample, time.Duration, error) {
	folder := s.worktree
	if !p.command {
		folder += strings.TrimPrefix(p.pkg, ".") // As go test does.
	}
	output, cpu, err := measured(ctx, folder, s.binary(p), arguments...)
	if err != nil {
		return nil, 0, fmt.Errorf("measure %s of %s: %w", p.pkg, s.name, err)
	}
	samples, err := parse(output)
	if err != nil {
		return nil, 0, fmt.Errorf("measure %s of %s: %w", p.pkg, s.name, err)
	}
	return samples, cpu, nil
}

// once runs one benchmark of a side and returns its values by unit.
func (s side) once(ctx context.Context, b benchmark) (map[string]float64, error) {
	samples, cpu, err := s.measure(ctx, b.program, b.arguments())
	if err != nil {
		return nil, err
	}
	if len(samples) != 1 || samples[0].name != b.name {
		return nil, fmt.Errorf("measure %s of %s: it printed %d results, want one", b.label(), s.name, len(samples))
	}
	values := samples[0].values
	if _, has := values[cpuUnit]; !has && samples[0].iterations > 0 {
		values[cpuUnit] = float64(cpu) / float64(samples[0].iterations)
	}
	return values, nil
}

// paired holds the values of both sides of one benchmark, by pair.
type paired struct{ base, change []map[string]float64 }

// measure runs all pairs of all benchmarks. All benchmarks run once before any runs again:
// a slow phase of the machine is then a pair of many, not all pairs of one.
func measure(ctx context.Context, options options, benchmarks []benchmark, base, change side) ([]paired, error) {
	values := make([]paired, len(benchmarks))
	options.progress.expect(options.pairs * len(benchmarks))
	for pair := range options.pairs {
		for i, benchmark := range benchmarks {
			options.progress.pair(pair+1, options.pairs, benchmark.label())
			if err := values[i].run(ctx, benchmark, base, change, pair%2 == 1); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

// run runs one pair, base first or change first.
func (p *paired) run(ctx context.Context, b benchmark, base, change side, reverse bool) error {
	order := []side{base, change}
	if reverse {
		slices.Reverse(order)
	}
	for _, side := range order {
		values, err := side.once(ctx, b)
		if err != nil {
			return err
		}
		if side == base {
			p.base = append(p.base, values)
		} else {
			p.change = append(p.change, values)
		}
	}
	return nil
}
