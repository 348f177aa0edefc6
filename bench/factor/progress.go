package main

import (
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
)

// progress shows the progress of a measurement: a live line on a terminal, and a line for each
// scenario elsewhere.
type progress struct {
	out      *screen.Screen
	scenario string
	began    time.Time
}

func newProgress(out *screen.Screen) *progress { return &progress{out: out, began: time.Now()} }

// begin shows the next scenario, the number of finished scenarios, and the number of all.
func (p *progress) begin(done, of int, s scenario) {
	p.scenario = fmt.Sprintf("scenario %d of %d, %s", done+1, of, s.name)
	line := fmt.Sprintf("%s: %s", p.scenario, s.about)
	if elapsed := time.Since(p.began); done > 0 {
		left := elapsed / time.Duration(done) * time.Duration(of-done)
		line += fmt.Sprintf(" (%v, about %v left)", elapsed.Round(time.Second), left.Round(time.Second))
	} else {
		p.began = time.Now()
	}
	p.out.Println(line)
}

// show shows a step of a scenario.
func (p *progress) show(step string) { p.out.Live(p.scenario + ": " + step) }

// far shows the elapsed part of a load.
func (p *progress) far(elapsed, of time.Duration) {
	p.show(fmt.Sprintf("%v of %v", elapsed.Round(time.Second), of))
}

// done ends the live line.
func (p *progress) done() { p.out.Live() }
