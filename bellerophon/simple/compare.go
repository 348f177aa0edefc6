package simple

import (
	"slices"

	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The functions below say whether what is observed has every field that the operator
// owns as it wants it. Fields that the operator does not set do not count, so that what
// the API server fills in and what other people add is left alone. They are asked at
// each reconcile: a write that changes nothing costs the API server as much as one that
// does.

func sameConfig(want, seen *corev1.ConfigMap) bool {
	return sameMeta(want, seen) && covers(want.Data, seen.Data)
}

func sameService(want, seen *corev1.Service) bool {
	ports := seen.Spec.Ports
	return sameMeta(want, seen) &&
		want.Spec.ClusterIP == seen.Spec.ClusterIP &&
		want.Spec.PublishNotReadyAddresses == seen.Spec.PublishNotReadyAddresses &&
		equality.Semantic.DeepEqual(want.Spec.Selector, seen.Spec.Selector) &&
		sameItems(want.Spec.Ports, ports, func(port corev1.ServicePort) string { return port.Name })
}

func sameServers(want, seen *appsv1.StatefulSet) bool {
	wanted, pods := &want.Spec.Template, &seen.Spec.Template
	return sameMeta(want, seen) &&
		seen.Spec.Replicas != nil && *want.Spec.Replicas == *seen.Spec.Replicas &&
		covers(wanted.Labels, pods.Labels) && covers(wanted.Annotations, pods.Annotations) &&
		equality.Semantic.DeepDerivative(wanted.Spec.AutomountServiceAccountToken, pods.Spec.AutomountServiceAccountToken) &&
		equality.Semantic.DeepDerivative(wanted.Spec.SecurityContext, pods.Spec.SecurityContext) &&
		sameItems(wanted.Spec.Containers, pods.Spec.Containers, func(container corev1.Container) string { return container.Name }) &&
		sameItems(wanted.Spec.Volumes, pods.Spec.Volumes, func(volume corev1.Volume) string { return volume.Name })
}

// sameMeta compares labels and the owner.
func sameMeta(want, seen streams.Object) bool {
	owner, observed := metav1.GetControllerOfNoCopy(want), metav1.GetControllerOfNoCopy(seen)
	return observed != nil && observed.UID == owner.UID && covers(want.GetLabels(), seen.GetLabels())
}

// covers says whether seen has all that want has.
func covers(want, seen map[string]string) bool {
	for key, value := range want {
		if held, known := seen[key]; !known || held != value {
			return false
		}
	}
	return true
}

// sameItems compares the items of a list that the API server merges by a name: other
// people may add items of their own, in any place.
func sameItems[T any](want, seen []T, name func(T) string) bool {
	for _, wanted := range want {
		at := slices.IndexFunc(seen, func(item T) bool { return name(item) == name(wanted) })
		if at < 0 || !equality.Semantic.DeepDerivative(wanted, seen[at]) {
			return false
		}
	}
	return true
}
