package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/cache"
)

// floor is the lower bound of the loop duration.
const floor = cache.DefaultLoopFloor

// outcome is the result of a measurement.
type outcome struct {
	Kubernetes string     `json:"kubernetes"`
	Processors int        `json:"processors"`
	Floor      float64    `json:"loopFloorSeconds"`
	Scenarios  []measured `json:"scenarios"` // the last one sums up all scenarios
}

// measured is the result of one scenario.
type measured struct {
	Scenario string   `json:"scenario"`
	Seconds  float64  `json:"seconds"` // the recorded time
	Attempts int      `json:"attempts"`
	Gaps     int      `json:"gaps"`
	Loop     *float64 `json:"medianLoopSeconds"` // at the starts of gaps
	Settled  observed `json:"settled"`           // as the cache reported it
	Factors  []calm   `json:"factors"`
}

// allScenarios is the name of the sum of all scenarios.
const allScenarios = "all"

// measure applies the factors to the recordings of a scenario.
func measure(name string, recordings []recording) measured {
	var gaps, rises []gap
	m := measured{Scenario: name}
	for _, recorded := range recordings {
		m.Seconds += recorded.until.Sub(recorded.from).Seconds()
		m.Attempts += len(recorded.spans)
		gaps = append(gaps, gapsOf(recorded.spans, recorded.until)...)
		rises = append(rises, recorded.rises...)
	}
	m.Gaps, m.Loop, m.Settled, m.Factors = len(gaps), medianLoop(gaps), observedOf(rises, floor), calms(gaps, floor)
	return m
}

// print writes the outcome as JSON, as tables on a terminal, or as lines with tabs on a pipe.
func (o outcome) print(out io.Writer, asJSON bool, to *screen.Screen) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(o); err != nil {
			return fmt.Errorf("print the outcome: %w", err)
		}
		return nil
	}
	if !to.IsLive() {
		return o.tables(out)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if err := o.tables(table); err != nil {
		return err
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the outcome: %w", err)
	}
	return nil
}

// tables writes a line for each factor of each scenario, and a line for the rises that the cache
// reported.
func (o outcome) tables(out io.Writer) error {
	fmt.Fprint(out, "scenario\tfactor\trises\tpremature\tof these not by the load\twithin 1 s\tof these not by the load\tlate, median\tlate, p95\t\n")
	for _, m := range o.Scenarios {
		for _, c := range m.Factors {
			fmt.Fprintf(out, "%s\t%v\t%d\t%d (%.1f %%)\t%d\t%d (%.1f %%)\t%d\t%s\t%s\t\n", m.Scenario, c.Factor, c.Rises,
				c.Premature, share(c.Premature, c.Rises), c.Own, c.Soon, share(c.Soon, c.Rises), c.OwnSoon, seconds(c.Median), seconds(c.P95))
		}
	}
	fmt.Fprint(out, "\nscenario\trecorded\tattempts\tgaps\tloop, median\trises of Settled\tpremature\twithin 1 s\t\n")
	for _, m := range o.Scenarios {
		_, err := fmt.Fprintf(out, "%s\t%.0f s\t%d\t%d\t%s\t%d\t%d\t%d\t\n", m.Scenario, m.Seconds, m.Attempts, m.Gaps, seconds(m.Loop),
			m.Settled.Rises, m.Settled.Premature, m.Settled.Soon)
		if err != nil {
			return fmt.Errorf("print the outcome: %w", err)
		}
	}
	return nil
}

// seconds formats seconds for readers.
func seconds(of *float64) string {
	if of == nil {
		return "-"
	}
	return time.Duration(*of * float64(time.Second)).Round(time.Millisecond).String()
}
