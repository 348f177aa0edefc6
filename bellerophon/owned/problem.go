package owned

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
)

// Problem is the reason why a server does not get ready, if waiting alone does not solve it.
type Problem struct {
	Reason  string // of the condition
	Message string
	From    time.Time // when it counts, if it lasts until then; zero if it counts at once
}

// schedulingGrace is how long a pod may look for a node before that counts as a problem. Nodes come
// and go, and autoscalers add nodes.
const schedulingGrace = 10 * time.Second

// Counts reports whether a problem has lasted long enough to count, or how much time is left.
func (p Problem) Counts(now time.Time) (bool, time.Duration) {
	left := max(p.From.Sub(now), 0)
	return left == 0, left
}

// HasNoNode reports whether no node takes the pod.
func (p Problem) HasNoNode() bool { return p.Reason == v1.ReasonUnschedulable }

// pullFailures holds the kubelet's reasons for an image that it cannot pull.
var pullFailures = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}

// startFailures holds the kubelet's reasons for a container that it cannot start.
var startFailures = []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// problemOf returns the problem of a pod, or nil.
func problemOf(pod *corev1.Pod) *Problem {
	for _, container := range pod.Status.ContainerStatuses {
		waiting := container.State.Waiting
		switch {
		case waiting == nil:
		case slices.Contains(pullFailures, waiting.Reason):
			return &Problem{v1.ReasonImagePullFailed, fmt.Sprintf("pod %s cannot get image %q", pod.Name, container.Image), time.Time{}}
		case slices.Contains(startFailures, waiting.Reason):
			message := fmt.Sprintf("pod %s cannot start its container: %s", pod.Name, firstLine(waiting.Message))
			return &Problem{v1.ReasonCannotStart, message, time.Time{}}
		case waiting.Reason == "CrashLoopBackOff":
			return &Problem{v1.ReasonCrashLooping, fmt.Sprintf("pod %s exits repeatedly after its start", pod.Name), time.Time{}}
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable {
			message := fmt.Sprintf("pod %s cannot be scheduled: %s", pod.Name, condition.Message)
			return &Problem{v1.ReasonUnschedulable, message, condition.LastTransitionTime.Add(schedulingGrace)}
		}
	}
	return nil
}

// problemChanges reports whether a change of a pod changes its problem. Other changes need no
// reconcile, because the StatefulSet counts the ready pods.
func problemChanges(change streams.Change) bool {
	return problemIn(change.Old) != problemIn(change.New)
}

func problemIn(object streams.Object) Problem {
	if held, _ := object.(*Pod); held != nil && held.Problem != nil {
		return *held.Problem
	}
	return Problem{}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
