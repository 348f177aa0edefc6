package harness

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/cgroup"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/report"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Options configures [Run].
type Options struct {
	// Contenders lists names separated by commas, or is "all".
	Contenders string
	// Scenarios lists names separated by commas, or is "all". A name may be followed by a size
	// that replaces the default one, such as burst,steady:n=50:load=75: see [scenario.Parse].
	Scenarios string
	// Full makes the large sizes the default ones. They take hours.
	Full bool
	// Dir is the folder of the outcome. If it holds a run with the same options, that run resumes.
	// Only Contenders may differ then, and Turns may be higher.
	Dir string
	// Conformance is "check" or "skip". With "check", contenders without a recorded pass are
	// checked before anything is timed, and contenders that fail are left out.
	Conformance string
	// Turns is how often everything is measured: 1 to 100. With Until it is the largest number, from 8.
	Turns int
	// Until is a measure of the report and a width from 0.01 to 1, such as converge_seconds=0.1, or
	// empty. The rule holds for each scenario: after 8 turns or more, it gets no further turn if its
	// intervals are narrow. They are the 95 % intervals of the ratios to Bellerophon. The width is a
	// share of the ratio.
	Until string
	// Workers lists numbers of concurrent reconciles, separated by commas: 1 to 1024 each. They are
	// measured in addition to the defaults. It may be empty.
	Workers string
	// Memory lists memory limits, separated by commas, such as 512Mi,256Mi: 16Mi or more each. They
	// are measured in addition to the defaults. It may be empty.
	Memory string
	// SweepTurns is in how many turns Workers and Memory are measured: 1 to 100; 0 means 2, once forwards
	// and once backwards.
	SweepTurns int
	// Warm measures every burst, storm and steady load a second time after a warm-up, with the default
	// settings. It applies to the contenders that a warm-up makes faster, and to Bellerophon.
	Warm bool
	// Limit is how long all rounds together may take. No round is started that would exceed the
	// limit if it took as long as the longest round so far. 0 means no limit.
	Limit time.Duration
	// Cores is "shared", or "own": the contender has one processor alone, and the servers and the load
	// have the others.
	Cores string
	// Cgroup has hard limits of the contender, such as cpu=1,memory=256Mi, or is empty: see
	// [cgroup.Parse]. They hold in all rounds.
	Cgroup string
	// Ideal is how many objects the ideal client creates in each round: 0 to 1000. With 0 it does
	// not run, and no round is marked as noisy.
	Ideal int
	// Tolerance is by which share of their median the ideal client's times may differ. It is above
	// 0; the comparison promises 0.1.
	Tolerance float64
	// Log receives the output of the builds.
	Log io.Writer
}

// setting is a configuration of a contender.
type setting struct {
	workers int
	memory  int64
}

func (s setting) String() string {
	switch {
	case s.workers > 0:
		return fmt.Sprintf("workers=%d", s.workers)
	case s.memory > 0:
		return fmt.Sprintf("memory=%dMiB", s.memory>>20)
	default:
		return "default"
	}
}

// choice holds the parsed options.
type choice struct {
	Options
	contenders []contender.Contender
	scenarios  []scenario.Chosen
	workers    []setting
	limits     []setting
	until      rundir.Until // zero without such a rule
	own, rest  []int        // processors of contenders, and processors of everything else; empty if shared
	hard       cgroup.Limits
}

// complete validates and parses the options.
func (o Options) complete() (*choice, error) {
	if o.Conformance != checkConformance && o.Conformance != skipConformance {
		return nil, fmt.Errorf("--conformance is %q; allowed are %s and %s", o.Conformance, checkConformance, skipConformance)
	}
	if o.Turns < 1 || o.Turns > 100 {
		return nil, fmt.Errorf("--turns is %d; allowed is 1 to 100", o.Turns)
	}
	if o.SweepTurns == 0 {
		o.SweepTurns = defaultSweepTurns
	}
	if o.SweepTurns < 1 || o.SweepTurns > 100 {
		return nil, fmt.Errorf("--sweep-turns is %d; allowed is 1 to 100", o.SweepTurns)
	}
	if o.Ideal < 0 || o.Ideal > 1000 {
		return nil, fmt.Errorf("--ideal is %d; allowed is 0 to 1000", o.Ideal)
	}
	if o.Tolerance <= 0 {
		return nil, fmt.Errorf("--tolerance is %v; it must be above 0, such as 0.1 for 10 %%", o.Tolerance)
	}
	if o.Limit < 0 {
		return nil, fmt.Errorf("--limit is %v; allowed is 0 or more", o.Limit)
	}
	if o.Dir == "" {
		return nil, fmt.Errorf("--out is missing; give the folder for the outcome")
	}
	c := &choice{Options: o, contenders: contender.All()}
	if o.Contenders != "all" {
		var err error
		if c.contenders, err = contender.Named(o.Contenders); err != nil {
			return nil, fmt.Errorf("--contenders: %w", err)
		}
	}
	var err error
	if c.scenarios, err = scenario.Parse(o.Scenarios, o.Full); err != nil {
		return nil, fmt.Errorf("--scenarios: %w", err)
	}
	if at := slices.IndexFunc(c.scenarios, func(s scenario.Chosen) bool { return s.Paced }); o.Ideal == 0 && at >= 0 {
		return nil, fmt.Errorf("--ideal is 0, but %s needs the rate of the ideal client; leave one of them out", c.scenarios[at].Name)
	}
	if err := c.parseUntil(); err != nil {
		return nil, err
	}
	if err := c.divideCores(); err != nil {
		return nil, err
	}
	if err := c.parseCgroup(); err != nil {
		return nil, err
	}
	for text := range listed(o.Workers) {
		workers, err := strconv.Atoi(text)
		if err != nil || workers < 1 || workers > 1024 {
			return nil, fmt.Errorf("--workers has %q; allowed are numbers from 1 to 1024, separated by commas", text)
		}
		c.workers = append(c.workers, setting{workers: workers})
	}
	for text := range listed(o.Memory) {
		limit, err := resource.ParseQuantity(text)
		if err != nil || limit.Value() < 16<<20 {
			return nil, fmt.Errorf("--memory has %q; allowed are quantities from 16Mi, separated by commas", text)
		}
		c.limits = append(c.limits, setting{memory: limit.Value()})
	}
	return c, nil
}

// parseUntil parses the rule by which scenarios end.
func (c *choice) parseUntil() error {
	if c.Until == "" {
		return nil
	}
	measure, text, _ := strings.Cut(c.Until, "=")
	width, err := strconv.ParseFloat(text, 64)
	switch {
	case !report.IsCompared(measure):
		return fmt.Errorf("--until has the measure %q; allowed are the names of measures that reports compare, such as converge_seconds or peak_rss_bytes", measure)
	case err != nil || !(width >= 0.01 && width <= 1):
		return fmt.Errorf("--until has the width %q; allowed is 0.01 to 1", text)
	case c.Turns < fewestTurns:
		return fmt.Errorf("--turns is %d; with --until it is the largest number of turns, and allowed is %d to 100", c.Turns, fewestTurns)
	case !slices.ContainsFunc(c.contenders, func(one contender.Contender) bool { return one.Name == report.Ours }):
		return fmt.Errorf("--until needs ratios to %s, which --contenders leaves out", report.Ours)
	}
	c.until = rundir.Until{Measure: measure, Width: width, Minimum: fewestTurns}
	return nil
}

// parseCgroup parses the hard limits and checks that this process may set them.
func (c *choice) parseCgroup() (err error) {
	if c.Cgroup == "" {
		return nil
	}
	if c.hard, err = cgroup.Parse(c.Cgroup); err != nil {
		return fmt.Errorf("--cgroup: %w", err)
	}
	if err := cgroup.Check(c.hard); err != nil {
		return fmt.Errorf("--cgroup is %q, and this process may not set such limits: %w; leave it out, or run as root where /sys/fs/cgroup can be written", c.Cgroup, err)
	}
	return nil
}

// listed returns the parts of a list that are separated by commas, without empty ones.
func listed(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" && !yield(part) {
				return
			}
		}
	}
}

// planned is a round that the run will make.
type planned struct {
	rundir.Round
	contender contender.Contender
	scenario  scenario.Chosen
	setting   setting
}

// group holds the rounds of one scenario in one variant. They are compared with each other.
type group struct {
	scenario scenario.Chosen
	turns    [][]planned
}

// plan returns all rounds. Odd turns go backwards.
func (c *choice) plan() []group {
	var groups []group
	for _, s := range c.scenarios {
		g := group{scenario: s}
		for turn := range c.Turns {
			g.turns = append(g.turns, c.wayThrough(s, turn, s.Swept && turn < c.SweepTurns))
		}
		groups = append(groups, g)
	}
	return groups
}

// hasManyKinds reports whether a scenario needs the programs with many kinds.
func (c *choice) hasManyKinds() bool {
	return slices.ContainsFunc(c.scenarios, func(s scenario.Chosen) bool { return s.ManyKinds })
}

// defaultSweepTurns is in how many turns other settings than the defaults are measured.
const defaultSweepTurns = 2

// wayThrough returns one pass through the contenders with their defaults, and with the other
// settings if swept is set.
func (c *choice) wayThrough(s scenario.Chosen, turn int, swept bool) []planned {
	settings := []setting{{}}
	if swept && s.Sweeps {
		settings = append(settings, c.workers...)
	}
	if swept && s.Limits {
		settings = append(settings, c.limits...)
	}
	var rounds []planned
	add := func(setting setting, warm bool) {
		for _, one := range c.contenders {
			if s.Elects && !one.Elects || s.Shares && !one.Shares || s.ManyKinds && one.NoKinds != "" {
				continue
			}
			if warm && !one.Warmed || one.CreatesOnly && (!s.Creates || setting.memory > 0) || one.NoHeapLimit != "" && setting.memory > 0 || one.OneWorker && setting.workers > 1 {
				continue
			}
			rounds = append(rounds, planned{
				Round: rundir.Round{
					Scenario: s.Name, Variant: s.String(), Contender: one.Name, Setting: setting.String(), Turn: turn, Warm: warm,
				},
				contender: one, scenario: s, setting: setting,
			})
		}
	}
	for _, setting := range settings {
		add(setting, false)
	}
	if c.Warm && s.Warms {
		add(setting{}, true)
	}
	if turn%2 == 1 {
		slices.Reverse(rounds)
	}
	return rounds
}
