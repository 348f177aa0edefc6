package main

import (
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
)

// progress shows the progress of a comparison: a live line on a terminal, otherwise a line for each
// step and each round of pairs.
type progress struct {
	out         *screen.Screen
	began       time.Time
	done, total int
	round       int
}

func newProgress(out *screen.Screen) *progress { return &progress{out: out} }

// say prints a permanent line.
func (p *progress) say(text string) { p.out.Println(text) }

// show shows a step that is not counted.
func (p *progress) show(step string) {
	if p.out.IsLive() {
		p.out.Live(step)
		return
	}
	p.out.Println(step)
}

// expect sets the number of pairs to run, and starts the clock of the estimate.
func (p *progress) expect(pairs int) { p.began, p.total = time.Now(), pairs }

// pair shows the pair that is about to run.
func (p *progress) pair(round, rounds int, benchmark string) {
	line := fmt.Sprintf("pair %d of %d", round, rounds)
	if p.done > 0 {
		elapsed := time.Since(p.began)
		left := elapsed / time.Duration(p.done) * time.Duration(p.total-p.done)
		line += fmt.Sprintf(", %v, about %v left", elapsed.Round(time.Second), left.Round(time.Second))
	}
	p.done++
	if p.out.IsLive() {
		p.out.Live(line + ": " + benchmark)
		return
	}
	if round != p.round {
		p.round = round
		p.out.Println(line)
	}
}
