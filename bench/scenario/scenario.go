package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy/distance"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// Variant is the size of a scenario.
type Variant struct {
	N       int // number of objects; number of kinds in kinds
	M       int // changes of each object in a storm; replaced objects in a churn; new objects in a return or in kinds; changed ones in an away; drifted ones in a disturbance
	Load    int // percent of the ideal client's rate
	Seconds int // duration of an idle scenario, of a disturbance, or of each half of a long one
	RTT     int // round trip between contender and API server in milliseconds; 0 is loopback

	noServers bool // no object has a server, whatever N is
}

// Size selects default variants of all scenarios.
type Size string

// The sizes. A scenario without variants of a size is left out, but each has variants of Short and Full.
const (
	Short  Size = "short"  // the default of the command
	Full   Size = "full"   // takes hours
	Tiny   Size = "tiny"   // of CI, which measures bursts and returns separately
	Small  Size = "small"  // of `make bench`
	Medium Size = "medium" // of `make bench-medium`
)

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

// RoundTrip returns the round trip between contender and API server.
func (v Variant) RoundTrip() time.Duration { return time.Duration(v.RTT) * time.Millisecond }

// Scenario is a load under which contenders are measured.
type Scenario struct {
	Name string
	// Creates is set if the scenario only creates objects. A contender that implements only the
	// creation part of the contract can run it.
	Creates bool
	// Sweeps is set if the scenario compares numbers of workers, Limits if it compares memory limits,
	// and Warms if it compares warm with cold contenders.
	Sweeps, Limits, Warms bool
	// Paced is set if the scenario needs the rate of the ideal client.
	Paced bool
	// Found is set if n objects that the contender has finished exist before it starts. They are
	// made by [Clients.Seed] and [World.Adopt].
	Found bool

	// Disturbs is set if the scenario disturbs the API server. The contender then reaches it through a
	// fault proxy.
	Disturbs bool

	// Elects is set if processes of the contender elect a leader, and Shares if they share the objects. A
	// contender that cannot is left out.
	Elects, Shares bool

	// ManyKinds is set if the contender is its program with many kinds in one manager.
	ManyKinds bool
	// NoWork is set if no object has to converge after the window opens.
	NoWork bool
	// Starts is set if the contender is started when the objects exist.
	Starts bool
	// Goals lists the goals that are measured in the scenario.
	Goals []Goal

	about string
	parts []part
	sizes map[Size][]Variant
	run   func(ctx context.Context, w *World, v Variant) (rundir.Measured, error)
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
	// partRTT is a part of all scenarios. A variant without a network does not name it.
	partRTT = part{"rtt", func(v *Variant) *int { return &v.RTT }, 0, int(distance.Longest / time.Millisecond)}
)

// all is the list of scenarios. A new scenario is one file with its entry, its function and its goals,
// and one name here.
var all = []Scenario{burst, start, comeBack, away, restart, storm, steady, drift, churn, idle, throttle, outage, crash, expire, failover, shards, kinds, long}

// All returns all scenarios.
func All() []Scenario { return slices.Clone(all) }

// Named returns the scenario of a name, or the zero Scenario if there is none, such as a scenario of an
// old run.
func Named(name string) Scenario {
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	return Scenario{}
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
	if c.RTT > 0 {
		parts = append(parts, fmt.Sprintf("%s=%d", partRTT.name, c.RTT))
	}
	return strings.Join(parts, ",")
}

// Parse parses scenarios that are separated by commas. Each is a name such as "burst", which stands for
// its default variants, or a name with a size such as "steady:n=50:load=75". With full, the default
// variants are the large ones. The text may also be "all", or a [Size] for all scenarios that have it.
func Parse(text string, full bool) ([]Chosen, error) {
	size := Short
	if full {
		size = Full
	}
	text = strings.TrimSpace(text)
	if slices.Contains([]Size{Tiny, Small, Medium}, Size(text)) {
		size, text = Size(text), "all"
	}
	var found []Chosen
	if text == "all" {
		for _, s := range all {
			found = append(found, s.usual(size)...)
		}
		return found, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		chosen, err := parseOne(one, size)
		if err != nil {
			return nil, err
		}
		found = append(found, chosen...)
	}
	return found, nil
}

// usual returns the scenario in its variants of a size.
func (s Scenario) usual(size Size) []Chosen {
	var chosen []Chosen
	for i, variant := range s.sizes[size] {
		chosen = append(chosen, Chosen{Scenario: s, Variant: variant, Swept: i == 0})
	}
	return chosen
}

func parseOne(text string, size Size) ([]Chosen, error) {
	name, rest, varied := strings.Cut(strings.TrimSpace(text), ":")
	found := Named(name)
	if found.Name == "" {
		return nil, fmt.Errorf("there is no scenario %q; allowed are %s", name, strings.Join(Names(), ", "))
	}
	if !varied {
		return found.usual(size), nil
	}
	chosen := Chosen{Scenario: found, Variant: found.sizes[size][0], Swept: true}
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
	for _, p := range append(slices.Clone(s.parts), partRTT) {
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
				err = &Failure{fmt.Errorf("%w: %w", ended(w.process), err)}
			}
		default:
		}
	}
	return measured, errors.Join(err, w.stop(ctx))
}
