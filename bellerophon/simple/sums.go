package simple

import (
	"hash/maphash"
	"maps"
	"slices"
	"strconv"

	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fields returns the fields of the children that the operator owns. A child in the desired state has
// the sum of the desired child. A child with a missing or different owned field has another sum,
// except for one chance in 1<<64. So a comparison needs no copy of the child.
//
// The functions below hash exactly the fields that the functions of adjust.go set. If adjusting a
// child would change nothing, its sum equals the desired sum.
func Fields() owned.Fields {
	return owned.Fields{App: appName, ConfigMap: sumOfConfig, Service: sumOfService, StatefulSet: sumOfServers}
}

var sumSeed = maphash.MakeSeed()

// summing hashes the fields. Each field is preceded by its length, which separates it from the next.
type summing struct{ maphash.Hash }

func newSumming() *summing {
	made := &summing{}
	made.SetSeed(sumSeed)
	return made
}

func (s *summing) sum() owned.Sum { return owned.Sum(s.Sum64()) }

func (s *summing) number(value int64) { s.text(strconv.FormatInt(value, 10)) }

func (s *summing) text(value string) {
	for _, part := range [...]string{strconv.Itoa(len(value)), ":", value} {
		_, _ = s.WriteString(part) // Never fails.
	}
}

func (s *summing) is(value bool) {
	if value {
		s.text("true")
	} else {
		s.text("false")
	}
}

// some begins an optional field: it adds whether the field is there.
func (s *summing) some(there bool) bool {
	s.is(there)
	return there
}

// entries adds the named entries of a map.
func (s *summing) entries(held map[string]string, names ...string) {
	for _, name := range names {
		value, known := held[name]
		s.some(known)
		s.text(value)
	}
}

func optional[T any](s *summing, value *T, add func(T)) {
	if s.some(value != nil) {
		add(*value)
	}
}

// item adds our item of a list.
func item[T any](s *summing, list []T, ours func(*T) bool, add func(*T)) {
	at := slices.IndexFunc(list, func(item T) bool { return ours(&item) })
	if s.some(at >= 0) {
		add(&list[at])
	}
}

// meta adds the labels and the owner.
func (s *summing) meta(of metav1.Object) {
	s.entries(of.GetLabels(), owned.LabelApp, owned.LabelInstance, owned.LabelManagedBy)
	optional(s, metav1.GetControllerOfNoCopy(of), func(owner metav1.OwnerReference) {
		s.text(owner.APIVersion)
		s.text(owner.Kind)
		s.text(owner.Name)
		s.text(string(owner.UID))
		optional(s, owner.BlockOwnerDeletion, s.is)
	})
}

func sumOfConfig(of *corev1.ConfigMap) owned.Sum {
	s := newSumming()
	s.meta(of)
	s.entries(of.Data, keyHorse, keyPort, keyPeers)
	return s.sum()
}

func sumOfService(of *corev1.Service) owned.Sum {
	s := newSumming()
	s.meta(of)
	s.is(of.Spec.PublishNotReadyAddresses)
	s.number(int64(len(of.Spec.Selector)))
	for _, name := range slices.Sorted(maps.Keys(of.Spec.Selector)) {
		s.text(name)
		s.text(of.Spec.Selector[name])
	}
	item(s, of.Spec.Ports, isHTTP, func(port *corev1.ServicePort) {
		s.text(port.Name)
		s.number(int64(port.Port))
		s.text(string(port.Protocol))
		s.text(port.TargetPort.String())
		s.number(int64(port.TargetPort.Type))
	})
	return s.sum()
}

func sumOfServers(of *appsv1.StatefulSet) owned.Sum {
	s := newSumming()
	s.meta(of)
	optional(s, of.Spec.Replicas, func(replicas int32) { s.number(int64(replicas)) })
	pods := &of.Spec.Template
	s.entries(pods.Labels, owned.LabelApp, owned.LabelInstance, owned.LabelManagedBy)
	s.entries(pods.Annotations, configAnnotation)
	optional(s, pods.Spec.AutomountServiceAccountToken, s.is)
	optional(s, pods.Spec.SecurityContext, func(security corev1.PodSecurityContext) {
		optional(s, security.RunAsNonRoot, s.is)
		optional(s, security.RunAsUser, s.number)
		optional(s, security.RunAsGroup, s.number)
		optional(s, security.FSGroup, s.number)
		optional(s, security.SeccompProfile, func(profile corev1.SeccompProfile) {
			s.text(string(profile.Type))
			optional(s, profile.LocalhostProfile, s.text)
		})
	})
	item(s, pods.Spec.Containers, isServer, s.container)
	for _, name := range []string{volumeConfig, volumeTmp} {
		item(s, pods.Spec.Volumes, func(v *corev1.Volume) bool { return v.Name == name }, s.volume)
	}
	return s.sum()
}

func (s *summing) container(of *corev1.Container) {
	s.text(of.Image)
	s.text(string(of.ImagePullPolicy))
	optional(s, of.SecurityContext, func(security corev1.SecurityContext) {
		optional(s, security.AllowPrivilegeEscalation, s.is)
		optional(s, security.ReadOnlyRootFilesystem, s.is)
		optional(s, security.Capabilities, func(held corev1.Capabilities) {
			for _, capabilities := range [][]corev1.Capability{held.Add, held.Drop} {
				s.number(int64(len(capabilities)))
				for _, capability := range capabilities {
					s.text(string(capability))
				}
			}
		})
	})
	item(s, of.Ports, func(p *corev1.ContainerPort) bool { return p.Name == portName }, func(port *corev1.ContainerPort) {
		s.number(int64(port.ContainerPort))
		s.text(string(port.Protocol))
	})
	for _, path := range []string{configPath, tmpPath} {
		item(s, of.VolumeMounts, func(m *corev1.VolumeMount) bool { return m.MountPath == path }, func(mount *corev1.VolumeMount) {
			s.text(mount.Name)
			s.is(mount.ReadOnly)
		})
	}
}

func (s *summing) volume(of *corev1.Volume) {
	switch {
	case of.ConfigMap != nil:
		s.text("config")
		s.text(of.ConfigMap.Name)
	case of.EmptyDir != nil:
		s.text("empty")
	default:
		s.text("other")
	}
}
