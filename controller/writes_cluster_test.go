package controller_test

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// Only a real API server applies strategic merge patches. The fake one refuses them.
func TestAMergeOfAPartTakesNothingAway(t *testing.T) {
	config, namespace := clustertest.Shared(t).AdminConfig(), clustertest.Namespace(t)
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{Namespaces: []string{namespace}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.Add("roles", nothing, controller.For(&rbacv1.Role{}), controller.Owns(&appsv1.Deployment{})); err != nil {
		t.Fatal(err)
	}
	c, named := manager.Client(), metav1.ObjectMeta{Namespace: namespace, Name: "pegasus"}
	labelled := named
	labelled.Labels = map[string]string{"app": "red"}

	rules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	if _, err := controller.Create(t.Context(), c, &rbacv1.Role{ObjectMeta: named, Rules: rules}); err != nil {
		t.Fatal(err)
	}
	role, err := controller.Patch(t.Context(), c, &rbacv1.Role{ObjectMeta: labelled}, controller.StrategicMerge())
	if err != nil || role.Labels["app"] != "red" || !reflect.DeepEqual(role.Rules, rules) {
		t.Errorf("the role has the labels %v and the rules %v: %v", role.Labels, role.Rules, err)
	}

	selected := map[string]string{"app": "red"}
	whole := &appsv1.Deployment{ObjectMeta: named, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: selected},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selected}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "server", Image: "example.invalid/server:v1", Env: []corev1.EnvVar{{Name: "HORSE", Value: "pegasus"}},
		}}}},
	}}
	if _, err := controller.Create(t.Context(), c, whole); err != nil {
		t.Fatal(err)
	}
	part := &appsv1.Deployment{ObjectMeta: named, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "server", Image: "example.invalid/server:v2"}}}},
	}}
	merged, err := controller.Patch(t.Context(), c, part, controller.StrategicMerge())
	if err != nil {
		t.Fatal(err)
	}
	container := merged.Spec.Template.Spec.Containers[0]
	if *merged.Spec.Replicas != 0 || !reflect.DeepEqual(merged.Spec.Selector.MatchLabels, selected) || container.Image != "example.invalid/server:v2" || len(container.Env) != 1 {
		t.Errorf("the deployment has %d replicas, the selector %v and the container %+v", *merged.Spec.Replicas, merged.Spec.Selector, container)
	}
}
