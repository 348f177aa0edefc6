package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// A contender passes with a memory limit if its medians are at most this many times its default's.
const (
	limitTime = 1.1
	limitCPU  = 1.25
)

// Limits compares the contenders of a scenario with memory limits.
type Limits struct {
	Scenario string    `json:"scenario"`
	Variant  string    `json:"variant"`
	Rows     []Limited `json:"contenders"`
}

// Name returns the scenario and its variant.
func (l Limits) Name() string { return kind{l.Scenario, l.Variant}.String() }

// Limited is one contender at its best passing size, the smallest limit with which it passes. It
// passes with a limit if none of its rounds failed, and its medians are close to its default's: at
// most 1.1 times the time, and at most 1.25 times the CPU time.
type Limited struct {
	Contender string          `json:"contender"`
	MiB       int             `json:"limitMiB,omitempty"`    // 0 if there is none, see Words
	Words     string          `json:"limit"`                 // the limit, or why there is none
	Best      rundir.Measured `json:"best"`                  // medians with the limit, or without one if no limit passes
	Default   rundir.Measured `json:"default"`               // medians without a limit
	Ratio     float64         `json:"ratioToOurs,omitempty"` // its best peak memory divided by Bellerophon's best; 0 if there is none
	Cells     []string        `json:"-"`
}

// limitedBy lists the measures that judge limits, in the order of the table. A scenario uses the
// first measure of each list that it has.
var (
	limitedTime = []rundir.Measure{rundir.Converge, rundir.Settled}
	limitedBy   = []struct {
		of []rundir.Measure
		in unit
	}{{[]rundir.Measure{rundir.PeakMemory}, inBytes}, {limitedTime, inSeconds}, {[]rundir.Measure{rundir.ContenderCPU}, inSeconds}}
)

// limitOf returns the limit of a setting in MiB, or 0 if it has none.
func limitOf(setting string) int {
	text, is := strings.CutPrefix(setting, "memory=")
	text, isMiB := strings.CutSuffix(text, "MiB")
	limit, err := strconv.Atoi(text)
	if !is || !isMiB || err != nil {
		return 0
	}
	return limit
}

// limitsOf finds the best passing sizes in each scenario with memory limits.
func limitsOf(run rundir.Run, rounds []rundir.Round) []Limits {
	var found []Limits
	for _, kind := range kindsOf(run, rounds) {
		its := ofKind(rounds, kind)
		if !slices.ContainsFunc(its, func(round rundir.Round) bool { return limitOf(round.Setting) > 0 }) {
			continue
		}
		by := map[string][]rundir.Round{}
		for _, round := range its {
			by[round.Contender] = append(by[round.Contender], round)
		}
		limits := Limits{Scenario: kind.scenario, Variant: kind.variant}
		for _, name := range slices.SortedFunc(maps.Keys(by), contender.Compare) {
			limits.Rows = append(limits.Rows, limitedOf(name, by[name]))
		}
		limits.compare()
		found = append(found, limits)
	}
	return found
}

// limitedOf finds the best passing size of a contender in its rounds of one kind.
func limitedOf(name string, rounds []rundir.Round) Limited {
	counting, failed, sizes := map[int][]rundir.Round{}, map[int]bool{}, map[int]bool{}
	for _, round := range rounds {
		size := limitOf(round.Setting)
		if round.Warm || (size == 0 && !isDefault(round.Setting)) {
			continue
		}
		sizes[size] = true
		switch {
		case round.Failed != "":
			failed[size] = true
		case round.IsComplete():
			counting[size] = append(counting[size], round)
		}
	}
	delete(sizes, 0)
	delete(failed, 0) // The rounds that count give the default's medians, whatever else failed.
	limited := Limited{Contender: name, Default: mediansOf(counting[0])}
	limited.Best = limited.Default
	for _, size := range slices.Sorted(maps.Keys(sizes)) {
		if with := mediansOf(counting[size]); !failed[size] && passes(with, limited.Default) {
			limited.MiB, limited.Best = size, with
			break
		}
	}
	switch {
	case limited.MiB > 0:
		limited.Words = fmt.Sprintf("%d MiB", limited.MiB)
	case len(sizes) == 0:
		limited.Words = cmp.Or(contender.Facts(name).NoHeapLimit, "no round with a limit")
	case len(counting[0]) == 0:
		limited.Words = "unknown: no round of its default counts"
	case len(counting) == 1 && len(failed) == 0:
		limited.Words = "unknown: no round with a limit counts"
	default:
		limited.Words = "none below its default"
	}
	return limited
}

// mediansOf returns the medians of the measures of limitedBy.
func mediansOf(rounds []rundir.Round) rundir.Measured {
	medians := rundir.Measured{}
	for _, by := range limitedBy {
		for _, of := range by.of {
			var values []float64
			for _, round := range rounds {
				if value, is := round.Measured[of]; is {
					values = append(values, value)
				}
			}
			if len(values) > 0 {
				medians[of] = rundir.Median(values)
				break
			}
		}
	}
	return medians
}

// passes reports whether the medians with a limit are close enough to the default's. A missing
// measurement does not pass.
func passes(with, usual rundir.Measured) bool {
	within := func(factor float64) func(rundir.Measure) bool {
		return func(of rundir.Measure) bool {
			value, is := with[of]
			bound, known := usual[of]
			return is && known && value <= factor*bound
		}
	}
	return slices.ContainsFunc(limitedTime, within(limitTime)) && within(limitCPU)(rundir.ContenderCPU)
}

// compare divides by Bellerophon's memory and formats the cells.
func (l Limits) compare() {
	var ours float64
	if at := slices.IndexFunc(l.Rows, func(row Limited) bool { return row.Contender == Ours }); at >= 0 {
		ours = l.Rows[at].Best[rundir.PeakMemory]
	}
	for i := range l.Rows {
		row := &l.Rows[i]
		for _, by := range limitedBy {
			row.Cells = append(row.Cells, by.in.writeOf(row.Best, by.of), by.in.writeOf(row.Default, by.of))
		}
		if ours > 0 {
			row.Ratio = row.Best[rundir.PeakMemory] / ours
		}
		row.Cells = append(row.Cells, writtenRatio(row.Ratio))
	}
}

// writeOf formats the first measure of the list that has a value, or returns "".
func (u unit) writeOf(measured rundir.Measured, of []rundir.Measure) string {
	for _, one := range of {
		if value, is := measured[one]; is {
			return u.write(value)
		}
	}
	return ""
}
