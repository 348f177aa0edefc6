package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
)

// drift is a change of a child by another client. Exactly one of the functions is set.
type drift struct {
	field   string
	config  func(*corev1.ConfigMap)
	service func(*corev1.Service)
	servers func(*appsv1.StatefulSet)
}

func (d drift) resource() schema.GroupVersionResource {
	switch {
	case d.config != nil:
		return configMaps
	case d.service != nil:
		return services
	default:
		return statefulSets
	}
}

func (d drift) String() string { return d.resource().Resource + " " + d.field }

// drifts changes each owned field that the API server allows to change. Changes of a field that
// all children have are made for each child.
var drifts = slices.Concat(metaDrifts(), []drift{
	{field: "data.winged_horse_name", config: func(c *corev1.ConfigMap) { c.Data["winged_horse_name"] = "donkey" }},
	{field: "data.http_port", config: func(c *corev1.ConfigMap) { c.Data["http_port"] = "80" }},
	{field: "data.peers_service removed", config: func(c *corev1.ConfigMap) { delete(c.Data, "peers_service") }},

	{field: "spec.selector changed", service: func(s *corev1.Service) { s.Spec.Selector["app.kubernetes.io/instance"] = "donkey" }},
	{field: "spec.selector narrowed", service: func(s *corev1.Service) { s.Spec.Selector["horse"] = "donkey" }},
	{field: "spec.publishNotReadyAddresses", service: func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = false }},
	{field: "spec.ports.targetPort", service: func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(80) }},

	{field: "spec.replicas", servers: func(s *appsv1.StatefulSet) { *s.Spec.Replicas = 3 }},
	{field: "template.labels", servers: func(s *appsv1.StatefulSet) {
		s.Spec.Template.Labels["app.kubernetes.io/managed-by"] = "donkey"
	}},
	{field: "template.annotations changed", servers: func(s *appsv1.StatefulSet) {
		s.Spec.Template.Annotations["stable.simple-bellerophon.io/config"] = "0"
	}},
	{field: "template.annotations removed", servers: func(s *appsv1.StatefulSet) {
		delete(s.Spec.Template.Annotations, "stable.simple-bellerophon.io/config")
	}},
	{field: "automountServiceAccountToken", servers: func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.AutomountServiceAccountToken = new(true)
	}},
	{field: "securityContext.runAsNonRoot", servers: func(s *appsv1.StatefulSet) { security(s).RunAsNonRoot = new(false) }},
	{field: "securityContext.runAsUser", servers: func(s *appsv1.StatefulSet) { security(s).RunAsUser = new(int64(1)) }},
	{field: "securityContext.runAsGroup", servers: func(s *appsv1.StatefulSet) { security(s).RunAsGroup = new(int64(1)) }},
	{field: "securityContext.fsGroup", servers: func(s *appsv1.StatefulSet) { security(s).FSGroup = new(int64(1)) }},
	{field: "securityContext.seccompProfile", servers: func(s *appsv1.StatefulSet) {
		security(s).SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined
	}},
	{field: "securityContext removed", servers: func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil }},
	{field: "containers.image", servers: func(s *appsv1.StatefulSet) { server(s).Image = "donkey" }},
	{field: "containers.ports removed", servers: func(s *appsv1.StatefulSet) { server(s).Ports = nil }},
	{field: "containers.securityContext.allowPrivilegeEscalation", servers: func(s *appsv1.StatefulSet) {
		server(s).SecurityContext.AllowPrivilegeEscalation = new(true)
	}},
	{field: "containers.securityContext.readOnlyRootFilesystem", servers: func(s *appsv1.StatefulSet) {
		server(s).SecurityContext.ReadOnlyRootFilesystem = new(false)
	}},
	{field: "containers.securityContext.capabilities.drop", servers: func(s *appsv1.StatefulSet) {
		server(s).SecurityContext.Capabilities.Drop = []corev1.Capability{"NET_RAW"}
	}},
	{field: "containers.securityContext removed", servers: func(s *appsv1.StatefulSet) { server(s).SecurityContext = nil }},
	{field: "containers.volumeMounts.readOnly", servers: func(s *appsv1.StatefulSet) { mount(s, "config").ReadOnly = false }},
	{field: "containers.volumeMounts removed", servers: func(s *appsv1.StatefulSet) {
		server(s).VolumeMounts = slices.DeleteFunc(server(s).VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "config" })
	}},
	{field: "volumes.configMap.name", servers: func(s *appsv1.StatefulSet) { volume(s, "config").ConfigMap.Name = "donkey" }},
	{field: "volumes removed", servers: func(s *appsv1.StatefulSet) {
		server(s).VolumeMounts = slices.DeleteFunc(server(s).VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "tmp" })
		pods := &s.Spec.Template.Spec
		pods.Volumes = slices.DeleteFunc(pods.Volumes, func(v corev1.Volume) bool { return v.Name == "tmp" })
	}},
})

// renames changes the key of a list item. The contender's item can then be added beside it, or
// found by its key. A changed item cannot be distinguished from a removed item and
// an added one. A contender passes if its item is restored.
var renames = []drift{
	{field: "spec.ports.name", service: func(s *corev1.Service) { s.Spec.Ports[0].Name = "donkey" }},
	{field: "containers.name", servers: func(s *appsv1.StatefulSet) { server(s).Name = "donkey" }},
	{field: "containers.ports.name", servers: func(s *appsv1.StatefulSet) { server(s).Ports[0].Name = "donkey" }},
	{field: "containers.volumeMounts.mountPath", servers: func(s *appsv1.StatefulSet) { mount(s, "config").MountPath = "/donkey" }},
}

// keyDrifts changes a list item so that the contender's item cannot exist beside it. The API
// server refuses two ports of one name and two sources of one volume. Server-side apply treats
// the changed item as another client's item, keeps it, and is refused.
var keyDrifts = []drift{
	{field: "spec.ports.port", service: func(s *corev1.Service) { s.Spec.Ports[0].Port = 80 }},
	{field: "spec.ports.protocol", service: func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }},
	{field: "containers.ports.containerPort", servers: func(s *appsv1.StatefulSet) { server(s).Ports[0].ContainerPort = 80 }},
	{field: "containers.ports.protocol", servers: func(s *appsv1.StatefulSet) { server(s).Ports[0].Protocol = corev1.ProtocolUDP }},
	{field: "volumes of another source", servers: func(s *appsv1.StatefulSet) {
		volume(s, "tmp").VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/donkey"}}
	}},
}

// metaDrifts returns the drifts of the labels and the owner, for each child.
func metaDrifts() []drift {
	var all []drift
	add := func(field string, change func(object metav1.Object)) {
		all = append(all,
			drift{field: field, config: func(c *corev1.ConfigMap) { change(c) }},
			drift{field: field, service: func(s *corev1.Service) { change(s) }},
			drift{field: field, servers: func(s *appsv1.StatefulSet) { change(s) }})
	}
	for _, label := range []string{"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by"} {
		add("label "+label+" changed", func(object metav1.Object) { object.GetLabels()[label] = "donkey" })
		add("label "+label+" removed", func(object metav1.Object) { delete(object.GetLabels(), label) })
	}
	add("ownerReferences.blockOwnerDeletion", func(object metav1.Object) { object.GetOwnerReferences()[0].BlockOwnerDeletion = new(false) })
	add("ownerReferences removed", func(object metav1.Object) { object.SetOwnerReferences(nil) })
	return all
}

func security(s *appsv1.StatefulSet) *corev1.PodSecurityContext {
	return s.Spec.Template.Spec.SecurityContext
}

// server returns the container that the contract defines.
func server(s *appsv1.StatefulSet) *corev1.Container {
	return item(s.Spec.Template.Spec.Containers, func(c *corev1.Container) bool { return c.Name == "server" })
}

func mount(s *appsv1.StatefulSet, name string) *corev1.VolumeMount {
	return item(server(s).VolumeMounts, func(m *corev1.VolumeMount) bool { return m.Name == name })
}

func volume(s *appsv1.StatefulSet, name string) *corev1.Volume {
	return item(s.Spec.Template.Spec.Volumes, func(v *corev1.Volume) bool { return v.Name == name })
}

// item returns the item that is selects. Drifts are made on children that match the contract, so
// exactly one item matches.
func item[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return new(T)
}

// drift makes a drift, and retries it when other clients write the child at the same time. It
// returns an error if the drift changes nothing.
func (t *trial) drift(ctx context.Context, name string, d drift) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		before, after, err := t.update(ctx, name, d)
		if err == nil && before == after {
			return errors.New("the object did not change")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("change %v of %s: %w", d, name, err)
	}
	return nil
}

// update makes a drift once, and returns the resource versions before and after.
func (t *trial) update(ctx context.Context, name string, d drift) (before, after string, err error) {
	switch {
	case d.config != nil:
		return update(ctx, t.core.CoreV1().ConfigMaps(t.namespace), name, d.config)
	case d.service != nil:
		return update(ctx, t.core.CoreV1().Services(t.namespace), name, d.service)
	default:
		return update(ctx, t.core.AppsV1().StatefulSets(t.namespace), name, d.servers)
	}
}

// client is the common part of the typed clients.
type client[T metav1.Object] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
}

func update[T metav1.Object](ctx context.Context, c client[T], name string, change func(T)) (before, after string, err error) {
	object, err := c.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", "", err
	}
	before = object.GetResourceVersion()
	change(object)
	updated, err := c.Update(ctx, object, metav1.UpdateOptions{})
	if err != nil {
		return "", "", err
	}
	return before, updated.GetResourceVersion(), nil
}
