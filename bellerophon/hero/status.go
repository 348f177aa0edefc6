package hero

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/controller"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// unreachable is the role of a member that does not answer.
const unreachable = "unreachable"

// statusOf returns the status of a hero by its view and by the result of its steps. recheck is the time after which it
// may change without an event, or 0.
func statusOf(v *view, result error) (status v1.BellerophonStatus, recheck time.Duration) {
	hero := v.hero
	status = *hero.Status.DeepCopy()
	status.ObservedGeneration = hero.Generation
	status.Selector = labels.SelectorFromSet(selectorOf(hero)).String()
	status.Replicas, status.ReadyReplicas, status.Leader, status.Members = int32(len(v.pods)), 0, "", nil
	for _, pod := range v.pods {
		one := v1.Member{Name: pod.Name, Role: unreachable, Revision: pod.Whole.Labels[appsv1.ControllerRevisionHashLabelKey]}
		if known := v.statuses[pod.Name]; known != nil {
			one.ID, one.Role, one.Ready = known.ID, string(known.Role), known.Ready && isServed(pod)
			one.Lag = known.lag
			if known.Role == client.Leader {
				status.Leader = pod.Name
			}
			if one.Ready {
				status.ReadyReplicas++
			}
		}
		status.Members = append(status.Members, one)
	}
	if v.set != nil {
		status.TargetRevision = v.set.Status.UpdateRevision
		// The StatefulSet leaves its own current revision as it is when it does not replace pods itself.
		if len(v.pods) > 0 && !slices.ContainsFunc(v.pods, v.isOutdated) {
			status.CurrentRevision = status.TargetRevision
		}
	}
	trouble, recheck := troubleOf(v, result)
	setConditions(v, &status, result, trouble)
	return status, recheck
}

// troubleOf returns what keeps the cluster from its desired state and does not pass by waiting, or nil.
func troubleOf(v *view, result error) (*problem, time.Duration) {
	var found problem
	var wait waiting
	switch {
	case errors.As(result, &found):
		return &found, found.recheck
	case result != nil && !errors.As(result, &wait):
		return &problem{reason: "StepFailed", message: result.Error()}, 0
	}
	recheck := time.Duration(0)
	if v.hero.Spec.Restore != nil && !v.hero.Status.Restored { // The volume of the backup may go.
		recheck = lookAgain
	}
	for _, pod := range v.pods {
		if pod.Problem == nil || pod.DeletionTimestamp != nil {
			continue
		}
		counts, left := pod.Problem.Counts(v.now)
		if counts {
			message := pod.Problem.Message
			if isDamaged(pod) {
				message = fmt.Sprintf("the volume claim %s-%s of pod %s is damaged; see the log of the pod", volumeData, pod.Name, pod.Name)
			}
			if pod.Problem.HasNoNode() {
				message += "; where it may run is decided by spec.affinity, spec.tolerations, spec.resources and spec.storage.className"
			}
			return &problem{reason: pod.Problem.Reason, message: message}, 0
		}
		if recheck == 0 || left < recheck {
			recheck = left
		}
	}
	trouble, left := v.membersTrouble()
	if left > 0 && (recheck == 0 || left < recheck) {
		recheck = left
	}
	return trouble, recheck
}

// silentAfter is how long the container of a member may run without an answer. A member that reads a large log takes seconds.
const silentAfter = time.Minute

// membersTrouble returns what members say or show of their own problems, or nil. left is the time after which a silence becomes one,
// or 0.
func (v *view) membersTrouble() (found *problem, left time.Duration) {
	for _, pod := range v.pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		if status := v.statuses[pod.Name]; status != nil && status.Problem != "" {
			return &problem{reason: "VolumeFailed", message: fmt.Sprintf("%s cannot write to its volume: %s; if it is full, set a larger spec.storage.size", pod.Name, status.Problem)}, 0
		}
		silent, is := v.silent[pod.Name]
		if !is || !isRunning(pod) {
			continue
		}
		rest := silentAfter - v.now.Sub(silent.since)
		if rest <= 0 {
			return &problem{reason: "NoAnswer", message: fmt.Sprintf("%s runs, and the operator gets no answer: %v; see its log, and let NetworkPolicies admit the operator to port %d", pod.Name, silent.reason, port)}, 0
		}
		if left == 0 || rest < left {
			left = rest
		}
	}
	return nil, left
}

// isRunning reports whether the container of a pod runs.
func isRunning(pod *owned.Pod) bool {
	return slices.ContainsFunc(pod.Whole.Status.ContainerStatuses, func(container corev1.ContainerStatus) bool {
		return container.Name == containerName && container.State.Running != nil
	})
}

func setConditions(v *view, status *v1.BellerophonStatus, result error, trouble *problem) {
	hero, replicas := v.hero, replicasOf(v.hero)
	count := fmt.Sprintf("%d of %d members are ready", status.ReadyReplicas, replicas)
	finished := result == nil && trouble == nil && status.ReadyReplicas == replicas && status.Replicas == replicas
	set := func(kind string, is bool, reason, message string) {
		value := metav1.ConditionFalse
		if is {
			value = metav1.ConditionTrue
		}
		controller.SetConditions(&status.Conditions, hero.Generation, metav1.Condition{Type: kind, Status: value, Reason: reason, Message: message})
	}
	set(v1.ConditionAvailable, v.leader != nil, either(v.leader != nil, "HasLeader", "NoLeader"), "")
	set(v1.ConditionEvenReplicas, replicas%2 == 0, either(replicas%2 == 0, "EvenReplicas", "OddReplicas"),
		either(replicas%2 == 0, fmt.Sprintf("%s does not vote: %d members survive no more failures than %d", podName(hero, replicas-1), replicas, replicas-1), ""))
	message := count
	if result != nil {
		message = count + ": " + result.Error()
	}
	switch {
	case hero.DeletionTimestamp != nil && trouble == nil:
		status.Phase = v1.PhaseDeleting
		set(v1.ConditionReady, false, "Deleting", message)
		set(v1.ConditionProgressing, true, "Deleting", message)
		set(v1.ConditionDegraded, false, "Deleting", "")
	case hero.Spec.Paused && hero.DeletionTimestamp == nil:
		status.Phase = v1.PhasePaused
		set(v1.ConditionReady, status.ReadyReplicas == replicas, "Paused", count)
		set(v1.ConditionProgressing, false, "Paused", "spec.paused is true, so the operator changes nothing")
		set(v1.ConditionDegraded, false, "Paused", "")
	case trouble != nil:
		status.Phase = v1.PhaseDegraded
		set(v1.ConditionReady, false, trouble.reason, count)
		set(v1.ConditionProgressing, false, trouble.reason, "")
		set(v1.ConditionDegraded, true, trouble.reason, trouble.message)
	case finished:
		status.Phase = v1.PhaseRunning
		set(v1.ConditionReady, true, "AllMembersReady", count)
		set(v1.ConditionProgressing, false, "AllMembersReady", "")
		set(v1.ConditionDegraded, false, "AllMembersReady", "")
	default:
		status.Phase = v1.PhaseUpdating
		if !status.Bootstrapped {
			status.Phase = v1.PhaseBootstrapping
		}
		set(v1.ConditionReady, false, string(status.Phase), message)
		set(v1.ConditionProgressing, true, string(status.Phase), message)
		set(v1.ConditionDegraded, false, string(status.Phase), "")
	}
}

func either[T any](is bool, yes, no T) T {
	if is {
		return yes
	}
	return no
}
