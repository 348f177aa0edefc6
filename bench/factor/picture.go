package main

import (
	"fmt"

	"github.com/bellerophon-io/bellerophon/bench/figure"
	"github.com/bellerophon-io/bellerophon/cache"
)

// gridSteps is the number of steps of both vertical axes. They have the same grid.
const gridSteps = 5

// draw writes a picture of all scenarios to a file.
func (o outcome) draw(file string) error { return o.figure().WriteFile(file) }

// figure returns the shares of premature rises on the left axis, and the lateness on the right one.
func (o outcome) figure() figure.Figure {
	all := o.Scenarios[len(o.Scenarios)-1]
	premature := func(c calm) (float64, bool) { return share(c.Premature, c.Rises), c.Rises > 0 }
	own := func(c calm) (float64, bool) { return share(c.Own, c.Rises), c.Rises > 0 }
	late := func(c calm) (float64, bool) {
		if c.Median == nil {
			return 0, false
		}
		return *c.Median, true
	}
	latest := figure.Linear("", highest(all.Factors, late), gridSteps, "%.3g s")
	return figure.Figure{
		Title:   "Settled = factor × loop duration without an event",
		Caption: fmt.Sprintf("%d calms of %d attempts, Kubernetes %s, %d processors", all.Gaps, all.Attempts, o.Kubernetes, o.Processors),
		Panels: []figure.Panel{{
			X:     figure.LogOf("factor (logarithmic)", factors, func(factor float64) string { return fmt.Sprint(factor) }),
			Y:     figure.Linear("", max(highest(all.Factors, premature), gridSteps), gridSteps, "%.4g %%"),
			Right: &latest,
			Mark:  &figure.Tick{Value: cache.DefaultLoopFactor, Label: fmt.Sprintf("default: %v", cache.DefaultLoopFactor)},
			Lines: []figure.Line{
				{Name: "premature rises, %", Points: points(all.Factors, premature)},
				{Name: "of these not by the load, %", Dashed: true, Points: points(all.Factors, own)},
				{Name: "median lateness, s", Right: true, Points: points(all.Factors, late)},
			},
		}},
	}
}

func points(of []calm, value func(calm) (float64, bool)) (drawn [][2]float64) {
	for _, c := range of {
		if y, has := value(c); has {
			drawn = append(drawn, [2]float64{c.Factor, y})
		}
	}
	return drawn
}

func highest(of []calm, value func(calm) (float64, bool)) float64 {
	most := 0.0
	for _, c := range of {
		y, _ := value(c)
		most = max(most, y)
	}
	return most
}
