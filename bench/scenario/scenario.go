package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/outcome"
)

// Variant is the size of a scenario.
type Variant struct {
	N       int // objects
	M       int // changes: of each object in a storm, of all in a churn; new objects in a return
	Load    int // percent of the ideal client's rate
	Seconds int // of being idle

	noServers bool // whatever N is
}

// ManyObjects is how many there are at most, with a server each: with more, the machine
// would be busy with pods, so that then there are none. A storm has none either: each change
// is a revision of a StatefulSet, whose controller replaces the pods of 200 of them, with ten
// revisions each, for minutes after the last, and there is no telling who was slow.
const ManyObjects = 1000

// Replicas are those of each object of a load.
func (v Variant) Replicas() int32 {
	if v.noServers || v.N > ManyObjects {
		return 0
	}
	return 1
}

// Scenario is what contenders are put through.
type Scenario struct {
	Name string
	// Creates says that it is about creations alone, which contenders do that do only those.
	Creates bool
	// Sweeps says that numbers of workers are compared in it, and contenders that are warm as
	// well as cold, and Limits that limits of the memory are.
	Sweeps, Limits bool
	// Paced says that it needs the rate of the ideal client.
	Paced bool
	// Found says that n objects are there that the contender has finished, by [Clients.Seed] and
	// [World.Adopt], before it is started.
	Found bool

	about       string
	parts       []part
	short, full []Variant
	run         func(ctx context.Context, w *World, v Variant) (outcome.Measured, error)
}

// part is one of a variant's numbers.
type part struct {
	name    string
	of      func(*Variant) *int
	minimum int
	maximum int
}

var (
	partN       = part{"n", func(v *Variant) *int { return &v.N }, 1, 100_000}
	partM       = part{"m", func(v *Variant) *int { return &v.M }, 1, 100_000}
	partLoad    = part{"load", func(v *Variant) *int { return &v.Load }, 1, 100}
	partSeconds = part{"seconds", func(v *Variant) *int { return &v.Seconds }, 1, 3600}
)

var all = []Scenario{
	{Name: "burst", about: "n objects are created as fast as the API server takes them",
		Creates: true, Sweeps: true, Limits: true, parts: []part{partN}, run: burst,
		short: []Variant{{N: 100}}, full: []Variant{{N: 1000}, {N: 5000}}},
	{Name: "start", about: "n objects are there, without children, when the contender is started",
		Creates: true, parts: []part{{partN.name, partN.of, 0, partN.maximum}}, run: start,
		short: []Variant{{N: 100}}, full: []Variant{{N: 0}, {N: 10_000}, {N: 50_000}}},
	{Name: "return", about: "n objects are finished and m are new, because it was away, when the contender is started",
		Found: true, Limits: true, parts: []part{partN, partM}, run: comeBack,
		short: []Variant{{N: 500, M: 10}}, full: []Variant{{N: 50_000, M: 100}, {N: 10_000, M: 100}}},
	{Name: "restart", about: "n objects are finished when the contender is started again",
		parts: []part{partN}, run: restart,
		short: []Variant{{N: 50}}, full: []Variant{{N: 1000}, {N: 10_000}}},
	{Name: "storm", about: "n objects without servers are each changed m times, as fast as the API server takes it",
		parts: []part{partN, partM}, run: storm,
		short: []Variant{{N: 20, M: 5, noServers: true}}, full: []Variant{{N: 500, M: 20, noServers: true}}},
	{Name: "steady", about: "n objects are created at load percent of the rate that the ideal client reaches",
		Creates: true, Sweeps: true, Paced: true, parts: []part{partN, partLoad}, run: steady,
		short: []Variant{{N: 100, Load: 50}, {N: 30, Load: 10}}, full: []Variant{{N: 3000, Load: 50}, {N: 3000, Load: 75}, {N: 500, Load: 10}}},
	{Name: "drift", about: "of each of n finished objects a ConfigMap, a Service or a StatefulSet is changed by somebody else",
		parts: []part{partN}, run: drift,
		short: []Variant{{N: 20}}, full: []Variant{{N: 1000}}},
	{Name: "churn", about: "the oldest of n objects is deleted and a new one created, m times",
		Paced: true, parts: []part{{partN.name, partN.of, 10, partN.maximum}, partM}, run: churn,
		short: []Variant{{N: 20, M: 40}}, full: []Variant{{N: 500, M: 3000}}},
	{Name: "idle", about: "n objects are finished and nothing happens, for so many seconds",
		parts: []part{partN, partSeconds}, run: idle,
		short: []Variant{{N: 20, Seconds: 10}}, full: []Variant{{N: 1000, Seconds: 300}, {N: 10_000, Seconds: 300}}},
}

// Names are those of all scenarios.
func Names() []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}

// Describe says what all scenarios are, a line each.
func Describe() string {
	var text strings.Builder
	for _, s := range all {
		fmt.Fprintf(&text, "  %-9s%s\n", s.Name, s.about)
	}
	return text.String()
}

// Chosen is a scenario in a variant.
type Chosen struct {
	Scenario
	Variant
	// Swept says that it is the variant for sweeps: the first usual one, or one asked for.
	Swept bool
}

// String is the variant, such as "n=50,load=75".
func (c Chosen) String() string {
	var parts []string
	for _, p := range c.parts {
		parts = append(parts, fmt.Sprintf("%s=%d", p.name, *p.of(&c.Variant)))
	}
	return strings.Join(parts, ",")
}

// Parse reads one scenario, such as "burst", for its usual variants, or "steady:n=50:load=75".
// full says which variants are usual.
func Parse(text string, full bool) ([]Chosen, error) {
	name, rest, varied := strings.Cut(strings.TrimSpace(text), ":")
	at := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(Names(), ", "))
	}
	found := all[at]
	usual := found.short
	if full {
		usual = found.full
	}
	if !varied {
		chosen := make([]Chosen, len(usual))
		for i, variant := range usual {
			chosen[i] = Chosen{Scenario: found, Variant: variant, Swept: i == 0}
		}
		return chosen, nil
	}
	chosen := Chosen{Scenario: found, Variant: usual[0], Swept: true}
	for setting := range strings.SplitSeq(rest, ":") {
		if err := found.set(&chosen.Variant, setting); err != nil {
			return nil, err
		}
	}
	return []Chosen{chosen}, nil
}

func (s Scenario) set(variant *Variant, setting string) error {
	name, text, _ := strings.Cut(setting, "=")
	var names []string
	for _, p := range s.parts {
		names = append(names, p.name)
		if p.name != name {
			continue
		}
		value, err := strconv.Atoi(text)
		if err != nil || value < p.minimum || value > p.maximum {
			return fmt.Errorf("%s of %s is %q; it must be a number from %d to %d", name, s.Name, text, p.minimum, p.maximum)
		}
		*p.of(variant) = value
		return nil
	}
	return fmt.Errorf("scenario %s has no %q; it has %s", s.Name, name, strings.Join(names, ", "))
}

// Run puts a contender through a scenario, and ends it. The error is a [Failure] if it is
// the contender's.
func (c Chosen) Run(ctx context.Context, w *World) (outcome.Measured, error) {
	judged, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(w.Judge.group.Context(), func() { end(errors.New("the judge's watch has ended")) })()
	measured, err := c.run(judged, w, c.Variant)
	// An error that a contender's own end brought about is that.
	var failure *Failure
	if err != nil && w.process != nil {
		select {
		case <-w.process.Done():
			if !errors.As(err, &failure) {
				err = &Failure{fmt.Errorf("the contender ended by itself; see contender.log: %w", err)}
			}
		default:
		}
	}
	return measured, errors.Join(err, w.stop(ctx))
}
