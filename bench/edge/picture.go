package edge

import (
	"fmt"
	"strconv"

	"github.com/bellerophon-io/bellerophon/bench/figure"
)

// figure returns the reactions in the first row and the requests in the second, with events on the left and polling
// on the right. The panels of a row have the same vertical axis.
func (r Result) figure() figure.Figure {
	workers := func(c Cell) float64 { return float64(c.Workers) }
	interval := func(c Cell) float64 { return c.Interval.Seconds() }
	pushed, polled := r.of(events), r.of(polling)
	count := figure.LogOf("workers", values(pushed, workers), number)
	every := figure.LogOf("interval", values(polled, interval), seconds)

	median, p99 := func(c Cell) float64 { return c.Median }, func(c Cell) float64 { return c.P99 }
	reaction := figure.Log("", append(values(r.Cells, median), values(r.Cells, p99)...), seconds)
	reactions := func(of []Cell, x func(Cell) float64) []figure.Line {
		return []figure.Line{
			{Name: "reaction, p99", Points: points(of, x, p99), Label: seconds},
			{Name: "reaction, median", Points: points(of, x, median), Label: seconds, Below: true},
		}
	}
	busy, calm := func(c Cell) float64 { return c.Load.Requests }, func(c Cell) float64 { return c.Idle.Requests }
	minute := figure.Log("", append(values(r.Cells, busy), values(r.Cells, calm)...), number)
	requests := func(of []Cell, x func(Cell) float64) []figure.Line {
		return []figure.Line{
			{Name: "requests a minute with changes", Points: points(of, x, busy), Label: number, Below: true},
			{Name: "requests a minute when idle", Points: points(of, x, calm), Label: number, Dashed: true},
		}
	}
	caption := fmt.Sprintf("%d objects, %g changes a second, a repair waits %v first; polling with %d workers; Kubernetes %s, %s processors. %s",
		r.Settings.Objects, r.Settings.Rate, r.Settings.Outside, r.Settings.PollWorkers, r.Kubernetes, r.Machine["cores"], r.Note)
	return figure.Figure{
		Title: "Reaction and requests of one operator: with events over its workers, with polling over its interval", Caption: caption, Columns: 2,
		Panels: []figure.Panel{
			{Title: "Events: reaction", X: count, Y: reaction, Lines: reactions(pushed, workers)},
			{Title: "Polling: reaction", X: every, Y: reaction, Lines: reactions(polled, interval)},
			{Title: "Events: requests a minute", X: count, Y: minute, Lines: requests(pushed, workers)},
			{Title: "Polling: requests a minute", X: every, Y: minute, Lines: requests(polled, interval)},
		},
	}
}

func values(of []Cell, value func(Cell) float64) (found []float64) {
	for _, cell := range of {
		found = append(found, value(cell))
	}
	return found
}

func points(of []Cell, x, y func(Cell) float64) (drawn [][2]float64) {
	for _, cell := range of {
		drawn = append(drawn, [2]float64{x(cell), y(cell)})
	}
	return drawn
}

func number(value float64) string { return strconv.FormatFloat(value, 'f', 0, 64) }
