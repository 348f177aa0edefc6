package harness

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bench/outcome"
)

// progress shows how far a run is. step may be called from any goroutine, all else from
// that of the run.
type progress struct {
	out         *screen.Screen
	total, done int
	made        int // rounds, by this process
	began       time.Time
	limit       time.Duration // 0 is none

	mu    sync.Mutex
	round string
	since time.Time
	drawn time.Time
}

// redraw is how often the live lines are drawn at most: the load waits for it.
const redraw = 100 * time.Millisecond

func newProgress(out *screen.Screen) *progress { return &progress{out: out, began: time.Now()} }

// expect adds turns to what is to be done.
func (p *progress) expect(turns [][]planned) {
	for _, turn := range turns {
		p.total += len(turn)
	}
}

func (p *progress) begin(planned planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round, p.since = planned.ID(), time.Now()
}

// step shows what a round does.
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

// left is an estimate.
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

// over prints what came of a round.
func (p *progress) over(round outcome.Round) {
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

// judged prints that a round counts no more, or again.
func (p *progress) judged(round outcome.Round) {
	switch {
	case round.Rejected != "":
		p.out.Println(round.ID() + " " + p.out.Paint(screen.Yellow, "rejected: ") + round.Rejected)
	case round.Noisy != "":
		p.out.Println(round.ID() + " " + p.out.Paint(screen.Yellow, "counts, though it is noisy: ") + round.Noisy)
	default:
		p.out.Println(round.ID() + " counts: its ideal client is near the median now")
	}
}

// end prints what came of all rounds.
func (p *progress) end(dir string) error {
	p.out.Live()
	rounds, err := outcome.ReadRounds(dir)
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
	p.out.Println(fmt.Sprintf("%d rounds of %d, after %v: %d count, %d of them noisy; %d failed, %d were rejected; they are in %s",
		len(rounds), p.total, time.Since(p.began).Round(time.Second), len(rounds)-failed-rejected, noisy, failed, rejected, dir))
	return nil
}
