package harness

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/outcome"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Options of [Run].
type Options struct {
	// Contenders are names with commas between them, or all.
	Contenders string
	// Scenarios are names with commas between them, each with its size where the usual one
	// is not meant, such as burst,steady:n=50:load=75; or all.
	Scenarios string
	// Full says that the usual sizes are the large ones, which take hours.
	Full bool
	// Dir is the folder of the outcome. A run that is there and has the same options goes on:
	// only Contenders may differ, and Turns be more.
	Dir string
	// Conformance is check, so that contenders that are not known to do what the contract
	// says are checked before anything is timed, and those that fail are left out; or skip.
	Conformance string
	// Turns is how often everything is measured: 1 to 100.
	Turns int
	// Workers are the numbers of reconciles at once to measure beside the defaults, with
	// commas between them: 1 to 1024 each. May be empty.
	Workers string
	// Memory are the limits of the memory to measure beside the defaults, such as
	// 512Mi,256Mi: 16Mi or more each. May be empty.
	Memory string
	// Warm measures every burst and steady load a second time, after a warm-up, of the
	// contenders that warming up makes faster, with their defaults.
	Warm bool
	// Limit is how long the rounds may take together: no round is begun that would not be
	// over by then if it took as long as the longest so far. 0 is no limit.
	Limit time.Duration
	// Ideal is how many objects the ideal client makes in each round: 1 to 1000; 0 leaves it
	// out, and no round is rejected for it.
	Ideal int
	// Tolerance is by how much of their median the times of the ideal client may differ:
	// above 0; 0.1 is what the comparison promises.
	Tolerance float64
	// Log gets what programs that are built print.
	Log io.Writer
}

// setting is how a contender is run.
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

// choice is what options mean.
type choice struct {
	Options
	contenders []contender.Contender
	scenarios  []scenario.Chosen
	workers    []setting
	limits     []setting
}

func (o Options) complete() (*choice, error) {
	if o.Conformance != checkConformance && o.Conformance != skipConformance {
		return nil, fmt.Errorf("--conformance is %q; allowed are %s and %s", o.Conformance, checkConformance, skipConformance)
	}
	if o.Turns < 1 || o.Turns > 100 {
		return nil, fmt.Errorf("--turns is %d; allowed is 1 to 100", o.Turns)
	}
	if o.Ideal < 0 || o.Ideal > 1000 {
		return nil, fmt.Errorf("--ideal is %d; allowed is 0 to 1000", o.Ideal)
	}
	if o.Tolerance <= 0 {
		return nil, fmt.Errorf("--tolerance is %v; it must be above 0, such as 0.1 for 10 %%", o.Tolerance)
	}
	if o.Limit < 0 {
		return nil, fmt.Errorf("--limit is %v; it must not be negative", o.Limit)
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
	names := o.Scenarios
	if names == "all" {
		names = strings.Join(scenario.Names(), ",")
	}
	for text := range strings.SplitSeq(names, ",") {
		chosen, err := scenario.Parse(text, o.Full)
		if err != nil {
			return nil, fmt.Errorf("--scenarios: %w", err)
		}
		if o.Ideal == 0 && len(chosen) > 0 && chosen[0].Paced {
			return nil, fmt.Errorf("--ideal is 0, but %s needs the rate of the ideal client; leave one of them out", chosen[0].Name)
		}
		c.scenarios = append(c.scenarios, chosen...)
	}
	for text := range listed(o.Workers) {
		workers, err := strconv.Atoi(text)
		if err != nil || workers < 1 || workers > 1024 {
			return nil, fmt.Errorf("--workers has %q; allowed are numbers from 1 to 1024 with commas between them", text)
		}
		c.workers = append(c.workers, setting{workers: workers})
	}
	for text := range listed(o.Memory) {
		limit, err := resource.ParseQuantity(text)
		if err != nil || limit.Value() < 16<<20 {
			return nil, fmt.Errorf("--memory has %q; allowed are quantities from 16Mi with commas between them", text)
		}
		c.limits = append(c.limits, setting{memory: limit.Value()})
	}
	return c, nil
}

// listed are the parts of a list with commas.
func listed(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" && !yield(part) {
				return
			}
		}
	}
}

// planned is a round that is to be made.
type planned struct {
	outcome.Round
	contender contender.Contender
	scenario  scenario.Chosen
	setting   setting
}

// group are the rounds that are compared with each other: of one scenario in one variant.
type group struct {
	scenario scenario.Chosen
	turns    [][]planned
}

// plan is all rounds. Odd turns are backwards.
func (c *choice) plan() []group {
	var groups []group
	for _, s := range c.scenarios {
		g := group{scenario: s}
		for turn := range c.Turns {
			g.turns = append(g.turns, c.wayThrough(s, turn, s.Swept && turn < sweepTurns))
		}
		groups = append(groups, g)
	}
	return groups
}

// sweepTurns is in how many turns settings beside the defaults are measured: one each way.
const sweepTurns = 2

// wayThrough is one way through the contenders, with their defaults, and with other
// settings as well if those are swept.
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
			if warm && !one.Warmed || one.CreatesOnly && (!s.Creates || setting.memory > 0) || one.NoHeapLimit && setting.memory > 0 || one.OneWorker && setting.workers > 1 {
				continue
			}
			rounds = append(rounds, planned{
				Round: outcome.Round{
					Scenario: s.Name, Variant: s.String(), Contender: one.Name, Setting: setting.String(), Turn: turn, Warm: warm,
				},
				contender: one, scenario: s, setting: setting,
			})
		}
	}
	for _, setting := range settings {
		add(setting, false)
	}
	if c.Warm && s.Sweeps {
		add(setting{}, true)
	}
	if turn%2 == 1 {
		slices.Reverse(rounds)
	}
	return rounds
}
