package edge

import (
	"fmt"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
)

// The forms of the operator.
const (
	events  = "events"
	polling = "polling"
)

// Settings says what is measured.
type Settings struct {
	Workers     []int           `json:"workers"`     // of the form with events
	Intervals   []time.Duration `json:"intervals"`   // of the form with polling, in nanoseconds
	PollWorkers int             `json:"pollWorkers"` // of the form with polling
	Objects     int             `json:"objects"`
	Rate        float64         `json:"rate"`    // changes a second
	Outside     time.Duration   `json:"outside"` // how long a repair waits before it writes
	Idle        time.Duration   `json:"idle"`    // the window without changes, or two intervals if that is longer
	Load        time.Duration   `json:"load"`    // the window with changes, or two intervals if that is longer
}

// usual are the settings of the command, and quick the ones of a first look.
var (
	usual = Settings{
		Workers:     []int{1, 2, 4, 8, 16, 32},
		Intervals:   []time.Duration{time.Second / 2, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second},
		PollWorkers: 32, Objects: 400, Rate: 10, Outside: 50 * time.Millisecond, Idle: 10 * time.Second, Load: 20 * time.Second,
	}
	quick = Settings{
		Workers: []int{1, 4}, Intervals: []time.Duration{time.Second / 2, time.Second},
		PollWorkers: 32, Objects: 20, Rate: 10, Outside: 50 * time.Millisecond, Idle: 2 * time.Second, Load: 3 * time.Second,
	}
)

// validate returns an error that names the flag that is out of its range.
func (s Settings) validate() error {
	switch {
	case len(s.Workers) == 0 || slices.Min(s.Workers) < 1 || slices.Max(s.Workers) > 1024 || !isRising(s.Workers):
		return fmt.Errorf("--workers is %v; allowed are rising numbers from 1 to 1024", s.Workers)
	case len(s.Intervals) == 0 || slices.Min(s.Intervals) < 100*time.Millisecond || slices.Max(s.Intervals) > time.Minute || !isRising(s.Intervals):
		return fmt.Errorf("--intervals is %v; allowed are rising ones from 100ms to 1m", s.Intervals)
	case s.PollWorkers < 1 || s.PollWorkers > 1024:
		return fmt.Errorf("--poll-workers is %d; allowed is 1 to 1024", s.PollWorkers)
	case s.Objects < 2 || s.Objects > 10_000:
		return fmt.Errorf("--objects is %d; allowed is 2 to 10000", s.Objects)
	case s.Rate < 0.1 || s.Rate > 1000:
		return fmt.Errorf("--rate is %v; allowed is 0.1 to 1000 changes a second", s.Rate)
	case s.Outside < 0 || s.Outside > time.Minute:
		return fmt.Errorf("--outside is %v; allowed is 0 to 1m", s.Outside)
	}
	return nil
}

func isRising[T int | time.Duration](values []T) bool {
	return slices.IsSorted(values) && len(slices.Compact(slices.Clone(values))) == len(values)
}

// cells returns the cells of the settings without their measurements.
func (s Settings) cells() (cells []Cell) {
	for _, workers := range s.Workers {
		cells = append(cells, Cell{Form: events, Workers: workers})
	}
	for _, interval := range s.Intervals {
		cells = append(cells, Cell{Form: polling, Workers: s.PollWorkers, Interval: interval})
	}
	return cells
}

// Cell is one form in one setting, with what was measured.
type Cell struct {
	Form     string        `json:"form"`
	Workers  int           `json:"workers"`
	Interval time.Duration `json:"interval,omitzero"` // of polling
	Changes  int           `json:"changes"`           // all of them were repaired
	Median   float64       `json:"medianSeconds"`     // of the reactions
	P99      float64       `json:"p99Seconds"`        // the smallest reaction that 99 % of all do not exceed
	Idle     Traffic       `json:"idle"`
	Load     Traffic       `json:"load"`
}

// Traffic is what passed between the operator and the API server, a minute.
type Traffic struct {
	Requests float64 `json:"requests"` // all requests about resources, with the writes
	Writes   float64 `json:"writes"`
	Bytes    float64 `json:"bytes"` // of bodies and events, both ways
}

// trafficIn sums up the requests that arrived and the events that passed in the interval [from, to).
func trafficIn(record proxy.Record, from, to time.Time) Traffic {
	within := func(at time.Time) bool { return !at.Before(from) && at.Before(to) }
	var sum Traffic
	for _, call := range slices.Concat(record.Calls, record.Open) {
		if call.Resource == "" || !within(call.At) {
			continue
		}
		sum.Requests++
		if call.IsWrite() {
			sum.Writes++
		}
		sum.Bytes += float64(call.In)
		if !call.IsWatch() { // The bytes of a watch are counted with its events.
			sum.Bytes += float64(call.Out)
		}
	}
	for _, event := range record.Events {
		if within(event.At) {
			sum.Bytes += float64(event.Bytes)
		}
	}
	minutes := to.Sub(from).Minutes()
	return Traffic{Requests: sum.Requests / minutes, Writes: sum.Writes / minutes, Bytes: sum.Bytes / minutes}
}

// react sets the reactions of a cell.
func (c *Cell) react(reactions []time.Duration) {
	slices.Sort(reactions)
	c.Changes = len(reactions)
	c.Median, c.P99 = quantile(reactions, 50).Seconds(), quantile(reactions, 99).Seconds()
}

// quantile returns the smallest of the sorted values that is not exceeded by the given percentage, or 0 for none.
func quantile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}
