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

// gauge is what an ideal client did: only those that did the same take the same time.
type gauge struct{ objects, replicas, among float64 }

func gaugeOf(m outcome.Measured) gauge {
	return gauge{m[outcome.IdealObjects], m[outcome.IdealReplicas], m[outcome.IdealAmong]}
}

// calm is how long the ideal clients took in rounds of a run, and by how much of the
// median of that each may differ.
type calm struct {
	times     map[gauge][]float64
	tolerance float64
}

func calmOf(rounds []outcome.Round, tolerance float64) calm {
	c := calm{times: map[gauge][]float64{}, tolerance: tolerance}
	for _, round := range rounds {
		if time, measured := round.Measured[outcome.IdealConverge]; measured {
			same := gaugeOf(round.Measured)
			c.times[same] = append(c.times[same], time)
		}
	}
	return c
}

// judge rejects each round whose ideal client moved too far from the median. Where that
// would leave nothing of a measurement, the one of its rounds that moved least counts, as a
// noisy one. It returns how many rounds each measurement lacks that are not noisy. Rounds
// without an ideal client, those that failed and those that were rejected for something
// else stay as they are.
//
// What is kept depends on the ideal client alone, not on what the contender reached.
func (c calm) judge(rounds []outcome.Round, wanted map[ran]int) (judged []outcome.Round, lacking map[ran]int) {
	judged, lacking = slices.Clone(rounds), maps.Clone(wanted)
	off := c.reject(judged)
	lost := maps.Clone(wanted)
	for _, round := range judged { // Of contenders that a run goes on without, too.
		lost[ranOf(round)]++
	}
	for _, round := range judged {
		if round.Rejected == "" { // A failure is a result.
			lacking[ranOf(round)]--
			delete(lost, ranOf(round))
		}
	}
	maps.DeleteFunc(lacking, func(_ ran, n int) bool { return n <= 0 })
	rejected := slices.SortedFunc(maps.Keys(off), func(a, b int) int { return cmp.Or(cmp.Compare(off[a], off[b]), cmp.Compare(a, b)) })
	for _, i := range rejected {
		if _, is := lost[ranOf(judged[i])]; is {
			delete(lost, ranOf(judged[i]))
			judged[i].Noisy, judged[i].Rejected = judged[i].Rejected, ""
		}
	}
	return judged, lacking
}

// reject says which rounds it rejected, and by how much of the median each is off it.
func (c calm) reject(rounds []outcome.Round) (off map[int]float64) {
	off = map[int]float64{}
	for i := range rounds {
		round := &rounds[i]
		time, measured := round.Measured[outcome.IdealConverge]
		if !measured || round.Failed != "" || (round.Rejected != "" && !strings.HasPrefix(round.Rejected, moved)) {
			continue
		}
		round.Rejected, round.Noisy = "", ""
		times := c.times[gaugeOf(round.Measured)]
		if by := time/outcome.Median(times) - 1; math.Abs(by) > c.tolerance {
			round.Rejected = fmt.Sprintf("%s%.2f s, %+.0f %% of the median of %d rounds; %.0f %% are allowed: something else changed how fast the machine was",
				moved, time, by*100, len(times), c.tolerance*100)
			off[i] = math.Abs(by)
		}
	}
	return off
}
