package simple

import (
	"maps"
	"slices"

	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The functions below set every field that the operator owns in a copy of the observed object, and
// no other field. The defaults of the API server and the additions of other clients stay. The
// difference is the repair. Each field that is set here is also hashed in sums.go, which detects
// whether a repair is needed.

func adjustConfig(want, seen *corev1.ConfigMap) {
	adjustMeta(want, seen)
	seen.Data = with(seen.Data, want.Data)
}

func adjustService(want, seen *corev1.Service) {
	adjustMeta(want, seen)
	seen.Spec.PublishNotReadyAddresses = want.Spec.PublishNotReadyAddresses
	seen.Spec.Selector = maps.Clone(want.Spec.Selector) // One more label would select other pods.
	for _, port := range want.Spec.Ports {
		adjustItem(&seen.Spec.Ports, port, isHTTP, func(held *corev1.ServicePort) {
			held.Name, held.Port, held.Protocol, held.TargetPort = port.Name, port.Port, port.Protocol, port.TargetPort
		})
	}
}

// isHTTP reports whether a port of a Service is ours. A Service cannot have two ports of one name, or
// of one number and protocol. A port with our name, or with our number and protocol, is therefore
// ours.
func isHTTP(port *corev1.ServicePort) bool {
	return port.Name == portName || (port.Port == httpPort && port.Protocol == corev1.ProtocolTCP)
}

func isServer(container *corev1.Container) bool { return container.Name == containerName }

func adjustServers(want, seen *appsv1.StatefulSet) {
	adjustMeta(want, seen)
	replicas := *want.Spec.Replicas
	seen.Spec.Replicas = &replicas
	wanted, pods := &want.Spec.Template, &seen.Spec.Template
	pods.Labels = with(pods.Labels, wanted.Labels)
	pods.Annotations = with(pods.Annotations, wanted.Annotations)
	pods.Spec.AutomountServiceAccountToken = wanted.Spec.AutomountServiceAccountToken
	if pods.Spec.SecurityContext == nil {
		pods.Spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	security := wanted.Spec.SecurityContext
	pods.Spec.SecurityContext.RunAsNonRoot = security.RunAsNonRoot
	pods.Spec.SecurityContext.RunAsUser = security.RunAsUser
	pods.Spec.SecurityContext.RunAsGroup = security.RunAsGroup
	pods.Spec.SecurityContext.FSGroup = security.FSGroup
	pods.Spec.SecurityContext.SeccompProfile = security.SeccompProfile
	for i := range wanted.Spec.Containers {
		container := &wanted.Spec.Containers[i]
		adjustItem(&pods.Spec.Containers, *container, isServer, func(held *corev1.Container) { adjustContainer(container, held) })
	}
	for i := range wanted.Spec.Volumes {
		volume := &wanted.Spec.Volumes[i]
		adjustItem(&pods.Spec.Volumes, *volume, func(v *corev1.Volume) bool { return v.Name == volume.Name },
			func(held *corev1.Volume) { adjustVolume(volume, held) })
	}
}

func adjustContainer(want, seen *corev1.Container) {
	seen.Image, seen.ImagePullPolicy = want.Image, want.ImagePullPolicy
	if seen.SecurityContext == nil {
		seen.SecurityContext = &corev1.SecurityContext{}
	}
	seen.SecurityContext.AllowPrivilegeEscalation = want.SecurityContext.AllowPrivilegeEscalation
	seen.SecurityContext.ReadOnlyRootFilesystem = want.SecurityContext.ReadOnlyRootFilesystem
	seen.SecurityContext.Capabilities = want.SecurityContext.Capabilities // Drop all; the operator owns the whole field.
	for _, port := range want.Ports {
		adjustItem(&seen.Ports, port, func(p *corev1.ContainerPort) bool { return p.Name == port.Name },
			func(held *corev1.ContainerPort) {
				held.ContainerPort, held.Protocol = port.ContainerPort, port.Protocol
			})
	}
	for _, mount := range want.VolumeMounts {
		adjustItem(&seen.VolumeMounts, mount, func(m *corev1.VolumeMount) bool { return m.MountPath == mount.MountPath },
			func(held *corev1.VolumeMount) { held.Name, held.ReadOnly = mount.Name, mount.ReadOnly })
	}
}

// adjustVolume sets the source of a volume. If the source has the right type, its defaults stay.
func adjustVolume(want, seen *corev1.Volume) {
	switch {
	case want.ConfigMap != nil && seen.ConfigMap != nil:
		seen.ConfigMap.Name = want.ConfigMap.Name
	case want.EmptyDir != nil && seen.EmptyDir != nil:
	default:
		seen.VolumeSource = want.VolumeSource
	}
}

// adjustMeta sets the labels and the owner.
func adjustMeta(want, seen streams.Object) {
	seen.SetLabels(with(seen.GetLabels(), want.GetLabels()))
	owner := metav1.GetControllerOfNoCopy(want)
	owners := slices.Clone(seen.GetOwnerReferences())
	adjustItem(&owners, *owner, func(held *metav1.OwnerReference) bool { return held.UID == owner.UID },
		func(held *metav1.OwnerReference) { *held = *owner })
	seen.SetOwnerReferences(owners)
}

// with returns a copy of held with the entries of want.
func with(held, want map[string]string) map[string]string {
	joined := maps.Clone(held)
	if joined == nil {
		joined = map[string]string{}
	}
	maps.Copy(joined, want)
	return joined
}

// adjustItem adjusts our item of a list, or adds it.
func adjustItem[T any](list *[]T, want T, ours func(*T) bool, adjust func(*T)) {
	for i := range *list {
		if item := &(*list)[i]; ours(item) {
			adjust(item)
			return
		}
	}
	*list = append(*list, want)
}
