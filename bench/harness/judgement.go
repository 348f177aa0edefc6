package harness

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// series identifies the rounds of a scenario that repeat one measurement.
type series struct {
	contender, setting string
	warm               bool
}

func seriesOf(round rundir.Round) series { return series{round.Contender, round.Setting, round.Warm} }

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

// judge marks each round as noisy whose ideal client's time is too far from the median, and unmarks the
// others. A noisy round counts like the others: no round is left out for its time. judge returns how many
// rounds each measurement lacks. It does not change rounds without an ideal client, failed rounds, and
// rounds that were rejected for another reason.
//
// Whether a round is noisy depends only on the ideal client, not on the contender's result.
func (c idealTimes) judge(rounds []rundir.Round, wanted map[series]int) (judged []rundir.Round, lacking map[series]int) {
	judged, lacking = slices.Clone(rounds), maps.Clone(wanted)
	for i := range judged {
		round := &judged[i]
		time, measured := round.Measured[rundir.IdealConverge]
		if measured && round.IsComplete() {
			round.Rejected, round.Noisy = "", c.noise(time, gaugeOf(round.Measured))
		}
		if round.Rejected == "" { // A failure is a result.
			lacking[seriesOf(*round)]--
		}
	}
	maps.DeleteFunc(lacking, func(_ series, n int) bool { return n <= 0 })
	return judged, lacking
}

// noise returns how far the time of an ideal client is from the median, or "" if it is near.
func (c idealTimes) noise(time float64, of gauge) string {
	times := c.times[of]
	by := time/rundir.Median(times) - 1
	if math.Abs(by) <= c.tolerance {
		return ""
	}
	return fmt.Sprintf("%s%.2f s, %+.0f %% from the median of %d rounds; more than %.0f %% say that other work changed the speed of the machine",
		rundir.MachineMoved, time, by*100, len(times), c.tolerance*100)
}
