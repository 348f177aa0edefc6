package top

import (
	"errors"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/introspection"
)

// window is the time over which rates are taken.
const window = 5 * time.Second

// Rates are what a controller does in a second.
type Rates struct {
	Seconds    float64 `json:"seconds"` // over which the rates are taken
	Reconciles float64 `json:"reconcilesPerSecond"`
	Writes     float64 `json:"writesPerSecond"`
	Failures   float64 `json:"failuresPerSecond"`
}

// Shown is a state with the rates of its controllers, as the JSON of top has them.
type Shown struct {
	introspection.State
	Controllers []ShownController `json:"controllers"`
}

// ShownController is the state of a controller with its rates.
type ShownController struct {
	introspection.Controller
	Rates *Rates `json:"rates,omitempty"` // missing in a first state
}

// Add adds the next state. It returns an error if the state is none.
func (t *Table) Add(now introspection.State) error {
	if now.Time.IsZero() {
		return errors.New("the answer has no time; is it the metrics server of an operator?")
	}
	if last := len(t.states) - 1; last >= 0 {
		switch before := t.states[last]; {
		case !before.Started.Equal(now.Started):
			t.states, t.replaced = nil, now.Time
		case !now.Time.After(before.Time): // Its clock was set back.
			t.states = nil
		}
	}
	t.states = append(t.states, now)
	for len(t.states) > 2 && now.Time.Sub(t.states[1].Time) >= window {
		t.states = t.states[1:]
	}
	return nil
}

// HasRates reports whether the rates of the last state are known.
func (t *Table) HasRates() bool { return len(t.states) > 1 }

// Shown returns the last state with its rates.
func (t *Table) Shown() Shown {
	now := t.last()
	made := Shown{State: now, Controllers: make([]ShownController, 0, len(now.Controllers))}
	for i := range now.Controllers {
		made.Controllers = append(made.Controllers, ShownController{now.Controllers[i], t.rates(&now.Controllers[i])})
	}
	return made
}

func (t *Table) last() introspection.State { return t.states[len(t.states)-1] }

// rates returns the rates of a controller since the oldest state that is kept, or nil if they are unknown.
func (t *Table) rates(of *introspection.Controller) *Rates {
	oldest := t.states[0]
	i := slices.IndexFunc(oldest.Controllers, func(known introspection.Controller) bool { return known.Name == of.Name })
	if !t.HasRates() || i < 0 || of.Attempts < oldest.Controllers[i].Attempts {
		return nil // A controller that was removed and came again counts anew.
	}
	before, took := oldest.Controllers[i], t.last().Time.Sub(oldest.Time).Seconds()
	rate := func(now, then int64) float64 { return float64(now-then) / took }
	return &Rates{took, rate(of.Attempts, before.Attempts), rate(of.Writes, before.Writes), rate(of.Errors, before.Errors)}
}
