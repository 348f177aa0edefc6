package scenario

import (
	"time"

	"github.com/bellerophon-io/bellerophon/bench/measure"
	"github.com/bellerophon-io/bellerophon/bench/outcome"
	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"k8s.io/apimachinery/pkg/types"
)

var callsBy = map[string]outcome.Measure{
	"get": outcome.GetCalls, "list": outcome.ListCalls, "watch": outcome.WatchCalls, "create": outcome.CreateCalls,
	"update": outcome.UpdateCalls, "patch": outcome.PatchCalls, "delete": outcome.DeleteCalls,
}

// addTraffic adds the contender's requests and bytes in the interval [from, to). started is when
// the contender was started.
func addTraffic(measured outcome.Measured, record proxy.Record, started, from, to time.Time) {
	traffic := measure.TrafficIn(record, started, from, to)
	measured[outcome.Writes] = float64(traffic.Writes)
	measured[outcome.NeedlessWrites] = float64(traffic.Needless)
	measured[outcome.FailedWrites] = float64(traffic.Failed)
	measured[outcome.Reads] = float64(traffic.Reads)
	measured[outcome.RequestBytes] = float64(traffic.In)
	measured[outcome.ResponseBytes] = float64(traffic.Out)
	for verb, calls := range callsBy {
		measured[calls] = float64(traffic.Verbs[verb])
	}
}

// addReactions adds the quantiles of the reactions to the events of a trigger.
func addReactions(measured outcome.Measured, record proxy.Record, trigger measure.Trigger) {
	reactions, unanswered := measure.Reactions(record, trigger)
	measured[outcome.Unanswered] = float64(unanswered)
	if len(reactions) > 0 {
		measured[outcome.ReactionMedian] = measure.Quantile(reactions, 0.5).Seconds()
		measured[outcome.Reaction99] = measure.Quantile(reactions, 0.99).Seconds()
	}
}

// addLatencies adds how long objects took to reach their wanted numbers on a board: each object
// since its own time, and all of them since the first request.
func addLatencies(measured outcome.Measured, b *board, began time.Time, since map[types.NamespacedName]time.Time) {
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
	measured[outcome.Objects] = float64(len(latencies))
	measured[outcome.Unfinished] = float64(len(since) - len(latencies))
	if len(latencies) > 0 {
		measured[outcome.Converge] = last.Sub(began).Seconds()
		measured[outcome.ReadyMedian] = measure.Quantile(latencies, 0.5).Seconds()
		measured[outcome.Ready99] = measure.Quantile(latencies, 0.99).Seconds()
	}
}

// addStart adds when the contender first wrote, and when it last wrote, read or received an event.
// Both are measured since started.
func addStart(measured outcome.Measured, record proxy.Record, started time.Time) {
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
		if event.Type != "BOOKMARK" && event.At.After(last) {
			last = event.At
		}
	}
	if !first.IsZero() {
		measured[outcome.FirstWrite] = first.Sub(started).Seconds()
	}
	if last.After(started) {
		measured[outcome.Settled] = last.Sub(started).Seconds()
	}
}
