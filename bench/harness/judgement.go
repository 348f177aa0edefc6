package harness

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/outcome"
)

// moved begins the reason of a round that is rejected for its ideal client.
const moved = "the ideal client took "

// judge says of each round whether its ideal client moved too far from the median of all,
// and returns those whose judgement is another than before. Rounds without an ideal
// client, those that failed and those that were rejected for something else stay as they
// are.
func judge(rounds []outcome.Round, tolerance float64) (changed []outcome.Round) {
	var ideal []float64
	for _, round := range rounds {
		if time, measured := round.Measured[outcome.IdealConverge]; measured {
			ideal = append(ideal, time)
		}
	}
	if len(ideal) == 0 {
		return nil
	}
	middle := median(ideal)
	for _, round := range rounds {
		time, measured := round.Measured[outcome.IdealConverge]
		if !measured || round.Failed != "" || (round.Rejected != "" && !strings.HasPrefix(round.Rejected, moved)) {
			continue
		}
		before := round.Rejected
		round.Rejected = ""
		if off := time/middle - 1; math.Abs(off) > tolerance {
			round.Rejected = fmt.Sprintf("%s%.2f s, %+.0f %% of the median of %d rounds; %.0f %% are allowed: the machine was busy with something else",
				moved, time, off*100, len(ideal), tolerance*100)
		}
		if round.Rejected != before {
			changed = append(changed, round)
		}
	}
	return changed
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// By how much of the default's a limit of the memory may cost time and CPU.
const (
	limitTime = 1.1
	limitCPU  = 1.25
)

// BestLimit is the setting with the smallest limit of the memory with which a contender
// passes, of rounds of one scenario in one variant: its rounds all got through, and their
// medians of time and CPU are no more than 1.1 and 1.25 times those of the default. It is
// "default" if there is none.
func BestLimit(rounds []outcome.Round, contender string) string {
	type sums struct {
		times, cpu []float64
		failed     bool
	}
	found := map[string]*sums{}
	for _, round := range rounds {
		if round.Contender != contender || round.Warm || round.Rejected != "" {
			continue
		}
		held := found[round.Setting]
		if held == nil {
			held = &sums{}
			found[round.Setting] = held
		}
		held.failed = held.failed || round.Failed != ""
		held.times = append(held.times, round.Measured[outcome.Converge])
		held.cpu = append(held.cpu, round.Measured[outcome.ContenderCPU])
	}
	best, smallest := setting{}.String(), math.MaxInt
	usual := found[best]
	if usual == nil || usual.failed {
		return best
	}
	for name, held := range found {
		var size int
		if n, err := fmt.Sscanf(name, "memory=%dMiB", &size); n != 1 || err != nil || size >= smallest || held.failed {
			continue
		}
		if median(held.times) <= limitTime*median(usual.times) && median(held.cpu) <= limitCPU*median(usual.cpu) {
			best, smallest = name, size
		}
	}
	return best
}
