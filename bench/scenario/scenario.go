package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// Variant is the size of a scenario.
type Variant struct {
	N       int // number of objects
	M       int // changes of each object in a storm; replaced objects in a churn; new objects in a return
	Load    int // percent of the ideal client's rate
	Seconds int // duration of an idle scenario

	noServers bool // no object has a server, whatever N is
}

// ManyObjects is the largest number of objects that have one server each. With more objects, the
// machine would be busy with pods, so none has a server. The objects of a storm have no server
// either. Each change of a storm makes a StatefulSet revision. With ten revisions each of 200
// StatefulSets, their controller replaces pods for minutes after the last change. The
// measurement could not tell whether the contender or that controller was slow.
const ManyObjects = 1000

// Replicas returns the number of replicas of each object of a load.
func (v Variant) Replicas() int32 {
	if v.noServers || v.N > ManyObjects {
		return 0
	}
	return 1
}

// Scenario is a load under which contenders are measured.
type Scenario struct {
	Name string
	// Creates is set if the scenario only creates objects. A contender that implements only the
	// creation part of the contract can run it.
	Creates bool
	// Sweeps is set if the scenario compares numbers of workers, and warm with cold contenders.
	// Limits is set if it compares memory limits.
	Sweeps, Limits bool
	// Paced is set if the scenario needs the rate of the ideal client.
	Paced bool
	// Found is set if n objects that the contender has finished exist before it starts. They are
	// made by [Clients.Seed] and [World.Adopt].
	Found bool

	about       string
	parts       []part
	short, full []Variant
	run         func(ctx context.Context, w *World, v Variant) (rundir.Measured, error)
}

// part is one number of a variant.
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
	{Name: "start", about: "n objects exist, without children, when the contender is started",
		Creates: true, parts: []part{{partN.name, partN.of, 0, partN.maximum}}, run: start,
		short: []Variant{{N: 100}}, full: []Variant{{N: 0}, {N: 10_000}, {N: 50_000}}},
	{Name: "return", about: "n objects are finished and m were created while the contender was down, when it is started",
		Found: true, Limits: true, parts: []part{partN, partM}, run: comeBack,
		short: []Variant{{N: 500, M: 10}}, full: []Variant{{N: 50_000, M: 100}, {N: 10_000, M: 100}}},
	{Name: "restart", about: "n objects are finished when the contender is restarted",
		parts: []part{partN}, run: restart,
		short: []Variant{{N: 50}}, full: []Variant{{N: 1000}, {N: 10_000}}},
	{Name: "storm", about: "n objects without servers are changed m times each, as fast as the API server takes the changes",
		parts: []part{partN, partM}, run: storm,
		short: []Variant{{N: 20, M: 5, noServers: true}}, full: []Variant{{N: 500, M: 20, noServers: true}}},
	{Name: "steady", about: "n objects are created at load percent of the ideal client's rate",
		Creates: true, Sweeps: true, Paced: true, parts: []part{partN, partLoad}, run: steady,
		short: []Variant{{N: 100, Load: 50}, {N: 30, Load: 10}}, full: []Variant{{N: 3000, Load: 50}, {N: 3000, Load: 75}, {N: 500, Load: 10}}},
	{Name: "drift", about: "another client changes the ConfigMap, the Service or the StatefulSet of each of n finished objects",
		parts: []part{partN}, run: drift,
		short: []Variant{{N: 20}}, full: []Variant{{N: 1000}}},
	{Name: "churn", about: "m times, the oldest of n objects is deleted and a new one is created",
		Paced: true, parts: []part{{partN.name, partN.of, 10, partN.maximum}, partM}, run: churn,
		short: []Variant{{N: 20, M: 40}}, full: []Variant{{N: 500, M: 3000}}},
	{Name: "idle", about: "n objects are finished and nothing happens for the given number of seconds",
		parts: []part{partN, partSeconds}, run: idle,
		short: []Variant{{N: 20, Seconds: 10}}, full: []Variant{{N: 1000, Seconds: 300}, {N: 10_000, Seconds: 300}}},
}

// Names returns the names of all scenarios.
func Names() []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}

// Describe returns a description of all scenarios, one line each.
func Describe() string {
	var text strings.Builder
	for _, s := range all {
		fmt.Fprintf(&text, "  %-9s%s\n", s.Name, s.about)
	}
	return text.String()
}

// Chosen is a scenario in one variant.
type Chosen struct {
	Scenario
	Variant
	// Swept is set if sweeps use this variant: the first default variant, or one with a given size.
	Swept bool
}

// String returns the variant, such as "n=50,load=75".
func (c Chosen) String() string {
	var parts []string
	for _, p := range c.parts {
		parts = append(parts, fmt.Sprintf("%s=%d", p.name, *p.of(&c.Variant)))
	}
	return strings.Join(parts, ",")
}

// Parse parses one scenario: a name such as "burst", which stands for its default variants, or a
// name with a size such as "steady:n=50:load=75". With full, the default variants are the large
// ones.
func Parse(text string, full bool) ([]Chosen, error) {
	name, rest, varied := strings.Cut(strings.TrimSpace(text), ":")
	at := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("there is no scenario %q; allowed are %s", name, strings.Join(Names(), ", "))
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

// set parses one number of a variant, such as "n=50".
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
			return fmt.Errorf("%s of %s is %q; allowed is a number from %d to %d", name, s.Name, text, p.minimum, p.maximum)
		}
		*p.of(variant) = value
		return nil
	}
	return fmt.Errorf("scenario %s has no %q; allowed are %s", s.Name, name, strings.Join(names, ", "))
}

// Run runs the scenario with a contender, and ends the contender. The error is a [Failure] if the
// contender caused it.
func (c Chosen) Run(ctx context.Context, w *World) (rundir.Measured, error) {
	judged, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(w.Judge.group.Context(), func() { end(errors.New("the judge's watch has ended")) })()
	measured, err := c.run(judged, w, c.Variant)
	// If the contender ended by itself, that is the cause of the error.
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
