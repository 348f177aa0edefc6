package main

import (
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
)

// factors lists the compared factors. The default is one of them.
var factors = []float64{1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100}

// soon is the time after a rise within which an event counts as following it, whatever the loop
// duration.
const soon = time.Second

// span is one attempt. The pipeline was busy from the event to the end of the reconcile.
type span struct {
	from, to time.Time
	loop     time.Duration // the loop duration when the attempt ended
	load     bool          // the event was a write of the load
}

// gap is a calm: the time between two attempts in which no attempt was pending.
type gap struct {
	length time.Duration
	loop   time.Duration // the loop duration when the calm began
	open   bool          // the recording ended before the next event
	load   bool          // the next event was a write of the load
}

// gapsOf returns the gaps between spans, in order, and the gap from the last span to end. The
// time before the first span is not a gap, because the pipeline starts in it.
func gapsOf(spans []span, end time.Time) []gap {
	if len(spans) == 0 {
		return nil
	}
	ordered := slices.SortedStableFunc(slices.Values(spans), func(a, b span) int { return a.from.Compare(b.from) })
	var gaps []gap
	last := ordered[0] // the span with the latest end so far
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

// calm is the result of one factor: how often and how late Settled would have risen. The times
// are nil if there was no rise.
type calm struct {
	Factor    float64  `json:"factor"`
	Rises     int      `json:"rises"`
	Premature int      `json:"premature"`             // rises after which an event came within one more loop
	Own       int      `json:"prematureWithoutLoad"`  // premature rises that were not ended by a write of the load
	Later     int      `json:"later"`                 // all other rises
	Soon      int      `json:"followedWithinASecond"` // rises after which an event came within a second
	OwnSoon   int      `json:"followedWithinASecondWithoutLoad"`
	Median    *float64 `json:"medianLatenessSeconds"` // from the end of the work to the rise
	P95       *float64 `json:"p95LatenessSeconds"`
}

// calmOf applies one factor to gaps. A gap cut off by the end of the recording counts as a rise
// only if it lasted long enough to show what followed.
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

// calms applies all factors to gaps.
func calms(gaps []gap, floor time.Duration) []calm {
	found := make([]calm, len(factors))
	for i, factor := range factors {
		found[i] = calmOf(gaps, factor, floor)
	}
	return found
}

// quantile returns a quantile of sorted values, or nil if there are none.
func quantile(p float64, sorted []float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	value := stat.Quantile(p, stat.Empirical, sorted, nil)
	return &value
}

// share returns a share in percent, or 0 if of is 0.
func share(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}
