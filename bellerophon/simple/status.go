package simple

import (
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// statusOf returns the status that an object should have, given its servers, their pods and the
// results of the last writes, at a time. missing is the problem of servers that were not created, or nil.
//
// If settled is true, the status changes only with another event. If recheck is not 0, the status
// may change after that time without an event.
func statusOf(hero *v1.BellerophonSimple, servers *owned.StatefulSet, pods []*owned.Pod, missing *owned.Problem, done []ensured, now time.Time) (status v1.BellerophonSimpleStatus, settled bool, recheck time.Duration) {
	status = *hero.Status.DeepCopy()
	status.ObservedGeneration = hero.Generation
	status.Selector = labels.SelectorFromSet(selectorOf(hero)).String()
	status.Replicas, status.ReadyReplicas = 0, 0
	if servers != nil {
		status.Replicas, status.ReadyReplicas = servers.Replicas, servers.Ready
	}
	want := replicasOf(hero)
	count := fmt.Sprintf("%d of %d servers are ready", status.ReadyReplicas, want)
	trouble, degraded, recheck := troubleOf(servers, pods, missing, done, now)
	finished := !degraded && isFinished(servers, want)
	set := func(kind string, is bool, reason, message string) {
		value := metav1.ConditionFalse
		if is {
			value = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: message, ObservedGeneration: hero.Generation,
		})
	}
	switch {
	case finished && want == 0:
		set(v1.ConditionReady, true, v1.ReasonScaledToZero, "scaled to zero: no servers are left")
		set(v1.ConditionProgressing, false, v1.ReasonScaledToZero, "")
		set(v1.ConditionDegraded, false, v1.ReasonScaledToZero, "")
	case finished:
		set(v1.ConditionReady, true, v1.ReasonAllReplicasReady, count)
		set(v1.ConditionProgressing, false, v1.ReasonAllReplicasReady, "")
		set(v1.ConditionDegraded, false, v1.ReasonAllReplicasReady, "")
	case degraded:
		set(v1.ConditionReady, false, v1.ReasonReplicasNotReady, count)
		set(v1.ConditionProgressing, false, trouble.Reason, "")
		set(v1.ConditionDegraded, true, trouble.Reason, trouble.Message)
	default:
		set(v1.ConditionReady, false, v1.ReasonReplicasNotReady, count)
		set(v1.ConditionProgressing, true, v1.ReasonRollingOut, count)
		set(v1.ConditionDegraded, false, v1.ReasonRollingOut, "")
	}
	return status, finished || degraded, recheck
}

// isFinished reports whether the StatefulSet has converged to its specification.
func isFinished(servers *owned.StatefulSet, want int32) bool {
	if servers == nil || servers.Observed < servers.Generation {
		return false
	}
	return servers.Replicas == want && servers.Ready == want && servers.Updated == want && (want == 0 || servers.Revised)
}

// troubleOf returns the first problem: of a write, then of a pod, then missing. If none counts yet,
// recheck is the time after which the first of them does.
func troubleOf(servers *owned.StatefulSet, pods []*owned.Pod, missing *owned.Problem, done []ensured, now time.Time) (trouble owned.Problem, is bool, recheck time.Duration) {
	for _, child := range done {
		switch {
		case child.err == nil || errors.Is(child.err, errLeaving):
		case errors.Is(child.err, errNameTaken):
			return owned.Problem{Reason: v1.ReasonNameConflict, Message: child.err.Error()}, true, 0
		case isRefused(child.err):
			return owned.Problem{Reason: v1.ReasonWriteRefused, Message: firstLine(child.err.Error())}, true, 0
		}
	}
	if servers == nil {
		return owned.Problem{}, false, 0
	}
	for _, pod := range pods {
		if pod.Problem == nil || pod.DeletionTimestamp != nil {
			continue
		}
		counts, left := pod.Problem.Counts(now)
		if counts {
			return *pod.Problem, true, 0
		}
		recheck = sooner(recheck, left)
	}
	if missing != nil {
		counts, left := missing.Counts(now)
		if counts {
			return *missing, true, 0
		}
		recheck = sooner(recheck, left)
	}
	return owned.Problem{}, false, recheck
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
