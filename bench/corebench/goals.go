package main

import "fmt"

// goal is a target of the comparison, with the measured value.
type goal struct {
	name, measured, target string
	met                    bool
}

func (g goal) String() string {
	verdict := "missed"
	if g.met {
		verdict = "met"
	}
	return fmt.Sprintf("goal\t%s\t%s\t%s\t%s", g.name, g.measured, g.target, verdict)
}

// goals compares the medians with the goals. A goal without a measurement is missed.
func (r results) goals() []goal {
	ratio := func(measurement, side string, metric metric) float64 {
		peer := r.median(measurement, theirs, metric)
		if own := r.median(measurement, side, metric); own > 0 && peer > 0 {
			return own / peer
		}
		return 0
	}
	atMost := func(name string, ratio, most float64) goal {
		return goal{name, fmt.Sprintf("%.2fx of client-go's", ratio), fmt.Sprintf("at most %.1fx", most), ratio > 0 && ratio <= most}
	}
	rate, cpu := ratio(throughput, ours, eventRate), ratio(pacedFast, ours, less(cpuPerEvent))
	judged := []goal{{
		"events/s, or CPU at 100k events/s", fmt.Sprintf("%.2fx and %.2fx of client-go's", rate, cpu),
		"at least 2.0x, or at most 0.5x", rate >= 2 || (cpu > 0 && cpu <= 0.5),
	}}
	for _, kind := range bothKinds {
		typed, theirsTyped := r.median(heapTyped+kind, ours, heapPerObject), r.median(heapTyped+kind, theirs, heapPerObject)
		kept := r.median(heapProjected+kind, ours, heapPerObject)
		if theirsTyped > 0 { // Both are compared with client-go's memory for the whole object.
			judged = append(judged,
				atMost("heap per "+kind+", typed", typed/theirsTyped, 1),
				atMost("heap per "+kind+", projected, of typed", kept/theirsTyped, 0.5))
		}
	}
	for _, rate := range []string{pacedFast, pacedSlow} {
		judged = append(judged,
			atMost("p99 to reconcile, "+rate+", default window", ratio(rate, ours, p99), 1),
			atMost("p99 to reconcile, "+rate+", window 0", ratio(rate, oursWindow0, p99), 1))
	}
	return judged
}
