package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/prometheus/client_golang/prometheus"
)

// slowing returns a reconciler whose attempts for an object in a pattern are held back: see history.Pattern. None is
// lost, because an attempt that is held back asks for another one.
func (m *Manager) slowing(of *member, reconcile operators.Reconciler) operators.Reconciler {
	if m.history == nil {
		return reconcile
	}
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		var own streams.Key
		if of.reconciled != nil {
			own = streams.Key{GroupKind: of.reconciled.kind.GroupKind(), NamespacedName: request.NamespacedName}
		}
		if wait := m.history.Hold(request, own); wait > 0 {
			return wait, nil
		}
		return reconcile(ctx, request)
	}
}

// onFinding reports a pattern that was found, as a record of the log and as an Event.
func (m *Manager) onFinding(found history.Finding) {
	note := describeFinding(found)
	boundedLog{limit: m.limit, controller: found.Controller, object: found.Object}.Warn("attempts are in a pattern that does not end by itself", "controller", found.Controller, "namespace", found.Object.Namespace, "name", found.Object.Name,
		"pattern", string(found.Pattern), "written", found.Written.String(), "note", note)
	of := m.present.Load().members[found.Controller]
	if of == nil || of.reconciled == nil {
		return
	}
	if store := of.reconciled.store(); store != nil {
		if object, known := store.Get(found.Object); known {
			m.recorder.Warning(object, reasonsOfPatterns[found.Pattern], "SlowDown", note)
		}
	}
}

// reasonsOfPatterns are the reasons of Events.
var reasonsOfPatterns = map[history.Pattern]string{history.Fight: "Fight", history.HotLoop: "HotLoop"}

// describeFinding returns what happens, and what a person can do.
func describeFinding(found history.Finding) string {
	took := found.Last.Sub(found.Since).Round(100 * time.Millisecond)
	if found.Pattern == history.HotLoop {
		return fmt.Sprintf("hot loop: the controller %s has written %s %d times in %v, each time because of its own last write; it should write only what differs. Its attempts for this object are slowed down",
			found.Controller, found.Written, found.Rounds, took)
	}
	what := "fields of " + found.Written.String()
	if len(found.Fields) > 0 {
		what = found.Written.String() + ": " + strings.Join(found.Fields, ", ")
	}
	who := "another client"
	if len(found.Managers) > 0 {
		who = "another client (" + strings.Join(found.Managers, ", ") + ")"
	}
	return fmt.Sprintf("fight: %s and the controller %s change %s to and fro, %d times in %v; let one of them leave the fields alone. The attempts for this object are slowed down",
		who, found.Controller, what, found.Rounds, took)
}

// patternMetrics has the number of patterns that go on. It is a prometheus.Collector.
type patternMetrics struct {
	manager *Manager
	history *history.History
}

var patternsNow = prometheus.NewDesc("bellerophon_patterns", "Objects whose attempts are in a pattern that does not end by itself: fight or hot_loop.", []string{"controller", "pattern"}, nil)

// Describe implements prometheus.Collector.
func (p patternMetrics) Describe(described chan<- *prometheus.Desc) { described <- patternsNow }

// Collect implements prometheus.Collector.
func (p patternMetrics) Collect(collected chan<- prometheus.Metric) {
	findings := p.history.Findings()
	for name := range p.manager.present.Load().members {
		for pattern := range reasonsOfPatterns {
			count := 0
			for _, found := range findings {
				if found.Controller == name && found.Pattern == pattern {
					count++
				}
			}
			collected <- prometheus.MustNewConstMetric(patternsNow, prometheus.GaugeValue, float64(count), name, string(pattern))
		}
	}
}
