package scenario

import (
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"k8s.io/apimachinery/pkg/types"
)

var callsBy = map[string]rundir.Measure{
	"get": rundir.GetCalls, "list": rundir.ListCalls, "watch": rundir.WatchCalls, "create": rundir.CreateCalls,
	"update": rundir.UpdateCalls, "patch": rundir.PatchCalls, "delete": rundir.DeleteCalls,
}

// addTraffic adds the contender's requests and bytes in the interval [from, to). started is when
// the contender was started.
func addTraffic(measured rundir.Measured, record proxy.Record, started, from, to time.Time) {
	sum := trafficIn(record, started, from, to)
	measured[rundir.Writes] = float64(sum.Writes)
	measured[rundir.NeedlessWrites] = float64(sum.Needless)
	measured[rundir.FailedWrites] = float64(sum.Failed)
	measured[rundir.Reads] = float64(sum.Reads)
	measured[rundir.RequestBytes] = float64(sum.In)
	measured[rundir.ResponseBytes] = float64(sum.Out)
	for verb, calls := range callsBy {
		measured[calls] = float64(sum.Verbs[verb])
	}
}

// addReactions adds the reactions to the events of a trigger.
func addReactions(measured rundir.Measured, samples rundir.Samples, record proxy.Record, by trigger) {
	reactions, unanswered := reactionsIn(record, by)
	measured[rundir.Unanswered] = float64(unanswered)
	if len(reactions) > 0 {
		measured[rundir.ReactionMedian] = quantile(reactions, 0.5).Seconds()
		samples[rundir.Reaction99] = rundir.HistogramOf(reactions)
	}
}

// addLatencies adds how long objects took to reach their wanted numbers on a board: each object
// since its own time, and all of them since the first request.
func addLatencies(measured rundir.Measured, samples rundir.Samples, b *board, began time.Time, since map[types.NamespacedName]time.Time) {
	latencies := make([]time.Duration, 0, len(since))
	var last time.Time
	for name, from := range since {
		at, reached := b.at(name)
		if !reached {
			continue // The object was deleted before. It counts as unfinished.
		}
		latencies = append(latencies, max(0, at.Sub(from))) // The watch event may arrive before the answer.
		if at.After(last) {
			last = at
		}
	}
	measured[rundir.Objects] = float64(len(latencies))
	measured[rundir.Unfinished] = float64(len(since) - len(latencies))
	if len(latencies) > 0 {
		measured[rundir.Converge] = last.Sub(began).Seconds()
		measured[rundir.ReadyMedian] = quantile(latencies, 0.5).Seconds()
		samples[rundir.Ready99] = rundir.HistogramOf(latencies)
	}
}

// addStart adds when the contender first wrote, and when it last wrote, read or received an event.
// Both are measured since started.
func addStart(measured rundir.Measured, record proxy.Record, started time.Time) {
	var first, last time.Time
	for _, call := range record.Calls {
		if call.At.Before(started) {
			continue
		}
		if call.IsWrite() && (first.IsZero() || call.At.Before(first)) {
			first = call.At
		}
		if (call.IsWrite() || call.IsRead()) && call.End.After(last) {
			last = call.End
		}
	}
	for _, event := range record.Events {
		if event.Type != "BOOKMARK" && event.IsCompared() && event.At.After(last) {
			last = event.At
		}
	}
	if !first.IsZero() {
		measured[rundir.FirstWrite] = first.Sub(started).Seconds()
	}
	if last.After(started) {
		measured[rundir.Settled] = last.Sub(started).Seconds()
	}
}
