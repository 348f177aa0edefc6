package localcluster

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestAClusterMayRunSomeControllersOnly(t *testing.T) {
	cluster, err := Start(t.Context(), Options{Controllers: []string{"statefulset-controller"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "pegasus"}
	pods := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "pegasus"}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: pods}}
	if _, err := client.AppsV1().Deployments("default").Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	watched, err := client.AppsV1().StatefulSets("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "pegasus"}, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: pods, Replicas: new(int32)}}
	if _, err := client.AppsV1().StatefulSets("default").Create(ctx, set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for event := range watched.ResultChan() {
		if seen, is := event.Object.(*appsv1.StatefulSet); is && seen.Status.ObservedGeneration == seen.Generation {
			break
		}
	}
	if ctx.Err() != nil {
		t.Fatal("the StatefulSet is not observed")
	}
	if seen, err := client.AppsV1().Deployments("default").Get(ctx, "pegasus", metav1.GetOptions{}); err != nil || seen.Status.ObservedGeneration != 0 {
		t.Errorf("the Deployment is observed at generation %d, although its controller does not run; error: %v", seen.Status.ObservedGeneration, err)
	}
}
