package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		if found, left, is := m.history.FindingOf(request.Controller, request.NamespacedName); is {
			ctx = context.WithValue(ctx, stalledKey{}, stalledBy(&found, left))
		}
		return reconcile(ctx, request)
	}
}

// stalledBy returns what an attempt for an object in a pattern finds in its context, and what its recording has.
func stalledBy(found *history.Finding, left time.Duration) *recording.Stalled {
	return &recording.Stalled{
		Reason: reasonsOfPatterns[found.Pattern], Message: explainFinding(*found, ""), Left: left,
		Pattern: string(found.Pattern), Written: found.Written, Fields: found.Fields, Managers: found.Managers,
		Rounds: found.Rounds, Since: found.Since.UnixNano(), Last: found.Last.UnixNano(),
	}
}

// onFinding reports a pattern that was found, as a record of the log and as an Event.
func (m *Manager) onFinding(found history.Finding) {
	note := describeFinding(found)
	boundedLog{limits: m.limits, about: logSubject{found.Controller, found.Object}}.Warn("attempts are in a pattern that does not end by itself", "controller", found.Controller, "namespace", found.Object.Namespace, "name", found.Object.Name,
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

// describeFinding returns what happens, how often, and what a person can do.
func describeFinding(found history.Finding) string {
	return explainFinding(found, fmt.Sprintf(", %d times in %v", found.Rounds, found.Last.Sub(found.Since).Round(100*time.Millisecond)))
}

// explainFinding returns what happens, with how often or without, and what a person can do.
func explainFinding(found history.Finding, often string) string {
	if found.Pattern == history.HotLoop {
		return fmt.Sprintf("hot loop: the controller %s writes %s because of its own last write%s; it should write only what differs. Its attempts for this object are slowed down",
			found.Controller, found.Written, often)
	}
	what := "fields of " + found.Written.String()
	if len(found.Fields) > 0 {
		what = found.Written.String() + ": " + strings.Join(found.Fields, ", ")
	}
	who := "another client"
	if len(found.Managers) > 0 {
		who = "another client (" + strings.Join(found.Managers, ", ") + ")"
	}
	return fmt.Sprintf("fight: %s and the controller %s change %s to and fro%s; let one of them leave the fields alone. The attempts for this object are slowed down",
		who, found.Controller, what, often)
}

// ConditionStalled is the type of the condition that [SetStalled] sets. Tools that follow the conventions of kstatus know it.
const ConditionStalled = "Stalled"

// stalledKey is the key of the *recording.Stalled of an attempt for an object in a pattern.
type stalledKey struct{}

// SetStalled sets the condition Stalled if the object that an attempt reconciles is in a fight or a hot loop, and removes
// it otherwise. Call it with the context of the attempt, before the status is compared and written. The
// attempt must ask for another one after the time that SetStalled returns, unless it is 0: the condition is removed then, if the pattern has ended.
//
// generation is the one of the object that the conditions describe. The message has no numbers, so another round changes
// nothing. The history finds patterns, so the manager must have one: see Options.History.
func SetStalled(ctx context.Context, conditions *[]metav1.Condition, generation int64) (again time.Duration) {
	stalled, is := ctx.Value(stalledKey{}).(*recording.Stalled)
	if !is {
		meta.RemoveStatusCondition(conditions, ConditionStalled)
		return 0
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: ConditionStalled, Status: metav1.ConditionTrue, Reason: stalled.Reason, Message: shortened(stalled.Message, longestMessage, "…"), ObservedGeneration: generation,
	})
	return stalled.Left
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
