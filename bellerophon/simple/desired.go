package simple

import (
	"strconv"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// appName is the label of the children and pods of all objects: see [owned.LabelApp].
const appName = "bellerophon-simple"

// configAnnotation holds a hash of the settings. A change of the settings changes the pod template
// with it, which rolls the pods.
const configAnnotation = "stable.simple-bellerophon.io/config"

const (
	containerName = "server"
	portName      = "http"
	httpPort      = 8080
	volumeConfig  = "config"
	configPath    = "/etc/bellerophon"
	volumeTmp     = "tmp"
	tmpPath       = "/tmp"
	// nonroot is the user of that name in distroless images.
	nonroot = 65532
)

// The settings in the ConfigMap.
const (
	keyHorse = "winged_horse_name"
	keyPort  = "http_port"
	keyPeers = "peers_service"
)

// desired is the desired state of an object's children. It holds only the fields that the operator
// owns.
type desired struct {
	config  *corev1.ConfigMap
	service *corev1.Service
	servers *appsv1.StatefulSet
}

// labelsOf returns the labels of an object's children. The first two select its pods.
func labelsOf(hero *v1.BellerophonSimple) map[string]string {
	return map[string]string{owned.LabelApp: appName, owned.LabelInstance: hero.Name, owned.LabelManagedBy: owned.ManagedBy}
}

func selectorOf(hero *v1.BellerophonSimple) map[string]string {
	return map[string]string{owned.LabelApp: appName, owned.LabelInstance: hero.Name}
}

func metaOf(hero *v1.BellerophonSimple) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:            hero.Name,
		Namespace:       hero.Namespace,
		Labels:          labelsOf(hero),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(hero, v1.GroupVersion.WithKind("BellerophonSimple"))},
	}
}

// desiredOf returns the desired state of an object's children.
func desiredOf(hero *v1.BellerophonSimple) desired {
	config := &corev1.ConfigMap{
		ObjectMeta: metaOf(hero),
		Data: map[string]string{
			keyHorse: hero.Spec.WingedHorseName,
			keyPort:  strconv.Itoa(httpPort),
			keyPeers: hero.Name,
		},
	}
	return desired{config: config, service: serviceOf(hero), servers: serversOf(hero, owned.ConfigHash(config))}
}

// serviceOf returns the headless Service of an object, which gives each server a DNS name.
func serviceOf(hero *v1.BellerophonSimple) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metaOf(hero),
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			Selector:                 selectorOf(hero),
			PublishNotReadyAddresses: true, // Servers find each other before they are ready.
			Ports: []corev1.ServicePort{{
				Name: portName, Port: httpPort, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString(portName),
			}},
		},
	}
}

func serversOf(hero *v1.BellerophonSimple, config string) *appsv1.StatefulSet {
	yes, no, user, replicas := true, false, int64(nonroot), replicasOf(hero)
	return &appsv1.StatefulSet{
		ObjectMeta: metaOf(hero),
		Spec: appsv1.StatefulSetSpec{
			Replicas:    &replicas,
			ServiceName: hero.Name,
			// With OrderedReady, one server that cannot start would block the repair of the others.
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:            &metav1.LabelSelector{MatchLabels: selectorOf(hero)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      labelsOf(hero),
					Annotations: map[string]string{configAnnotation: config},
				},
				Spec: corev1.PodSpec{
					AutomountServiceAccountToken: &no,
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot:   &yes,
						RunAsUser:      &user,
						RunAsGroup:     &user,
						FSGroup:        &user,
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{{
						Name:  containerName,
						Image: hero.Spec.Image,
						// The API server sets the default at the creation only. After a change of the image it
						// would be the one of the first image.
						ImagePullPolicy: owned.PullPolicy(hero.Spec.Image),
						Ports:           []corev1.ContainerPort{{Name: portName, ContainerPort: httpPort, Protocol: corev1.ProtocolTCP}},
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: &no,
							ReadOnlyRootFilesystem:   &yes,
							Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
						VolumeMounts: []corev1.VolumeMount{
							{Name: volumeConfig, MountPath: configPath, ReadOnly: true},
							{Name: volumeTmp, MountPath: tmpPath},
						},
					}},
					Volumes: []corev1.Volume{
						{Name: volumeConfig, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
							LocalObjectReference: corev1.LocalObjectReference{Name: hero.Name},
						}}},
						{Name: volumeTmp, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
					},
				},
			},
		},
	}
}

// replicasOf returns the desired number of servers. The API server sets the default 1.
func replicasOf(hero *v1.BellerophonSimple) int32 {
	if hero.Spec.Replicas == nil {
		return 1
	}
	return *hero.Spec.Replicas
}
