package cache_test

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// text returns a string with memory of its own, as a decoder makes it.
func text(parts ...any) string { return strings.Clone(fmt.Sprint(parts...)) }

func texts(entries, i int) map[string]string {
	made := map[string]string{}
	for entry := range entries {
		made[text("example.org/key-", entry)] = text("value-", entry, "-", i)
	}
	return made
}

func metadata(i, labels int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: text("default"), Name: text("object-", i), ResourceVersion: text(i), Labels: texts(labels, i),
		CreationTimestamp: metav1.Now(),
	}
}

// sized makes objects of many shapes.
var sized = map[string]func(i int) streams.Object{
	"metadata": func(i int) streams.Object { return &metav1.PartialObjectMetadata{ObjectMeta: metadata(i, 3)} },
	"config map with one large value": func(i int) streams.Object {
		return &corev1.ConfigMap{ObjectMeta: metadata(i, 0), Data: map[string]string{text("key"): strings.Repeat("x", 5000+i)}}
	},
	"config map with many values": func(i int) streams.Object { return &corev1.ConfigMap{ObjectMeta: metadata(i, 10), Data: texts(100, i)} },
	"secret": func(i int) streams.Object {
		return &corev1.Secret{ObjectMeta: metadata(i, 1), Data: map[string][]byte{text("key"): []byte(text("secret-", i))}}
	},
	"pod": func(i int) streams.Object {
		made := &corev1.Pod{ObjectMeta: metadata(i, 5)}
		seconds, is := int64(30), true
		made.Spec.TerminationGracePeriodSeconds, made.Spec.EnableServiceLinks = &seconds, &is
		made.Spec.NodeName = text("worker-", i%10)
		for container := range 2 {
			made.Spec.Containers = append(made.Spec.Containers, corev1.Container{
				Name: text("container-", container), Image: text("registry.example.org/image:", i), Command: []string{text("/bin/server"), text("--port=8080")},
				Env:          []corev1.EnvVar{{Name: text("A"), Value: text("1")}, {Name: text("B"), ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: text("metadata.name")}}}},
				VolumeMounts: []corev1.VolumeMount{{Name: text("data"), MountPath: text("/data")}},
				Resources:    corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceName(text("cpu")): resource.MustParse("500m")}},
			})
		}
		made.Status = corev1.PodStatus{Phase: corev1.PodPhase(text("Running")), PodIP: text("10.0.0.", i%250), Conditions: make([]corev1.PodCondition, 4)}
		return made
	},
	"stateful set with little in it": func(i int) streams.Object { return &appsv1.StatefulSet{ObjectMeta: metadata(i, 3)} },
	"unstructured": func(i int) streams.Object {
		object := map[string]any{}
		encoded := fmt.Sprintf(`{"apiVersion":"v1","kind":"Hero","metadata":{"name":"a-%d","namespace":"b","labels":{"a":"b"}},
			"spec":{"wings":2,"weapons":[{"name":"spear","sharp":true},{"name":"bridle","sharp":false}],"horse":{"name":"pegasus"}}}`, i)
		if err := json.Unmarshal([]byte(encoded), &object); err != nil {
			panic(err)
		}
		return &unstructured.Unstructured{Object: object}
	},
}

func TestTheSizeOfAnObjectIsWhatTheHeapHolds(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return now.HeapAlloc
	}
	for name, made := range sized {
		const objects = 2000
		held := make([]streams.Object, objects)
		before := heap()
		for i := range held {
			held[i] = made(i)
		}
		measured := float64(heap()-before) / objects
		estimated := 0.0
		for _, object := range held {
			estimated += float64(cache.SizeOf(object)) / objects
		}
		t.Logf("%s: %.0f bytes, estimated %.0f: %+.0f %%", name, measured, estimated, 100*(estimated/measured-1))
		if math.Abs(estimated/measured-1) > 0.25 {
			t.Errorf("%s takes %.0f bytes and is estimated to take %.0f", name, measured, estimated)
		}
		runtime.KeepAlive(held)
	}
}

func TestWhatIsNothingHasNoSize(t *testing.T) {
	if size := cache.SizeOf((*corev1.Pod)(nil)); size != 0 {
		t.Errorf("no pod takes %d bytes", size)
	}
	if size := cache.SizeOf(nil); size != 0 {
		t.Errorf("nothing takes %d bytes", size)
	}
}

func BenchmarkSizeOf(b *testing.B) {
	for name, made := range sized {
		object := made(1)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				cache.SizeOf(object)
			}
		})
	}
}
