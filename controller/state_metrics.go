package controller

import (
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/prometheus/client_golang/prometheus"
)

// state collects the metrics that are read from the state of a manager at each scrape.
type state struct{ manager *Manager }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	maxConcurrent   = desc("controller_runtime_max_concurrent_reconciles", "Workers of the pool that all controllers share.", "controller")
	activeWorkers   = desc("controller_runtime_active_workers", "Reconciles that are running.", "controller")
	queueDepth      = desc("workqueue_depth", "Objects that are queued or backing off.", "name", "controller", "priority")
	unfinished      = desc("workqueue_unfinished_work_seconds", "Sum of the durations so far of the reconciles that are running.", "name", "controller")
	longestRunning  = desc("workqueue_longest_running_processor_seconds", "Duration so far of the longest reconcile that is running.", "name", "controller")
	unfinishedKeys  = desc("bellerophon_unfinished_keys", "Keys whose last attempt did not succeed or asked for another one: failing (3 times in a row or more, and backing off), terminal, or other.", "controller", "state")
	stageItems      = desc("bellerophon_stage_items_total", "Items that a stage of the pipeline has received (in) or sent (out): events, changes, requests, results.", "stage", "direction")
	stageWaiting    = desc("bellerophon_stage_waiting", "Items that a stage of the pipeline holds back.", "stage")
	cacheObjects    = desc("bellerophon_cache_objects", "Objects in the cache.", "kind")
	cacheBytes      = desc("bellerophon_cache_bytes", "Estimate of the memory that the objects of a kind take, including their places in the cache.", "kind")
	cacheOdd        = desc("bellerophon_cache_anomalies_total", "Events that should not happen.", "kind", "anomaly")
	syncLevel       = desc("bellerophon_sync_level", "Level of sync: 0 starting, 1 listed, 2 current, 3 own writes visible, 4 settled, 5 converged.")
	kindCounted     = desc("bellerophon_kind_counted", "1 if a kind counts for the level of sync; 0 if it does not, because the server refuses it or because it is watched on demand and not current.", "kind")
	controllerWaits = desc("bellerophon_controller_waits", "Kinds that a controller waits for, because the server does not serve or forbids them.", "controller")
	loopDuration    = desc("bellerophon_loop_duration_seconds", "Smoothed time from an event to the echo of the last write that it led to.")
	sourceState     = desc("bellerophon_source_state", "1 for the state of a watch: listing, watching or backing_off; 0 for the other states.", "kind", "state")
	sourceRequests  = desc("bellerophon_source_requests_total", "Lists completed, watches opened, probes of silent watches, and requests failed.", "kind", "request")
	sourceQuiet     = desc("bellerophon_source_quiet_seconds", "Time since the last event of a watch, without bookmarks.", "kind")
	sourceSilence   = desc("bellerophon_source_silence_seconds", "Time since the last event or bookmark of a watch.", "kind")
)

// Describe implements prometheus.Collector.
func (s *state) Describe(out chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{maxConcurrent, activeWorkers, queueDepth, unfinished, longestRunning, unfinishedKeys, stageItems, stageWaiting, cacheObjects, cacheBytes,
		cacheOdd, syncLevel, kindCounted, controllerWaits, loopDuration, sourceState, sourceRequests, sourceQuiet, sourceSilence} {
		out <- description
	}
	s.manager.share.describe(out)
}

// Collect implements prometheus.Collector.
func (s *state) Collect(out chan<- prometheus.Metric) {
	gauge := func(of *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, labels...)
	}
	counter := func(of *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(of, prometheus.CounterValue, float64(value), labels...)
	}
	m := s.manager
	present := m.present.Load()
	for name, member := range present.members {
		running, total, longest := member.attempts.now()
		gauge(maxConcurrent, float64(m.options.Workers), name)
		gauge(activeWorkers, float64(running), name)
		gauge(queueDepth, float64(member.controller.Stats.Waiting.Load()), name, name, "0")
		count := m.pipeline.CountUnfinished(name)
		gauge(unfinishedKeys, float64(count.Failing), name, "failing")
		gauge(unfinishedKeys, float64(count.Terminal), name, "terminal")
		gauge(unfinishedKeys, float64(count.Keys-count.Failing-count.Terminal), name, "other")
		gauge(unfinished, total.Seconds(), name, name)
		gauge(longestRunning, longest.Seconds(), name, name)
	}
	m.share.collect(present, gauge, counter)
	for _, stage := range m.pipeline.Counts() {
		counter(stageItems, stage.In, stage.Name, "in")
		counter(stageItems, stage.Out, stage.Name, "out")
		gauge(stageWaiting, float64(stage.Waiting), stage.Name)
	}
	for name, kinds := range m.waits() {
		gauge(controllerWaits, float64(len(kinds)), name)
	}
	gauge(syncLevel, float64(m.cache.Level()))
	gauge(loopDuration, m.cache.Loop().Duration().Seconds())
	for _, store := range m.cache.Stores() {
		kind := store.Kind().String()
		gauge(cacheObjects, float64(store.Len()), kind)
		gauge(cacheBytes, float64(store.Bytes()), kind)
		if counted := 0.0; store.IsCounted() {
			gauge(kindCounted, counted+1, kind)
		} else {
			gauge(kindCounted, counted, kind)
		}
		store.Anomalies(func(anomaly cache.Anomaly, count int64) { counter(cacheOdd, count, kind, anomaly.String()) })
	}
	for _, watched := range present.watches {
		if watched.store() == nil {
			continue
		}
		kind, status := watched.kind.GroupKind().String(), watched.options.Status
		current := sources.WatchState(status.State.Load())
		for _, state := range []sources.WatchState{sources.Listing, sources.Watching, sources.BackingOff} {
			value := 0.0
			if state == current {
				value = 1
			}
			gauge(sourceState, value, kind, state.String())
		}
		counter(sourceRequests, status.Lists.Load(), kind, "list")
		counter(sourceRequests, status.Watches.Load(), kind, "watch")
		counter(sourceRequests, status.Errors.Load(), kind, "failed")
		counter(sourceRequests, status.Probes.Load(), kind, "probe")
		if since, came := status.Silence(); came {
			gauge(sourceSilence, since.Seconds(), kind)
		}
		if since, came := status.Quiet(); came {
			gauge(sourceQuiet, since.Seconds(), kind)
		}
	}
}
