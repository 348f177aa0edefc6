package simple

import (
	"maps"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

func drawHero(t *rapid.T) *v1.BellerophonSimple {
	replicas := rapid.Int32Range(0, 2).Draw(t, "replicas")
	hero := &v1.BellerophonSimple{}
	hero.Name, hero.Namespace, hero.UID = "pegasus", "default", types.UID(rapid.SampledFrom([]string{"u", "v"}).Draw(t, "uid"))
	hero.Spec = v1.BellerophonSimpleSpec{
		WingedHorseName: rapid.SampledFrom([]string{"", "pegasus", "arion"}).Draw(t, "horse"),
		Image:           rapid.SampledFrom([]string{"a", "b"}).Draw(t, "image"),
		Replicas:        &replicas,
	}
	return hero
}

// often runs a check on many cases, because few cases change any given field.
func often(t *testing.T, check func(t *rapid.T)) {
	rapid.Check(t, func(t *rapid.T) {
		for range 30 {
			check(t)
		}
	})
}

// same checks that the sums differ if and only if adjusting would change the object.
func same[T streams.Object](t *rapid.T, want, seen T, sumOf func(T) owned.Sum, adjust func(want, seen T)) {
	after := seen.DeepCopyObject().(T)
	adjust(want, after)
	asWanted := equality.Semantic.DeepEqual(after, seen)
	if sums := sumOf(seen) == sumOf(want); sums != asWanted {
		t.Fatalf("the sums are equal: %v, but adjusting changes nothing: %v; object:\n%+v", sums, asWanted, seen)
	}
	if sumOf(after) != sumOf(want) {
		t.Fatalf("the adjusted object does not have the desired sum:\n%+v", after)
	}
}

// some makes up to four of the changes, in random order.
func some(t *rapid.T, changes ...func()) {
	for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(changes)-1), 0, 4).Draw(t, "changes") {
		changes[i]()
	}
}

func pick[T any](t *rapid.T, values ...T) T { return rapid.SampledFrom(values).Draw(t, "value") }

// drop removes an item of a list.
func drop[T any](t *rapid.T, list *[]T) {
	if len(*list) > 0 {
		at := rapid.IntRange(0, len(*list)-1).Draw(t, "item")
		*list = append((*list)[:at:at], (*list)[at+1:]...)
	}
}

// entry changes an entry of a map, and creates the map if it is nil.
func entry(t *rapid.T, held *map[string]string) {
	changed := maps.Clone(*held)
	if changed == nil {
		changed = map[string]string{}
	}
	name := pick(t, owned.LabelApp, owned.LabelInstance, owned.LabelManagedBy, configAnnotation, keyHorse, keyPort, keyPeers, "theirs")
	if rapid.Bool().Draw(t, "delete") {
		delete(changed, name)
	} else {
		changed[name] = pick(t, "", "pegasus", owned.ManagedBy)
	}
	*held = changed
}

// changesOfMeta returns changes of the metadata, which all children have.
func changesOfMeta(t *rapid.T, seen *metav1.ObjectMeta) []func() {
	yes, no := true, false
	owner := func(change func(*metav1.OwnerReference)) func() {
		return func() {
			if len(seen.OwnerReferences) > 0 {
				change(&seen.OwnerReferences[0])
			}
		}
	}
	return []func(){
		func() { entry(t, &seen.Labels) },
		func() { seen.Annotations = map[string]string{"theirs": "x"} },
		func() { drop(t, &seen.OwnerReferences) },
		func() {
			seen.OwnerReferences = append(seen.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Theirs", Name: "x", UID: "x"})
		},
		owner(func(o *metav1.OwnerReference) { o.Name = "x" }),
		owner(func(o *metav1.OwnerReference) { o.Kind = "X" }),
		owner(func(o *metav1.OwnerReference) { o.APIVersion = "x/v1" }),
		owner(func(o *metav1.OwnerReference) { o.Controller = pick(t, nil, &no) }),
		owner(func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = pick(t, nil, &no, &yes) }),
	}
}

func TestTheSumOfAConfigMapTellsWhetherThereIsSomethingToRepair(t *testing.T) {
	often(t, func(t *rapid.T) {
		hero := drawHero(t)
		want, seen := desiredOf(hero).config, desiredOf(hero).config
		some(t, append(changesOfMeta(t, &seen.ObjectMeta),
			func() { entry(t, &seen.Data) },
			func() { seen.Data = nil },
			func() { seen.BinaryData = map[string][]byte{"theirs": nil} })...)
		same(t, want, seen, sumOfConfig, adjustConfig)
	})
}

func TestTheSumOfAServiceTellsWhetherThereIsSomethingToRepair(t *testing.T) {
	often(t, func(t *rapid.T) {
		hero := drawHero(t)
		want, seen := desiredOf(hero).service, desiredOf(hero).service
		spec := &seen.Spec
		port := func(change func(*corev1.ServicePort)) func() {
			return func() {
				if len(spec.Ports) > 0 {
					change(&spec.Ports[0])
				}
			}
		}
		theirs := corev1.ServicePort{Name: "theirs", Port: 7000, Protocol: corev1.ProtocolTCP}
		some(t, append(changesOfMeta(t, &seen.ObjectMeta),
			func() { spec.PublishNotReadyAddresses = false },
			func() { spec.SessionAffinity = corev1.ServiceAffinityClientIP },
			func() { entry(t, &spec.Selector) },
			func() { spec.Selector = nil },
			func() { drop(t, &spec.Ports) },
			func() { spec.Ports = append(spec.Ports, theirs) },
			func() { spec.Ports = append([]corev1.ServicePort{theirs}, spec.Ports...) },
			port(func(p *corev1.ServicePort) { p.Name = pick(t, "", "x", portName) }),
			port(func(p *corev1.ServicePort) { p.Port = pick[int32](t, 80, httpPort) }),
			port(func(p *corev1.ServicePort) { p.Protocol = corev1.ProtocolUDP }),
			port(func(p *corev1.ServicePort) { p.TargetPort = pick(t, intstr.FromInt32(8080), intstr.FromString("x")) }),
			port(func(p *corev1.ServicePort) { p.NodePort = 30000 }))...)
		same(t, want, seen, sumOfService, adjustService)
	})
}

func TestTheSumOfAStatefulSetTellsWhetherThereIsSomethingToRepair(t *testing.T) {
	yes, no, root := true, false, int64(0)
	often(t, func(t *rapid.T) {
		hero := drawHero(t)
		want, seen := desiredOf(hero).servers, desiredOf(hero).servers
		template := &seen.Spec.Template
		pods := &template.Spec
		security := func(change func(*corev1.PodSecurityContext)) func() {
			return func() {
				if pods.SecurityContext != nil {
					change(pods.SecurityContext)
				}
			}
		}
		container := func(change func(*corev1.Container)) func() {
			return func() {
				if len(pods.Containers) > 0 {
					change(&pods.Containers[0])
				}
			}
		}
		confined := func(change func(*corev1.SecurityContext)) func() {
			return container(func(c *corev1.Container) {
				if c.SecurityContext != nil {
					change(c.SecurityContext)
				}
			})
		}
		volume := func(change func(*corev1.Volume)) func() {
			return func() {
				if len(pods.Volumes) > 0 {
					change(&pods.Volumes[rapid.IntRange(0, len(pods.Volumes)-1).Draw(t, "volume")])
				}
			}
		}
		mount := func(change func(*corev1.VolumeMount)) func() {
			return container(func(c *corev1.Container) {
				if len(c.VolumeMounts) > 0 {
					change(&c.VolumeMounts[rapid.IntRange(0, len(c.VolumeMounts)-1).Draw(t, "mount")])
				}
			})
		}
		some(t, append(changesOfMeta(t, &seen.ObjectMeta),
			func() { seen.Spec.Replicas = pick(t, nil, new(int32)) },
			func() { seen.Spec.MinReadySeconds = 5 },
			func() { entry(t, &template.Labels) },
			func() { entry(t, &template.Annotations) },
			func() { template.Annotations = nil },
			func() { pods.AutomountServiceAccountToken = pick(t, nil, &yes) },
			func() { pods.RestartPolicy = corev1.RestartPolicyAlways },
			func() { pods.SecurityContext = pick(t, nil, &corev1.PodSecurityContext{}) },
			security(func(s *corev1.PodSecurityContext) { s.RunAsNonRoot = pick(t, nil, &no) }),
			security(func(s *corev1.PodSecurityContext) { s.RunAsUser = pick(t, nil, &root) }),
			security(func(s *corev1.PodSecurityContext) { s.RunAsGroup = pick(t, nil, &root) }),
			security(func(s *corev1.PodSecurityContext) { s.FSGroup = pick(t, nil, &root) }),
			security(func(s *corev1.PodSecurityContext) { s.SupplementalGroups = []int64{1} }),
			security(func(s *corev1.PodSecurityContext) {
				s.SeccompProfile = pick(t, nil, &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined})
			}),
			func() { drop(t, &pods.Containers) },
			func() { pods.Containers = append(pods.Containers, corev1.Container{Name: "theirs"}) },
			func() { pods.Containers = append([]corev1.Container{{Name: "theirs"}}, pods.Containers...) },
			container(func(c *corev1.Container) { c.Name = "x" }),
			container(func(c *corev1.Container) { c.Image = pick(t, "a", "c") }),
			container(func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullAlways }),
			container(func(c *corev1.Container) { c.SecurityContext = pick(t, nil, &corev1.SecurityContext{}) }),
			confined(func(s *corev1.SecurityContext) { s.AllowPrivilegeEscalation = pick(t, nil, &yes) }),
			confined(func(s *corev1.SecurityContext) { s.ReadOnlyRootFilesystem = pick(t, nil, &no) }),
			confined(func(s *corev1.SecurityContext) { s.RunAsUser = &root }),
			confined(func(s *corev1.SecurityContext) {
				s.Capabilities = pick(t, nil, &corev1.Capabilities{}, &corev1.Capabilities{Add: []corev1.Capability{"ALL"}, Drop: []corev1.Capability{"ALL"}},
					&corev1.Capabilities{Add: []corev1.Capability{"ALL"}})
			}),
			container(func(c *corev1.Container) { drop(t, &c.Ports) }),
			container(func(c *corev1.Container) {
				if len(c.Ports) > 0 {
					c.Ports[0] = corev1.ContainerPort{Name: pick(t, portName, "x"), ContainerPort: pick[int32](t, 80, httpPort), Protocol: pick(t, corev1.ProtocolTCP, corev1.ProtocolUDP), HostPort: 1}
				}
			}),
			container(func(c *corev1.Container) { drop(t, &c.VolumeMounts) }),
			mount(func(m *corev1.VolumeMount) { m.MountPath = "/x" }),
			mount(func(m *corev1.VolumeMount) { m.Name = "x" }),
			mount(func(m *corev1.VolumeMount) { m.ReadOnly = !m.ReadOnly }),
			mount(func(m *corev1.VolumeMount) { m.SubPath = "x" }),
			func() { drop(t, &pods.Volumes) },
			volume(func(v *corev1.Volume) { v.Name = "x" }),
			volume(func(v *corev1.Volume) { v.VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}} }),
			volume(func(v *corev1.Volume) {
				v.VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}}
			}),
			volume(func(v *corev1.Volume) {
				v.VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: pick(t, "x", "pegasus")}}}
			}))...)
		same(t, want, seen, sumOfServers, adjustServers)
	})
}

func TestSumsTellWhatTwoObjectsWantApart(t *testing.T) {
	often(t, func(t *rapid.T) {
		one, other := drawHero(t), drawHero(t)
		apart := func(of func(desired) owned.Sum) bool { return of(desiredOf(one)) != of(desiredOf(other)) }
		owners := one.UID != other.UID
		horses := one.Spec.WingedHorseName != other.Spec.WingedHorseName
		servers := one.Spec.Image != other.Spec.Image || *one.Spec.Replicas != *other.Spec.Replicas
		if apart(func(d desired) owned.Sum { return sumOfConfig(d.config) }) != (owners || horses) ||
			apart(func(d desired) owned.Sum { return sumOfService(d.service) }) != owners ||
			apart(func(d desired) owned.Sum { return sumOfServers(d.servers) }) != (owners || horses || servers) {
			t.Fatalf("of %+v and %+v", one, other)
		}
	})
}
