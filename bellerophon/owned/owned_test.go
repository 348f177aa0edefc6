package owned

import (
	"slices"
	"testing"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/history"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func labelled(app, instance string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: "pegasus", Labels: map[string]string{LabelApp: app, LabelInstance: instance, LabelManagedBy: ManagedBy}}
}

func TestTheLabelOfAChildSelectsTheFieldsOfItsController(t *testing.T) {
	kinds := KindsOf(
		Fields{App: "one", ConfigMap: func(*corev1.ConfigMap) Sum { return 1 }, StatefulSet: func(*appsv1.StatefulSet) Sum { return 11 }},
		Fields{App: "two", ConfigMap: func(*corev1.ConfigMap) Sum { return 2 }, Service: func(*corev1.Service) Sum { return 22 }},
	)
	for app, want := range map[string][3]Sum{"one": {1, 0, 11}, "two": {2, 22, 0}, "theirs": {}, "": {}} {
		meta := labelled(app, "pegasus")
		config, service, servers := kinds.configMap(&corev1.ConfigMap{ObjectMeta: meta}), kinds.service(&corev1.Service{ObjectMeta: meta}), kinds.statefulSet(&appsv1.StatefulSet{ObjectMeta: meta})
		if got := [3]Sum{config.Sum(), service.Sum(), servers.Sum()}; got != want {
			t.Errorf("the sums of children of %q are %v, want %v", app, got, want)
		}
		for _, other := range []string{"one", "two"} {
			for _, child := range []interface{ IsLabelled(string) bool }{config, service, servers} {
				if child.IsLabelled(other) != (app == other) {
					t.Errorf("a %T of %q has the labels of %q: %t", child, app, other, child.IsLabelled(other))
				}
			}
		}
	}
	if kinds.configMap(&corev1.ConfigMap{ObjectMeta: labelled("one", "arion")}).IsLabelled("one") {
		t.Error("a child with the label of another instance counts as labelled")
	}
}

// The history finds a fight over fields that both sides change, and compares the JSON of what the cache keeps.
func TestAChangeOfTheOwnedFieldsIsInTheJSONOfAProjection(t *testing.T) {
	sum := Sum(1)
	kinds := KindsOf(Fields{
		App: "one", ConfigMap: func(*corev1.ConfigMap) Sum { return sum }, Service: func(*corev1.Service) Sum { return sum },
		StatefulSet: func(*appsv1.StatefulSet) Sum { return sum },
	})
	meta := labelled("one", "pegasus")
	kept := func() []any {
		return []any{kinds.configMap(&corev1.ConfigMap{ObjectMeta: meta}), kinds.service(&corev1.Service{ObjectMeta: meta}), kinds.statefulSet(&appsv1.StatefulSet{ObjectMeta: meta})}
	}
	before, same := kept(), kept()
	sum = 2
	for i, after := range kept() {
		if fields, err := history.Fields(before[i], same[i]); err != nil || len(fields) > 0 {
			t.Errorf("of a %T that is the same, %v differ: %v", after, fields, err)
		}
		if fields, err := history.Fields(before[i], after); err != nil || !slices.Equal(fields, []string{"ownedFields"}) {
			t.Errorf("of a %T, %v differ: %v", after, fields, err)
		}
	}
}

func TestAPodConcernsTheOwnerOfItsAppOnly(t *testing.T) {
	pod := keepPod(&corev1.Pod{ObjectMeta: labelled("one", "pegasus")}, Fields{})
	pod.Namespace = "default"
	if got, want := ownerOfPod(pod, "one"), []types.NamespacedName{{Namespace: "default", Name: "pegasus"}}; !slices.Equal(got, want) {
		t.Errorf("the owner is %v, want %v", got, want)
	}
	if got := ownerOfPod(pod, "two"); got != nil {
		t.Errorf("for another app the owner is %v", got)
	}
	if got := ownerOfPod(keepPod(&corev1.Pod{}, Fields{}), "one"); got != nil {
		t.Errorf("a pod without labels has the owner %v", got)
	}
}

func TestAProjectionTakesAFourthAtMostAndKeepsTheDeletion(t *testing.T) {
	yes, user, replicas := true, int64(65532), int32(3)
	whole := &appsv1.StatefulSet{ObjectMeta: labelled("one", "pegasus"), Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, ServiceName: "pegasus", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{LabelApp: "one", LabelInstance: "pegasus"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: labelled("one", "pegasus"), Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user},
			Containers:      []corev1.Container{{Name: "server", Image: "bellerophon-io/bellerophon-server:v1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}},
			Volumes:         []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		}},
	}}
	whole.DeletionTimestamp = &metav1.Time{}
	kept := KindsOf().statefulSet(whole)
	if kept.DeletionTimestamp == nil || kept.DeletionTimestamp == whole.DeletionTimestamp {
		t.Error("the projection must have the deletion timestamp, and must not share memory with the whole")
	}
	kept.Namespace, kept.Name, kept.UID, kept.OwnerReferences = whole.Namespace, whole.Name, whole.UID, whole.OwnerReferences
	if is, was := cache.SizeOf(kept), cache.SizeOf(whole); is > was/4 {
		t.Errorf("the projection takes %d bytes, and the whole %d; want at most a quarter", is, was)
	}
}
