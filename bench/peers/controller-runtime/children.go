package main

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelManagedBy = "app.kubernetes.io/managed-by"

	appName   = "bellerophon-simple"
	managedBy = "bellerophon"

	configAnnotation = "stable.simple-bellerophon.io/config"
	nobody           = 65532
)

// The set functions below set only the fields that the operator owns, in the current child.
// Defaults of the API server and additions of other clients stay.

// setMeta sets the labels and the controller reference.
func setMeta(hero *v1.BellerophonSimple, child client.Object, scheme *runtime.Scheme) error {
	child.SetLabels(with(child.GetLabels(), labelsOf(hero)))
	return controllerutil.SetControllerReference(hero, child, scheme)
}

func setConfig(hero *v1.BellerophonSimple, config *corev1.ConfigMap) {
	config.Data = with(config.Data, dataOf(hero))
}

func setService(hero *v1.BellerophonSimple, service *corev1.Service) {
	if service.CreationTimestamp.IsZero() {
		service.Spec.ClusterIP = corev1.ClusterIPNone
	}
	service.Spec.Selector = selectorOf(hero)
	service.Spec.PublishNotReadyAddresses = true
	// Names and numbers of ports are unique, so a port with the operator's name or number is the
	// operator's.
	port := item(&service.Spec.Ports, func(p *corev1.ServicePort) bool {
		return p.Name == "http" || (p.Port == 8080 && p.Protocol == corev1.ProtocolTCP)
	})
	port.Name, port.Port, port.Protocol, port.TargetPort = "http", 8080, corev1.ProtocolTCP, intstr.FromString("http")
}

func setServers(hero *v1.BellerophonSimple, servers *appsv1.StatefulSet) {
	spec := &servers.Spec
	if servers.CreationTimestamp.IsZero() { // These fields are immutable.
		spec.ServiceName = hero.Name
		spec.PodManagementPolicy = appsv1.ParallelPodManagement
		spec.Selector = &metav1.LabelSelector{MatchLabels: selectorOf(hero)}
	}
	spec.Replicas = new(*hero.Spec.Replicas)
	spec.Template.Labels = with(spec.Template.Labels, labelsOf(hero))
	spec.Template.Annotations = with(spec.Template.Annotations, map[string]string{configAnnotation: hashOf(dataOf(hero))})

	pods := &spec.Template.Spec
	pods.AutomountServiceAccountToken = new(false)
	if pods.SecurityContext == nil {
		pods.SecurityContext = &corev1.PodSecurityContext{}
	}
	pods.SecurityContext.RunAsNonRoot = new(true)
	pods.SecurityContext.RunAsUser = new(int64(nobody))
	pods.SecurityContext.RunAsGroup = new(int64(nobody))
	pods.SecurityContext.FSGroup = new(int64(nobody))
	pods.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}

	server := item(&pods.Containers, func(c *corev1.Container) bool { return c.Name == "server" })
	server.Name, server.Image = "server", hero.Spec.Image
	port := item(&server.Ports, func(p *corev1.ContainerPort) bool { return p.Name == "http" })
	port.Name, port.ContainerPort, port.Protocol = "http", 8080, corev1.ProtocolTCP
	if server.SecurityContext == nil {
		server.SecurityContext = &corev1.SecurityContext{}
	}
	server.SecurityContext.AllowPrivilegeEscalation = new(false)
	server.SecurityContext.ReadOnlyRootFilesystem = new(true)
	if server.SecurityContext.Capabilities == nil {
		server.SecurityContext.Capabilities = &corev1.Capabilities{}
	}
	server.SecurityContext.Capabilities.Drop = []corev1.Capability{"ALL"}
	config := item(&server.VolumeMounts, func(m *corev1.VolumeMount) bool { return m.MountPath == "/etc/bellerophon" })
	config.Name, config.MountPath, config.ReadOnly = "config", "/etc/bellerophon", true
	tmp := item(&server.VolumeMounts, func(m *corev1.VolumeMount) bool { return m.MountPath == "/tmp" })
	tmp.Name, tmp.MountPath, tmp.ReadOnly = "tmp", "/tmp", false

	configVolume := item(&pods.Volumes, func(v *corev1.Volume) bool { return v.Name == "config" })
	configVolume.Name = "config"
	if configVolume.ConfigMap == nil {
		configVolume.VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}
	}
	configVolume.ConfigMap.Name = hero.Name
	tmpVolume := item(&pods.Volumes, func(v *corev1.Volume) bool { return v.Name == "tmp" })
	tmpVolume.Name = "tmp"
	if tmpVolume.EmptyDir == nil {
		tmpVolume.VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	}
}

func dataOf(hero *v1.BellerophonSimple) map[string]string {
	return map[string]string{"winged_horse_name": hero.Spec.WingedHorseName, "http_port": "8080", "peers_service": hero.Name}
}

func labelsOf(hero *v1.BellerophonSimple) map[string]string {
	return map[string]string{labelName: appName, labelInstance: hero.Name, labelManagedBy: managedBy}
}

func selectorOf(hero *v1.BellerophonSimple) map[string]string {
	return map[string]string{labelName: appName, labelInstance: hero.Name}
}

// hashOf returns a short hash of the settings. It makes the pods follow a change of them.
func hashOf(data map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(data)) {
		sum.Write([]byte(name + "\x00" + data[name] + "\x00"))
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// with adds the entries of want to held and returns it.
func with(held, want map[string]string) map[string]string {
	if held == nil {
		held = map[string]string{}
	}
	maps.Copy(held, want)
	return held
}

// item returns the first item of the list for which ours returns true, or a new item. The result is
// valid until the next call with the same list.
func item[T any](list *[]T, ours func(*T) bool) *T {
	for i := range *list {
		if ours(&(*list)[i]) {
			return &(*list)[i]
		}
	}
	*list = append(*list, *new(T))
	return &(*list)[len(*list)-1]
}
