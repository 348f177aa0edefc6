package main

import (
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
)

// factors are the factors that are compared. The default is among them.
var factors = []float64{1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100}

// soon is how soon after a rise an event counts as following it, whatever the loop takes.
const soon = time.Second

// span is one attempt: the pipeline was busy from the event to the end of the reconcile.
type span struct {
	from, to time.Time
	loop     time.Duration // the loop duration when the attempt ended
	load     bool          // the event was a write of the load
}

// gap is a calm: the time between two attempts during which none was pending.
type gap struct {
	length time.Duration
	loop   time.Duration // when the calm began
	open   bool          // the recording ended before the next event
	load   bool          // the next event was a write of the load
}

// gapsOf returns the gaps between spans, in order, and the one that lasted until end. The
// time before the first span is not a gap: it is the start of the pipeline.
func gapsOf(spans []span, end time.Time) []gap {
	if len(spans) == 0 {
		return nil
	}
	ordered := slices.SortedStableFunc(slices.Values(spans), func(a, b span) int { return a.from.Compare(b.from) })
	var gaps []gap
	last := ordered[0] // the span that ended last so far
	for _, next := range ordered[1:] {
		if length := next.from.Sub(last.to); length > 0 {
			gaps = append(gaps, gap{length: length, loop: last.loop, load: next.load})
		}
		if !next.to.Before(last.to) {
			last = next
		}
	}
	if length := end.Sub(last.to); length > 0 {
		gaps = append(gaps, gap{length: length, loop: last.loop, open: true})
	}
	return gaps
}

// calm is what Settled would have done with one factor. The times are nil without a rise.
type calm struct {
	Factor    float64  `json:"factor"`
	Rises     int      `json:"rises"`
	Premature int      `json:"premature"`             // rises after which an event came within one more loop
	Own       int      `json:"prematureWithoutLoad"`  // premature rises that no write of the load ended
	Later     int      `json:"later"`                 // all other rises
	Soon      int      `json:"followedWithinASecond"` // rises after which an event came within a second
	OwnSoon   int      `json:"followedWithinASecondWithoutLoad"`
	Median    *float64 `json:"medianLatenessSeconds"` // from the end of the work to the rise
	P95       *float64 `json:"p95LatenessSeconds"`
}

// calmOf applies one factor to gaps. A gap that the end of the recording cut off is a rise
// only if it lasted long enough to tell what followed.
func calmOf(gaps []gap, factor float64, floor time.Duration) calm {
	found := calm{Factor: factor}
	var late []float64
	for _, gap := range gaps {
		loop := max(gap.loop, floor)
		wait := time.Duration(factor * float64(loop))
		if gap.length < wait || (gap.open && gap.length <= wait+max(loop, soon)) {
			continue
		}
		found.Rises++
		late = append(late, wait.Seconds())
		premature := !gap.open && gap.length <= wait+loop
		followed := !gap.open && gap.length <= wait+soon
		if premature {
			found.Premature++
		} else {
			found.Later++
		}
		if followed {
			found.Soon++
		}
		if premature && !gap.load {
			found.Own++
		}
		if followed && !gap.load {
			found.OwnSoon++
		}
	}
	slices.Sort(late)
	found.Median, found.P95 = quantile(0.5, late), quantile(0.95, late)
	return found
}

// calms applies all factors.
func calms(gaps []gap, floor time.Duration) []calm {
	found := make([]calm, len(factors))
	for i, factor := range factors {
		found[i] = calmOf(gaps, factor, floor)
	}
	return found
}

// quantile returns a quantile of sorted values, or nil of none.
func quantile(p float64, sorted []float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	value := stat.Quantile(p, stat.Empirical, sorted, nil)
	return &value
}

// share returns a share in percent, 0 of nothing.
func share(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}
