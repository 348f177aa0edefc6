package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/project"
	"github.com/bellerophon-io/bellerophon/controller"
	corev1 "k8s.io/api/core/v1"
)

// choosePod returns the container that holds the project, of a running pod of the wanted template. Without one, it
// returns what is in the way.
func (l *Loop) choosePod(ctx context.Context, plan *project.Plan, specs contract.Specs) (place container.Place, problem string) {
	pods, err := controller.List[*corev1.Pod](ctx, l.client, controller.InNamespace(l.options.Namespace),
		controller.MatchingLabels(selectorOf(l.options.Application)))
	if err != nil {
		return container.Place{}, err.Error()
	}
	wanted := templateSum(plan, l.options.Application)
	name, source := syncContainer(plan, specs)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { // The newest first.
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	problem = "the Deployment has no pod yet"
	for i, pod := range pods {
		if pod.DeletionTimestamp != nil || pod.Annotations[templateAnnotation] != wanted {
			continue
		}
		trouble := podTrouble(pod)
		if trouble == "" {
			for _, status := range pod.Status.ContainerStatuses {
				if status.Name == name {
					return container.Place{
						Namespace: pod.Namespace, Pod: pod.Name, PodUID: pod.UID, Container: name, ID: status.ContainerID, Project: source,
					}, ""
				}
			}
		}
		if i == 0 || problem == "" {
			problem = trouble
		}
	}
	return container.Place{}, problem
}

// podTrouble returns why a pod does not run, or "" if all of its containers run.
func podTrouble(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return fmt.Sprintf("no node takes the pod %s: %s", pod.Name, condition.Message)
		}
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return fmt.Sprintf("the pod %s has ended: %s", pod.Name, cmp.Or(pod.Status.Message, pod.Status.Reason, string(pod.Status.Phase)))
	}
	var waiting []string
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if state := status.State.Waiting; state != nil {
			waiting = append(waiting, containerTrouble(pod, status.Name, state))
		}
	}
	if len(waiting) > 0 {
		return strings.Join(waiting, "; ")
	}
	running := 0
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil {
			running++
		}
	}
	if pod.Status.Phase != corev1.PodRunning || running < len(pod.Spec.Containers) {
		return fmt.Sprintf("the pod %s is starting", pod.Name)
	}
	return ""
}

// containerTrouble describes why a container waits, with a way out.
func containerTrouble(pod *corev1.Pod, name string, waiting *corev1.ContainerStateWaiting) string {
	image := ""
	for _, c := range pod.Spec.Containers {
		if c.Name == name {
			image = c.Image
		}
	}
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
		return fmt.Sprintf("the image %s of the container %s cannot be pulled (%s); check its name in the devfile, and the node's access to its registry: %s",
			image, name, waiting.Reason, cmp.Or(waiting.Message, "the node gives no details"))
	case "CrashLoopBackOff":
		return fmt.Sprintf("the container %s ends again and again; its command in the devfile must keep running: %s", name, waiting.Message)
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return fmt.Sprintf("the container %s cannot be created: %s", name, waiting.Message)
	case "ContainerCreating", "PodInitializing", "":
		return fmt.Sprintf("the container %s is starting", name)
	}
	return fmt.Sprintf("the container %s waits: %s %s", name, waiting.Reason, waiting.Message)
}
