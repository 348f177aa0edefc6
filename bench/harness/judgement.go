package harness

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/outcome"
)

// ran identifies the rounds that measure the same.
type ran struct {
	contender, setting string
	warm               bool
}

func ranOf(round outcome.Round) ran { return ran{round.Contender, round.Setting, round.Warm} }

// moved begins the reason of a round that is rejected for its ideal client.
const moved = "the ideal client took "

// calm is how long the ideal client took in rounds of a run, and by how much of the
// median of that it may differ.
type calm struct {
	times     []float64
	tolerance float64
}

func calmOf(rounds []outcome.Round, tolerance float64) calm {
	c := calm{tolerance: tolerance}
	for _, round := range rounds {
		if time, measured := round.Measured[outcome.IdealConverge]; measured {
			c.times = append(c.times, time)
		}
	}
	return c
}

// judge rejects each round whose ideal client moved too far from the median. Then it keeps
// rounds that would be lost: where rounds are still lacking of one measurement, those of
// its rejected ones that moved least count, as noisy ones. It returns how many each
// measurement lacks that are not noisy. Rounds without an ideal client, those that failed
// and those that were rejected for something else stay as they are.
//
// What is kept depends on the ideal client alone, not on what the contender reached.
func (c calm) judge(rounds []outcome.Round, wanted map[ran]int) (judged []outcome.Round, lacking map[ran]int) {
	judged, lacking = slices.Clone(rounds), maps.Clone(wanted)
	off := c.reject(judged)
	for _, round := range judged {
		if round.Rejected == "" { // A failure is a result.
			lacking[ranOf(round)]--
		}
	}
	maps.DeleteFunc(lacking, func(_ ran, n int) bool { return n <= 0 })
	rejected := slices.SortedFunc(maps.Keys(off), func(a, b int) int { return cmp.Or(cmp.Compare(off[a], off[b]), cmp.Compare(a, b)) })
	kept := maps.Clone(lacking)
	for _, i := range rejected {
		if key := ranOf(judged[i]); kept[key] > 0 {
			kept[key]--
			judged[i].Noisy, judged[i].Rejected = judged[i].Rejected, ""
		}
	}
	return judged, lacking
}

// reject says which rounds it rejected, and by how much of the median each is off it.
func (c calm) reject(rounds []outcome.Round) (off map[int]float64) {
	off = map[int]float64{}
	if len(c.times) == 0 {
		return off
	}
	middle := median(c.times)
	for i := range rounds {
		round := &rounds[i]
		time, measured := round.Measured[outcome.IdealConverge]
		if !measured || round.Failed != "" || (round.Rejected != "" && !strings.HasPrefix(round.Rejected, moved)) {
			continue
		}
		round.Rejected, round.Noisy = "", ""
		if by := time/middle - 1; math.Abs(by) > c.tolerance {
			round.Rejected = fmt.Sprintf("%s%.2f s, %+.0f %% of the median of %d rounds; %.0f %% are allowed: something else changed how fast the machine was",
				moved, time, by*100, len(c.times), c.tolerance*100)
			off[i] = math.Abs(by)
		}
	}
	return off
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
