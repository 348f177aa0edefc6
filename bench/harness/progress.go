package harness

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// progress shows the progress of a run. step may be called from any goroutine, the other methods
// only from the run's goroutine.
type progress struct {
	out         *screen.Screen
	total, done int
	made        int // rounds that this process made
	began       time.Time
	limit       time.Duration // 0 means none

	mu    sync.Mutex
	round string
	since time.Time
	drawn time.Time
}

// redraw is the shortest time between two updates of the live lines. The load waits while they are
// drawn.
const redraw = 100 * time.Millisecond

func newProgress(out *screen.Screen) *progress { return &progress{out: out, began: time.Now()} }

// expect adds the rounds of the turns to the total.
func (p *progress) expect(turns [][]planned) {
	for _, turn := range turns {
		p.total += len(turn)
	}
}

// unexpect takes the rounds of the turns from the total.
func (p *progress) unexpect(turns [][]planned) {
	for _, turn := range turns {
		p.total -= len(turn)
	}
}

func (p *progress) begin(planned planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round, p.since = planned.ID(), time.Now()
}

// step shows what the current round does.
func (p *progress) step(what string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.drawn) >= redraw {
		p.drawn = now
		line := what
		if total > 0 {
			line += " " + bar(done, total)
		}
		p.out.Live(fmt.Sprintf("rounds %s %s", bar(p.done, p.total), p.left()),
			fmt.Sprintf("%s %v: %s", p.round, time.Since(p.since).Round(time.Second), line))
	}
}

// left estimates the remaining time of the run.
func (p *progress) left() string {
	if p.made == 0 {
		return ""
	}
	each := time.Since(p.began) / time.Duration(p.made)
	left := each * time.Duration(p.total-p.done)
	if p.limit > 0 {
		left = min(left, max(0, p.limit-time.Since(p.began)))
	}
	return fmt.Sprintf("about %v left", left.Round(time.Minute))
}

func bar(done, total int) string {
	const width = 20
	full := width * min(done, total) / max(1, total)
	return fmt.Sprintf("[%s%s] %d/%d", strings.Repeat("█", full), strings.Repeat("░", width-full), done, total)
}

// over prints the result of a round.
func (p *progress) over(round rundir.Round) {
	p.done++
	p.made++
	result := p.out.Paint(screen.Green, "done")
	switch {
	case round.Failed != "":
		result = p.out.Paint(screen.Red, "failed: ") + round.Failed
	case round.Rejected != "":
		result = p.out.Paint(screen.Yellow, "rejected: ") + round.Rejected
	}
	p.out.Println(fmt.Sprintf("%d/%d %s %v %s", p.done, p.total, round.ID(), round.End.Sub(round.Start).Round(time.Second), result))
}

// judged prints a round whose judgement changed.
func (p *progress) judged(round rundir.Round) {
	if round.Noisy != "" {
		p.out.Println(round.ID() + " " + p.out.Paint(screen.Yellow, "is noisy: ") + round.Noisy)
		return
	}
	p.out.Println(round.ID() + " is not noisy: its ideal client's time is now near the median")
}

// end prints a summary of all rounds.
func (p *progress) end(dir string) error {
	p.out.Live()
	rounds, err := rundir.ReadRounds(dir)
	if err != nil {
		return err
	}
	var failed, rejected, noisy int
	for _, round := range rounds {
		switch {
		case round.Failed != "":
			failed++
		case round.Rejected != "":
			rejected++
		case round.Noisy != "":
			noisy++
		}
	}
	p.out.Println(fmt.Sprintf("%d rounds of %d after %v: %d count, %d of them noisy; %d failed, %d were rejected; see %s",
		len(rounds), p.total, time.Since(p.began).Round(time.Second), len(rounds)-failed-rejected, noisy, failed, rejected, dir))
	return nil
}
