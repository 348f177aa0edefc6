package main

import (
	"fmt"
	"strings"
	"time"

	simplev1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const namespace = "default"

// metadata returns the metadata of an object, with about as many fields as the API server adds to
// a real object.
func metadata(name, version, manager string) metav1.ObjectMeta {
	created := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	fields := strings.Repeat(`"f:field":{"f:value":{},"f:other":{}},`, 12)
	return metav1.ObjectMeta{
		Name: name, Namespace: namespace, UID: uidOf(name),
		ResourceVersion: version, Generation: 3, CreationTimestamp: created,
		Labels: map[string]string{
			"app.kubernetes.io/name": "bellerophon-simple", "app.kubernetes.io/instance": name,
			"app.kubernetes.io/managed-by": "bellerophon",
		},
		Annotations: map[string]string{"example.com/description": "a hero of " + name + " that tames a winged horse"},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "kubectl-create", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &created,
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{` + fields + `".":{}}}`)},
			{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &created, Subresource: "status",
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{` + fields + `".":{}}}`)},
		},
	}
}

// shero returns the custom resource of a name.
func shero(name, version string) streams.Object {
	replicas := int32(7)
	object := &simplev1.BellerophonSimple{
		ObjectMeta: metadata(name, version, "bellerophon"),
		Spec: simplev1.BellerophonSimpleSpec{
			WingedHorseName: "pegasus-of-" + name, Image: "registry.example.com/bellerophon/server:v1.2.3", Replicas: &replicas,
		},
		Status: simplev1.BellerophonSimpleStatus{
			ObservedGeneration: 3, Replicas: 7, ReadyReplicas: 7, Selector: "app.kubernetes.io/instance=" + name,
		},
	}
	for _, condition := range []string{"Ready", "Progressing", "Degraded"} {
		object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, ObservedGeneration: 3, LastTransitionTime: object.CreationTimestamp,
			Reason: "AsWanted", Message: "7 of 7 servers of " + name + " are ready",
		})
	}
	return object
}

// servers returns the StatefulSet that the custom resource of the same name owns.
func servers(name, version string) streams.Object {
	replicas, yes := int32(7), true
	labels := map[string]string{"app.kubernetes.io/name": "bellerophon-simple", "app.kubernetes.io/instance": name}
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 5, FailureThreshold: 3, TimeoutSeconds: 1, SuccessThreshold: 1,
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http"), Scheme: "HTTP"}}}
	}
	object := &appsv1.StatefulSet{
		ObjectMeta: metadata(name, version, "kube-controller-manager"),
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, Selector: &metav1.LabelSelector{MatchLabels: labels},
			PodManagementPolicy: appsv1.ParallelPodManagement, UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: "RollingUpdate"},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"example.com/config": "sha256-" + name}},
				Spec: corev1.PodSpec{
					RestartPolicy: "Always", DNSPolicy: "ClusterFirst", SchedulerName: "default-scheduler",
					SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes},
					Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}},
				},
			},
		},
		Status: appsv1.StatefulSetStatus{
			ObservedGeneration: 3, Replicas: 7, ReadyReplicas: 7, CurrentReplicas: 7, UpdatedReplicas: 7, AvailableReplicas: 7,
			CurrentRevision: name + "-6d5f7c8b9d", UpdateRevision: name + "-6d5f7c8b9d",
		},
	}
	object.OwnerReferences = ownedBy(name)
	for _, container := range []string{"server", "sidecar"} {
		object.Spec.Template.Spec.Containers = append(object.Spec.Template.Spec.Containers, corev1.Container{
			Name: container, Image: "registry.example.com/bellerophon/" + container + ":v1.2.3", ImagePullPolicy: "IfNotPresent",
			Args:  []string{"--listen=:8080", "--config=/etc/bellerophon/config.yaml", "--name=" + name},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
			Env: []corev1.EnvVar{{Name: "HORSE", Value: "pegasus-of-" + name},
				{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/bellerophon", ReadOnly: true}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("50m"), "memory": resource.MustParse("64Mi")},
				Limits:   corev1.ResourceList{"memory": resource.MustParse("128Mi")},
			},
			LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/readyz"), TerminationMessagePath: "/dev/termination-log",
		})
	}
	return object
}

func uidOf(name string) types.UID { return types.UID("0f6a1c3e-7a58-4d0b-9d3f-" + name) }

// ownedBy returns the owner reference to the custom resource that controls an object.
func ownedBy(name string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{
		APIVersion: simplev1.GroupVersion.String(), Kind: sheroKind, Name: name, UID: uidOf(name), Controller: &yes, BlockOwnerDeletion: &yes,
	}}
}

// stripped drops the managed fields, as both sides do by default in this comparison.
func stripped(object streams.Object) { object.SetManagedFields(nil) }

// projected keeps the fields that a reconciler reads. It can empty fields but cannot change the
// type, so the size of the Go struct remains.
func projected(object streams.Object) {
	kept := metav1.ObjectMeta{
		Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), Generation: object.GetGeneration(),
		DeletionTimestamp: object.GetDeletionTimestamp(), Finalizers: object.GetFinalizers(), OwnerReferences: object.GetOwnerReferences(),
	}
	switch whole := object.(type) {
	case *simplev1.BellerophonSimple:
		status := simplev1.BellerophonSimpleStatus{ObservedGeneration: whole.Status.ObservedGeneration, ReadyReplicas: whole.Status.ReadyReplicas}
		*whole = simplev1.BellerophonSimple{ObjectMeta: kept, Spec: whole.Spec, Status: status}
	case *appsv1.StatefulSet:
		status := appsv1.StatefulSetStatus{ObservedGeneration: whole.Status.ObservedGeneration, ReadyReplicas: whole.Status.ReadyReplicas}
		*whole = appsv1.StatefulSet{ObjectMeta: kept, Spec: appsv1.StatefulSetSpec{Replicas: whole.Spec.Replicas}, Status: status}
	default:
		panic(fmt.Sprintf("project a %T: no projection is defined", object))
	}
}

// shallow copies an object, but not the values that it points to. An update replaces only the
// object.
func shallow(object streams.Object) streams.Object {
	switch whole := object.(type) {
	case *simplev1.BellerophonSimple:
		copied := *whole
		return &copied
	case *appsv1.StatefulSet:
		copied := *whole
		return &copied
	default:
		panic(fmt.Sprintf("copy a %T: no copy is defined", object))
	}
}
