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
	iterations int // operations of one run, the same on both sides
}

// label returns a name that is unique among all programs.
func (b benchmark) label() string { return strings.TrimPrefix(b.program.pkg, "./") + "." + b.name }

// compare measures two revisions. It removes its worktrees also after an error.
func compare(ctx context.Context, options options) (outcome outcome, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, options.limit, fmt.Errorf("the comparison took longer than %v; "+
		"raise --limit, shorten --benchtime or measure less with --bench and --only", options.limit))
	defer cancel()
	if status, err := run(ctx, ".", "git", "status", "--porcelain", "--untracked-files=no"); err != nil {
		return outcome, err
	} else if len(status) > 0 {
		options.progress.say("warning: there are uncommitted changes; they are not measured")
	}
	base, change, remove, err := checkout(ctx, ".", options.base, options.change)
	defer func() { err = errors.Join(err, remove()) }()
	if err != nil {
		return outcome, err
	}
	var benchmarks []benchmark
	for _, program := range options.programs {
		found, err := prepare(ctx, options, program, base, change)
		if err != nil {
			return outcome, err
		}
		benchmarks = append(benchmarks, found...)
	}
	if len(benchmarks) == 0 {
		return outcome, errors.New("the revisions have no selected benchmark in common; give other values of --bench and --only")
	}
	values, err := measure(ctx, options, benchmarks, base, change)
	if err != nil {
		return outcome, err
	}
	return newOutcome(base.commit, change.commit, options.pairs, benchmarks, values), nil
}

// prepare builds a program of both sides, and returns the benchmarks that both have. Each run will
// do as many operations as base did in about options.benchtime.
func prepare(ctx context.Context, options options, program program, base, change side) ([]benchmark, error) {
	for _, side := range []side{base, change} {
		options.progress.show("building " + program.pkg + " of " + side.name)
		if err := side.build(ctx, program); err != nil {
			return nil, err
		}
	}
	trials, err := base.trials(ctx, program, options.benchtime)
	if err != nil {
		return nil, err
	}
	var common []benchmark
	only := regexp.MustCompile(options.only)
	for _, trial := range trials {
		if program.rounds && !only.MatchString(trial.name) {
			continue // Trials of test binaries match once they are tried: their names are of functions.
		}
		options.progress.show("trying " + program.pkg + " " + trial.name)
		before, err := base.try(ctx, options, program, trial)
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			// A failure on base is not the change's fault: the change may have fixed it.
			options.progress.say("left out: " + program.pkg + " " + trial.name + ": " + err.Error())
			continue
		}
		if len(before) == 0 {
			continue
		}
		after, err := change.try(ctx, options, program, trial)
		if err != nil {
			return nil, err
		}
		for _, tried := range before {
			if slices.ContainsFunc(after, func(other benchmark) bool { return other.name == tried.name }) {
				common = append(common, tried)
			} else {
				options.progress.say("left out: " + tried.label() + ", which change does not have")
			}
		}
	}
	return common, nil
}

// trial is a command line that runs one or more benchmarks of a program.
type trial struct {
	name      string
	arguments []string
}

// trials returns the trials of a program. A test binary has one trial for each benchmark function,
// so that a function that fails or never ends does not hide the others.
func (s side) trials(ctx context.Context, p program, benchtime time.Duration) ([]trial, error) {
	if p.rounds {
		return roundTrials(), nil
	}
	if p.command {
		return []trial{{"all", []string{"-repeat", "1", "-only", coreSides}}}, nil
	}
	listed, err := run(ctx, s.worktree, s.binary(p), "-test.list", "^Benchmark")
	if err != nil {
		return nil, fmt.Errorf("list benchmarks of %s: %w", p.pkg, err)
	}
	var trials []trial
	for name := range strings.FieldsSeq(string(listed)) {
		trials = append(trials, trial{name, []string{"-test.run", "^$", "-test.benchmem", "-test.bench", "^" + name + "$", "-test.benchtime", benchtime.String()}})
	}
	return trials, nil
}

// try runs a trial and returns its benchmarks that match options.only.
func (s side) try(ctx context.Context, options options, p program, t trial) ([]benchmark, error) {
	samples, _, err := s.measure(ctx, p, t.arguments, trialLimit+50*options.benchtime)
	if err != nil {
		return nil, err
	}
	only := regexp.MustCompile(options.only)
	var found []benchmark
	for _, sample := range samples {
		if only.MatchString(sample.name) {
			found = append(found, benchmark{p, sample.name, sample.iterations})
		}
	}
	return found, nil
}

// coreSides matches the measurements of core that have a compared unit, for Bellerophon alone.
const coreSides = `^(Throughput|Paced/rate=100k).*/impl=bellerophon`

// arguments returns the command line that runs only this benchmark.
func (b benchmark) arguments() []string {
	if b.program.rounds {
		return []string{b.name}
	}
	if b.program.command {
		return []string{"-repeat", "1", "-only", "^" + regexp.QuoteMeta(b.name) + "$"}
	}
	return []string{"-test.run", "^$", "-test.benchmem", "-test.bench", exactly(b.name), "-test.benchtime", fmt.Sprintf("%dx", b.iterations)}
}

// One process may run for runLimit or trialLimit, plus 50 times the benchtime. A benchmark that
// never ends must not use up the time of the whole comparison.
const (
	runLimit   = time.Minute
	trialLimit = time.Minute
)

// measure runs a program of a side once.
func (s side) measure(ctx context.Context, p program, arguments []string, limit time.Duration) ([]sample, time.Duration, error) {
	if p.rounds {
		limit = roundLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it did not end within %v", limit))
	defer cancel()
	if p.rounds {
		samples, err := s.round(ctx, p, arguments[0])
		if err != nil {
			err = fmt.Errorf("measure %s of %s: %w", p.pkg, s.name, err)
		}
		return samples, 0, err
	}
	folder := s.worktree
	if !p.command {
		folder += strings.TrimPrefix(s.folder(p), ".") // go test runs a test binary in the folder of its package, too.
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
func (s side) once(ctx context.Context, b benchmark, benchtime time.Duration) (map[string]float64, error) {
	samples, cpu, err := s.measure(ctx, b.program, b.arguments(), runLimit+50*benchtime)
	if err != nil {
		return nil, err
	}
	if len(samples) != 1 || samples[0].name != b.name {
		return nil, fmt.Errorf("measure %s of %s: it printed %d results; it must print one", b.label(), s.name, len(samples))
	}
	values := samples[0].values
	if _, has := values[cpuUnit]; !has && samples[0].iterations > 0 {
		values[cpuUnit] = float64(cpu) / float64(samples[0].iterations)
	}
	return values, nil
}

// paired holds the values of both sides of one benchmark, by pair.
type paired struct{ base, change []map[string]float64 }

// measure runs all pairs of all benchmarks. It runs one pair of every benchmark before the next
// pair of any. So a slow phase of the machine affects one pair of many benchmarks, not all pairs of
// one.
func measure(ctx context.Context, options options, benchmarks []benchmark, base, change side) ([]paired, error) {
	values := make([]paired, len(benchmarks))
	options.progress.expect(options.pairs * len(benchmarks))
	for pair := range options.pairs {
		for i, benchmark := range benchmarks {
			options.progress.pair(pair+1, options.pairs, benchmark.label())
			if err := values[i].run(ctx, options, benchmark, base, change, pair%2 == 1); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

// run runs one pair, base first or change first.
func (p *paired) run(ctx context.Context, options options, b benchmark, base, change side, reverse bool) error {
	order := []side{base, change}
	if reverse {
		slices.Reverse(order)
	}
	for _, side := range order {
		values, err := side.once(ctx, b, options.benchtime)
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
