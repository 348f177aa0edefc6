package simple

import (
	"fmt"
	"slices"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// problem is what keeps a server from getting ready and does not go away by waiting.
type problem struct {
	reason  string // of the condition
	message string
	since   time.Time // when it began, if it must last to count
}

// schedulingGrace is how long a pod may look for a node, or be missing while no other is
// created, before that is a problem: nodes come and go, and autoscalers add some.
const schedulingGrace = 10 * time.Second

// counts says whether a problem has lasted long enough, or how long it still has to.
func (p problem) counts(now time.Time) (bool, time.Duration) {
	if p.since.IsZero() {
		return true, 0
	}
	left := schedulingGrace - now.Sub(p.since)
	return left <= 0, max(left, 0)
}

// pullFailures are the kubelet's reasons for an image that it cannot get.
var pullFailures = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}

// startFailures are its reasons for a container that it cannot start.
var startFailures = []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// problemOf is what is wrong with a pod, or nil.
func problemOf(pod *corev1.Pod) *problem {
	for _, container := range pod.Status.ContainerStatuses {
		waiting := container.State.Waiting
		switch {
		case waiting == nil:
		case slices.Contains(pullFailures, waiting.Reason):
			return &problem{v1.ReasonImagePullFailed, fmt.Sprintf("pod %s cannot get image %q", pod.Name, container.Image), time.Time{}}
		case slices.Contains(startFailures, waiting.Reason):
			message := fmt.Sprintf("pod %s cannot start its container: %s", pod.Name, firstLine(waiting.Message))
			return &problem{v1.ReasonCannotStart, message, time.Time{}}
		case waiting.Reason == "CrashLoopBackOff":
			return &problem{v1.ReasonCrashLooping, fmt.Sprintf("pod %s ends again and again after its start", pod.Name), time.Time{}}
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable {
			message := fmt.Sprintf("pod %s finds no node: %s", pod.Name, condition.Message)
			return &problem{v1.ReasonUnschedulable, message, condition.LastTransitionTime.Time}
		}
	}
	return nil
}

// troubleChanges reports whether a change of a pod changes what troubles it. The rest needs no
// reconcile: the StatefulSet counts the ready pods.
func troubleChanges(change streams.Change) bool {
	return worry(change.Old) != worry(change.New)
}

func worry(object streams.Object) problem {
	if held, _ := object.(*pod); held != nil && held.problem != nil {
		return *held.problem
	}
	return problem{}
}

// heroOfPod names the object whose server a pod is.
func heroOfPod(object streams.Object) []types.NamespacedName {
	name := object.GetLabels()[labelInstance]
	if name == "" {
		return nil
	}
	return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: name}}
}
