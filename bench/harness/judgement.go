package harness

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// series identifies the rounds of a scenario that repeat one measurement.
type series struct {
	contender, setting string
	warm               bool
}

func seriesOf(round rundir.Round) series { return series{round.Contender, round.Setting, round.Warm} }

// moved is the prefix of Round.Rejected in a round that is rejected for its ideal client's time.
const moved = "the ideal client took "

// gauge is the work of an ideal client. Times are comparable only between ideal clients with equal
// work.
type gauge struct{ objects, replicas, among float64 }

func gaugeOf(m rundir.Measured) gauge {
	return gauge{m[rundir.IdealObjects], m[rundir.IdealReplicas], m[rundir.IdealAmong]}
}

// idealTimes holds the times of the ideal clients in the rounds of a run, and by which share of
// their median a time may differ.
type idealTimes struct {
	times     map[gauge][]float64
	tolerance float64
}

func idealTimesOf(rounds []rundir.Round, tolerance float64) idealTimes {
	c := idealTimes{times: map[gauge][]float64{}, tolerance: tolerance}
	for _, round := range rounds {
		if time, measured := round.Measured[rundir.IdealConverge]; measured {
			same := gaugeOf(round.Measured)
			c.times[same] = append(c.times[same], time)
		}
	}
	return c
}

// judge rejects each round whose ideal client's time is too far from the median. If that would
// reject all rounds of a measurement, the round nearest to the median counts and is marked as
// noisy. judge returns how many rounds each measurement lacks; a noisy round does not fill a gap.
// It does not change rounds without an ideal client, failed rounds, and rounds that were rejected
// for another reason.
//
// Whether a round counts depends only on the ideal client, not on the contender's result.
func (c idealTimes) judge(rounds []rundir.Round, wanted map[series]int) (judged []rundir.Round, lacking map[series]int) {
	judged, lacking = slices.Clone(rounds), maps.Clone(wanted)
	off := c.reject(judged)
	lost := maps.Clone(wanted)
	for _, round := range judged { // Includes contenders that the resumed run does not measure.
		lost[seriesOf(round)]++
	}
	for _, round := range judged {
		if round.Rejected == "" { // A failure is a result.
			lacking[seriesOf(round)]--
			delete(lost, seriesOf(round))
		}
	}
	maps.DeleteFunc(lacking, func(_ series, n int) bool { return n <= 0 })
	rejected := slices.SortedFunc(maps.Keys(off), func(a, b int) int { return cmp.Or(cmp.Compare(off[a], off[b]), cmp.Compare(a, b)) })
	for _, i := range rejected {
		if _, is := lost[seriesOf(judged[i])]; is {
			delete(lost, seriesOf(judged[i]))
			judged[i].Noisy, judged[i].Rejected = judged[i].Rejected, ""
		}
	}
	return judged, lacking
}

// reject sets Rejected of the rounds whose ideal client's time is too far from the median, and
// clears an earlier rejection of this kind from the others. It returns the indexes of the rejected
// rounds, each with the distance as a share of the median.
func (c idealTimes) reject(rounds []rundir.Round) (off map[int]float64) {
	off = map[int]float64{}
	for i := range rounds {
		round := &rounds[i]
		time, measured := round.Measured[rundir.IdealConverge]
		if !measured || round.Failed != "" || (round.Rejected != "" && !strings.HasPrefix(round.Rejected, moved)) {
			continue
		}
		round.Rejected, round.Noisy = "", ""
		times := c.times[gaugeOf(round.Measured)]
		if by := time/rundir.Median(times) - 1; math.Abs(by) > c.tolerance {
			round.Rejected = fmt.Sprintf("%s%.2f s, %+.0f %% from the median of %d rounds; allowed is %.0f %%: other work changed the speed of the machine",
				moved, time, by*100, len(times), c.tolerance*100)
			off[i] = math.Abs(by)
		}
	}
	return off
}
