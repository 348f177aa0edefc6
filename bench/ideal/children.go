package ideal

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const nonRoot = 65532 // the user and group of the servers

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func contentOf(list runtime.Object) (version string, items []runtime.Object, err error) {
	access, err := meta.ListAccessor(list)
	if err != nil {
		return "", nil, err
	}
	items, err = meta.ExtractList(list)
	return access.GetResourceVersion(), items, err
}

// childrenOf returns the children of an object.
func childrenOf(hero *v1.BellerophonSimple) (*corev1.ConfigMap, *corev1.Service, *appsv1.StatefulSet) {
	selects := map[string]string{"app.kubernetes.io/name": "bellerophon-simple", "app.kubernetes.io/instance": hero.Name}
	labels := map[string]string{
		"app.kubernetes.io/name": "bellerophon-simple", "app.kubernetes.io/instance": hero.Name, "app.kubernetes.io/managed-by": "bellerophon",
	}
	object := metav1.ObjectMeta{
		Name: hero.Name, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(hero, v1.GroupVersion.WithKind(v1.Kind))},
	}
	config := &corev1.ConfigMap{ObjectMeta: object, Data: map[string]string{
		"winged_horse_name": hero.Spec.WingedHorseName, "http_port": "8080", "peers_service": hero.Name,
	}}
	hash := sha256.Sum256([]byte("http_port\x008080\x00peers_service\x00" + hero.Name + "\x00winged_horse_name\x00" + hero.Spec.WingedHorseName + "\x00"))
	service := &corev1.Service{ObjectMeta: object, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Selector: selects, PublishNotReadyAddresses: true,
		Ports: []corev1.ServicePort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http")}},
	}}
	servers := &appsv1.StatefulSet{ObjectMeta: object, Spec: appsv1.StatefulSetSpec{
		Replicas: hero.Spec.Replicas, ServiceName: hero.Name, PodManagementPolicy: appsv1.ParallelPodManagement,
		Selector: &metav1.LabelSelector{MatchLabels: selects},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
				"stable.simple-bellerophon.io/config": hex.EncodeToString(hash[:8]),
			}},
			Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(false),
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot: new(true), RunAsUser: new(int64(nonRoot)), RunAsGroup: new(int64(nonRoot)), FSGroup: new(int64(nonRoot)),
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				Containers: []corev1.Container{{
					Name: "server", Image: hero.Spec.Image,
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
					SecurityContext: &corev1.SecurityContext{
						AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
						Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					},
					VolumeMounts: []corev1.VolumeMount{
						{Name: "config", MountPath: "/etc/bellerophon", ReadOnly: true}, {Name: "tmp", MountPath: "/tmp"},
					},
				}},
				Volumes: []corev1.Volume{
					{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: hero.Name},
					}}},
					{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				},
			},
		},
	}}
	return config, service, servers
}

func isFinished(servers *appsv1.StatefulSet, want int32) bool {
	status := &servers.Status
	return status.ObservedGeneration >= servers.Generation && status.Replicas == want && status.ReadyReplicas == want &&
		status.UpdatedReplicas == want && (want == 0 || status.CurrentRevision == status.UpdateRevision)
}

// finishedStatus returns the status of an object whose servers are finished.
func finishedStatus(hero *v1.BellerophonSimple, now time.Time) v1.BellerophonSimpleStatus {
	reason := v1.ReasonAllReplicasReady
	if *hero.Spec.Replicas == 0 {
		reason = v1.ReasonScaledToZero
	}
	status := statusOf(hero, now, metav1.ConditionTrue, metav1.ConditionFalse, reason, reason)
	status.Replicas, status.ReadyReplicas = *hero.Spec.Replicas, *hero.Spec.Replicas
	return status
}

// progressingStatus returns the status of an object whose servers are not finished. It counts no
// servers, because the next status does.
func progressingStatus(hero *v1.BellerophonSimple, now time.Time) v1.BellerophonSimpleStatus {
	return statusOf(hero, now, metav1.ConditionFalse, metav1.ConditionTrue, v1.ReasonReplicasNotReady, v1.ReasonRollingOut)
}

func statusOf(hero *v1.BellerophonSimple, now time.Time, ready, progressing metav1.ConditionStatus, why, how string) v1.BellerophonSimpleStatus {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, ObservedGeneration: hero.Generation, LastTransitionTime: metav1.NewTime(now)}
	}
	return v1.BellerophonSimpleStatus{
		ObservedGeneration: hero.Generation,
		Selector:           "app.kubernetes.io/instance=" + hero.Name + ",app.kubernetes.io/name=bellerophon-simple",
		Conditions: []metav1.Condition{
			condition(v1.ConditionReady, ready, why),
			condition(v1.ConditionProgressing, progressing, how),
			condition(v1.ConditionDegraded, metav1.ConditionFalse, how),
		},
	}
}
