package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
)

// unit selects the format of a value.
type unit string

const (
	inSeconds   unit = "s"
	inBytes     unit = "bytes"
	plainNumber unit = ""
)

// measure is a column of the comparison: a measurement, or the quotient of two. Less is better.
type measure struct {
	name, title     string
	unit            unit
	larger, smaller string // the verdict on Bellerophon if its value is larger or smaller
	isFact          bool   // it describes the round and is not compared
	// of returns the value of a round, and whether the round has one.
	of func(rundir.Round) (float64, bool)
	// pooled names the samples of a measure that is a p99 of all rounds. Its value of one round is not used.
	pooled rundir.Measure
	// shown reports whether tables have the measure if rounds have values. nil means yes.
	shown func([]rundir.Round) bool
}

// measures lists all columns in the order of the tables.
var measures = slices.Concat([]measure{
	timed("time to converge", rundir.Converge),
	timed("create to Ready, or change to repair, median", rundir.ReadyMedian),
}, tails("create to Ready, or change to repair", rundir.Ready99), []measure{
	timed("reaction: event to next write, median", rundir.ReactionMedian),
}, tails("reaction: event to next write", rundir.Reaction99), []measure{
	timed("exec to first write", rundir.FirstWrite),
	timed("exec to Ready of an object that needs work, median", rundir.ExecReadyMedian),
	pooledTail("exec to Ready of an object that needs work", rundir.ExecReady99),
	timed("exec to Ready of the last object that needs work", rundir.ExecReadyLast),
	timed("exec to settled", rundir.Settled),
	timed("exec until all kinds are listed and watched", rundir.Watched),
	counted("requests of the start, with discovery", plainNumber, rundir.StartCalls),
	counted("open watches after the start", plainNumber, rundir.OpenWatches),
	counted("open connections after the start", plainNumber, rundir.Connections),
	counted("contender's CPU time of the start", inSeconds, rundir.StartCPU),
	counted("contender's CPU time a second, with churn", inSeconds, rundir.ChurnCPU),
	counted("contender's CPU time a second, idle", inSeconds, rundir.IdleCPU),
	counted("requests a minute, with churn", plainNumber, rundir.ChurnCalls),
	counted("requests a minute, idle", plainNumber, rundir.IdleCalls),
	counted("memory (RSS) at the end of the churn", inBytes, rundir.ChurnMemory),
	// Slopes are around zero, so that they have no ratio.
	fact("slope of the memory with churn, in % of its median an hour", plainNumber, rundir.ChurnSlope),
	fact("half of the 95 % interval of the slope with churn, in %", plainNumber, rundir.ChurnMargin),
	fact("slope of the memory while idle, in % of its median an hour", plainNumber, rundir.IdleSlope),
	fact("half of the 95 % interval of the slope while idle, in %", plainNumber, rundir.IdleMargin),
	timed("end of the disturbance to the last repair", rundir.Recovery),
	counted("requests until the last repair", plainNumber, rundir.RecoveryCalls),
	counted("lists since the disturbance", plainNumber, rundir.Relists),
	fact("lists of sheroes since the disturbance", plainNumber, rundir.HeroRelists),
	fact("lists of StatefulSets since the disturbance", plainNumber, rundir.SetRelists),
	fact("lists of Services since the disturbance", plainNumber, rundir.ServiceRelists),
	fact("lists of ConfigMaps since the disturbance", plainNumber, rundir.ConfigRelists),
	fact("lists of pods since the disturbance", plainNumber, rundir.PodRelists),
	timed("death of the leader to the next leader's first write", rundir.FailoverWrite),
	timed("death of the leader to finished", rundir.FailoverFinished),
	timed("orderly end of the leader to the next leader's first write", rundir.HandoverWrite),
	timed("orderly end of the leader to finished", rundir.HandoverFinished),
	counted("requests of the standby a minute, with those about Leases", plainNumber, rundir.StandbyRequests),
	counted("memory of the standby (RSS)", inBytes, rundir.StandbyMemory),
	fact("objects finished per second", plainNumber, rundir.Throughput),
	counted("memory of a process that shares objects, median (RSS)", inBytes, rundir.MemberMemory),
	counted("memory of the largest process that shares objects (RSS)", inBytes, rundir.LargestMember),
	fact("largest share of the objects, divided by the mean", plainNumber, rundir.Skew),
	timed("start of one more process until all share the objects", rundir.Join),
	perObject("contender_cpu_seconds_per_1000", "contender's CPU time per 1,000 objects", inSeconds, rundir.ContenderCPU, 1000),
	whole("contender's CPU time", inSeconds, rundir.ContenderCPU),
	perObject("server_cpu_seconds_per_object", "API server's and etcd's CPU time per object", inSeconds, rundir.ServerCPU, 1),
	whole("API server's and etcd's CPU time", inSeconds, rundir.ServerCPU),
	counted("peak memory (RSS)", inBytes, rundir.PeakMemory),
	counted("settled memory (RSS)", inBytes, rundir.SettledMemory),
	perObject("writes_per_object", "writes per object", plainNumber, rundir.Writes, 1),
	whole("writes", plainNumber, rundir.Writes),
	counted("writes that change nothing", plainNumber, rundir.NeedlessWrites),
	counted("writes that fail", plainNumber, rundir.FailedWrites),
	counted("events without a following write", plainNumber, rundir.Unanswered),
	counted("objects deleted before they were finished", plainNumber, rundir.Unfinished),
	counted("reads", plainNumber, rundir.Reads),
	perObject("request_bytes_per_object", "bytes sent per object", inBytes, rundir.RequestBytes, 1),
	whole("bytes sent", inBytes, rundir.RequestBytes),
	perObject("response_bytes_per_object", "bytes received per object", inBytes, rundir.ResponseBytes, 1),
	whole("bytes received", inBytes, rundir.ResponseBytes),
	callsPerObject("get", rundir.GetCalls),
	calls("get", rundir.GetCalls),
	callsPerObject("list", rundir.ListCalls),
	calls("list", rundir.ListCalls),
	callsPerObject("watch", rundir.WatchCalls),
	calls("watch", rundir.WatchCalls),
	callsPerObject("create", rundir.CreateCalls),
	calls("create", rundir.CreateCalls),
	callsPerObject("update", rundir.UpdateCalls),
	calls("update", rundir.UpdateCalls),
	callsPerObject("patch", rundir.PatchCalls),
	calls("patch", rundir.PatchCalls),
	callsPerObject("delete", rundir.DeleteCalls),
	calls("delete", rundir.DeleteCalls),
	fact("objects", plainNumber, rundir.Objects),
	fact("objects offered per second", plainNumber, rundir.OfferedRate),
	fact("length of the disturbance", inSeconds, rundir.Disturbance),
	fact("window of CPU, requests and bytes", inSeconds, rundir.Window),
	fact("ideal client's time before the round: the speed of the machine", inSeconds, rundir.IdealConverge),
})

func timed(title string, of rundir.Measure) measure {
	return measure{name: string(of), title: title, unit: inSeconds, larger: "slower", smaller: "faster", of: plain(of)}
}

func counted(title string, in unit, of rundir.Measure) measure {
	return measure{name: string(of), title: title, unit: in, larger: "more", smaller: "less", of: plain(of)}
}

func fact(title string, in unit, of rundir.Measure) measure {
	return measure{name: string(of), title: title, unit: in, isFact: true, of: plain(of)}
}

func plain(of rundir.Measure) func(rundir.Round) (float64, bool) {
	return func(round rundir.Round) (float64, bool) {
		value, is := round.Measured[of]
		return value, is
	}
}

// perObject creates a measure per converged object, or per 1,000 of them.
func perObject(name, title string, in unit, of rundir.Measure, objects float64) measure {
	divided := func(round rundir.Round) (float64, bool) {
		value, is := round.Measured[of]
		if !is || !converges(round) {
			return 0, false
		}
		return value / round.Measured[rundir.Objects] * objects, true
	}
	return measure{name: name, title: title, unit: in, larger: "more", smaller: "less", of: divided}
}

// whole creates a measure for rounds without converging objects, where perObject has no value.
func whole(title string, in unit, of rundir.Measure) measure {
	measured := func(round rundir.Round) (float64, bool) {
		value, is := round.Measured[of]
		return value, is && !converges(round)
	}
	return measure{name: string(of), title: title, unit: in, larger: "more", smaller: "less", of: measured}
}

// callsPerObject creates a fact: which verbs a contender uses is no merit. Writes and reads are
// compared instead.
func callsPerObject(verb string, of rundir.Measure) measure {
	divided := perObject(string(of)+"_per_object", verb+" calls per object", plainNumber, of, 1)
	divided.isFact = true
	return divided
}

// calls creates the fact for rounds where callsPerObject has no value.
func calls(verb string, of rundir.Measure) measure {
	all := whole(verb+" calls", plainNumber, of)
	all.isFact = true
	return all
}

// converges reports whether objects have to converge in a round.
func converges(round rundir.Round) bool {
	return round.Measured[rundir.Objects] > 0 && !scenario.Named(round.Scenario).NoWork
}

// measureNamed returns the measure that a goal names.
func measureNamed(name string) measure {
	for _, candidate := range measures {
		if candidate.name == name {
			return candidate
		}
	}
	panic("report: no measure is named " + name)
}

// write formats a value with three digits and a readable unit.
func (u unit) write(value float64) string {
	if value == 0 {
		return "0"
	}
	if u == plainNumber {
		if value == math.Trunc(value) {
			return strconv.FormatFloat(value, 'f', 0, 64)
		}
		return digits(value)
	}
	type scale struct {
		from   float64
		suffix string
	}
	scales := []scale{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}}
	if u == inBytes {
		scales = []scale{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}}
	}
	at := slices.IndexFunc(scales, func(s scale) bool { return value >= s.from })
	if at < 0 {
		at = len(scales) - 1
	}
	return digits(value/scales[at].from) + " " + scales[at].suffix
}

// digits formats three significant digits, and all integer digits of a larger number.
func digits(value float64) string {
	if math.Abs(value) >= 100 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	decimals := 2
	if size := math.Abs(value); size > 0 {
		decimals = min(6, max(0, 2-int(math.Floor(math.Log10(size)))))
	}
	return strconv.FormatFloat(value, 'f', decimals, 64)
}

// verdict describes Bellerophon in comparison with a contender.
func (m measure) verdict(ours, theirs Statistic) string {
	if ours.Median == theirs.Median {
		return "the same"
	}
	word, ratio := m.larger, ours.Median/theirs.Median
	if ours.Median < theirs.Median {
		word, ratio = m.smaller, theirs.Median/ours.Median
	}
	if ours.Median == 0 || theirs.Median == 0 {
		return fmt.Sprintf("%s: %s against %s", word, m.unit.write(ours.Median), m.unit.write(theirs.Median))
	}
	text := fmt.Sprintf("%.2fx %s", ratio, word)
	if overlap(ours, theirs) {
		text += " (spreads overlap)"
	}
	return text
}
