package sources_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// servers returns a StatefulSet as operators create it and the API server completes it.
func servers(i int) *appsv1.StatefulSet {
	name := fmt.Sprintf("pegasus-%04d", i)
	labels := map[string]string{"app.kubernetes.io/name": "pegasus", "app.kubernetes.io/instance": name, "app.kubernetes.io/managed-by": "bellerophon"}
	yes, replicas, seconds, history := true, int32(3), int64(30), int32(10)
	probe := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(8080), Scheme: "HTTP"}},
		PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
	}
	limits := corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("128Mi")}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(fmt.Sprintf("6f1b2c3d-0000-4000-8000-%012d", i)), ResourceVersion: fmt.Sprint(100_000 + i),
			Generation: 1, CreationTimestamp: metav1.Now(), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "example.org/v1", Kind: "Hero", Name: name, UID: types.UID(fmt.Sprintf("7f1b2c3d-0000-4000-8000-%012d", i)), Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, PodManagementPolicy: "Parallel", RevisionHistoryLimit: &history,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "server", Image: "registry.example.org/pegasus/server:1.2.3", ImagePullPolicy: "IfNotPresent",
						Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
						Env:            []corev1.EnvVar{{Name: "HORSE", Value: name}, {Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}},
						Resources:      corev1.ResourceRequirements{Limits: limits, Requests: limits},
						ReadinessProbe: probe, LivenessProbe: probe,
						VolumeMounts:           []corev1.VolumeMount{{Name: "config", MountPath: "/etc/pegasus"}},
						TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
					}},
					Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}},
					RestartPolicy: "Always", DNSPolicy: "ClusterFirst", SchedulerName: "default-scheduler", TerminationGracePeriodSeconds: &seconds,
					SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes},
				},
			},
		},
		Status: appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 3, ReadyReplicas: 3, CurrentRevision: name + "-6d5f", UpdateRevision: name + "-6d5f", AvailableReplicas: 3},
	}
}

// ready has the fields of a StatefulSet that an operator may read, computed from the whole object.
type ready struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	replicas, ready int32
}

func (r *ready) DeepCopyObject() apiruntime.Object { copied := *r; return &copied }

// readyJSON has the same fields, under the names of the API.
type readyJSON struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Replicas      int32 `json:"replicas"`
		ReadyReplicas int32 `json:"readyReplicas"`
	} `json:"status"`
}

func (r *readyJSON) DeepCopyObject() apiruntime.Object { copied := *r; return &copied }

// BenchmarkHeapOfAStatefulSet measures the heap that one StatefulSet takes in each form, as the
// cache keeps it, without the managed fields. It also measures the time to decode the object and to
// convert it.
func BenchmarkHeapOfAStatefulSet(b *testing.B) {
	readyOf := func(whole *appsv1.StatefulSet) *ready {
		return &ready{replicas: whole.Status.Replicas, ready: whole.Status.ReadyReplicas}
	}
	onlyMetadata := func(object streams.Object) {
		whole := object.(*appsv1.StatefulSet)
		whole.Spec, whole.Status = appsv1.StatefulSetSpec{}, appsv1.StatefulSetStatus{}
	}
	for _, form := range []struct {
		name   string
		kind   sources.Kind
		encode func(i int) []byte
		keep   func(streams.Object)
	}{
		{"whole", kindOf(b, &appsv1.StatefulSet{}), protobufOf, nil},
		{"whole with metadata only", kindOf(b, &appsv1.StatefulSet{}), protobufOf, onlyMetadata},
		{"Metadata", kindOf(b, &sources.Metadata[appsv1.StatefulSet]{}), metadataOf, nil},
		{"Project", kindOf(b, &ready{}, sources.Project(readyOf)), protobufOf, nil},
		{"OfKind", kindOf(b, &readyJSON{}, sources.OfKind(appsv1.SchemeGroupVersion.WithKind("StatefulSet"))), jsonOf, nil},
	} {
		b.Run(form.name, func(b *testing.B) {
			const objects = 2000
			wire := make([][]byte, objects)
			for i := range wire {
				wire[i] = form.encode(i)
			}
			kept := make([]streams.Object, objects)
			before := heap()
			for round := 0; b.Loop(); round++ {
				object := form.kind.New()
				if err := decode(wire[round%objects], object); err != nil {
					b.Fatal(err)
				}
				made, err := sources.AsWatched(form.kind, sources.WatchOptions{Transform: form.keep}, object)
				if err != nil {
					b.Fatal(err)
				}
				kept[round%objects] = made
			}
			held := min(b.N, objects)
			b.ReportMetric(float64(heap()-before)/float64(held), "heap-B/object")
			runtime.KeepAlive(kept)
			runtime.KeepAlive(wire)
		})
	}
}

// heap returns the bytes of the heap in use.
func heap() uint64 {
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return now.HeapAlloc
}

func decode(wire []byte, into streams.Object) error {
	if message, is := into.(interface{ Unmarshal([]byte) error }); is {
		return message.Unmarshal(wire)
	}
	return json.Unmarshal(wire, into)
}

func jsonOf(i int) []byte { return encoded(servers(i)) }

func protobufOf(i int) []byte { return marshalled(servers(i)) }

func metadataOf(i int) []byte {
	return marshalled(&metav1.PartialObjectMetadata{ObjectMeta: servers(i).ObjectMeta})
}

func marshalled(message interface{ Marshal() ([]byte, error) }) []byte {
	made, err := message.Marshal()
	if err != nil {
		panic(err)
	}
	return made
}
