package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// addSubresources adds functions of several subresources.
func addSubresources(server *webhook.Server, options ...webhook.Option) error {
	of := func(special ...webhook.Option) []webhook.Option { return append(special, options...) }
	execOptions := corev1.SchemeGroupVersion.WithKind("PodExecOptions")
	return errors.Join(
		webhook.Validate(server, func(_ context.Context, request webhook.Request[*autoscalingv1.Scale]) error {
			if before, after := request.Old.Spec.Replicas, request.New.Spec.Replicas; after > 3 {
				return fmt.Errorf("%s may not be scaled from %d to %d", request.Name, before, after)
			}
			return nil
		}, of(webhook.Subresource(&appsv1.Deployment{}, "scale"))...),
		webhook.Default(server, func(_ context.Context, scale *autoscalingv1.Scale) error {
			scale.Spec.Replicas = max(scale.Spec.Replicas, 1)
			return nil
		}, of(webhook.Subresource(&appsv1.Deployment{}, "scale"))...),
		webhook.Validate(server, func(_ context.Context, request webhook.Request[*appsv1.Deployment]) error {
			if request.New.Status.ObservedGeneration > 90 {
				return errors.New("this generation is too high")
			}
			return nil
		}, of(webhook.Subresource(&appsv1.Deployment{}, "status"))...),
		webhook.Validate(server, func(_ context.Context, request webhook.Request[*corev1.Pod]) error {
			if len(request.Old.Spec.EphemeralContainers) == 0 && request.New.Spec.EphemeralContainers[0].Image == "evil" {
				return errors.New("this image is evil")
			}
			return nil
		}, of(webhook.Subresource(&corev1.Pod{}, "ephemeralcontainers"))...),
		webhook.Validate(server, func(_ context.Context, request webhook.Request[*policyv1.Eviction]) error {
			if request.Operation == admissionv1.Create && request.New.Name == "keeper" {
				return errors.New("the keeper stays")
			}
			return nil
		}, of(webhook.Subresource(&corev1.Pod{}, "eviction"))...),
		webhook.Validate(server, func(_ context.Context, request webhook.Request[*unstructured.Unstructured]) error {
			if command, _, _ := unstructured.NestedStringSlice(request.New.Object, "command"); command[0] == "rm" {
				return fmt.Errorf("rm is not executed in %s", request.Name)
			}
			return nil
		}, of(webhook.Subresource(&corev1.Pod{}, "exec"), webhook.OfKind(execOptions), webhook.On(admissionv1.Connect))...),
	)
}

func TestSubresourcesAreValidatedAndDefaultedOnARealAPIServer(t *testing.T) {
	w := newWorld(t)
	server := w.server("subresources-"+w.namespace, webhook.Certificates{})
	must(t, addSubresources(server, webhook.NamespaceSelector(metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.namespace}})))
	start(t, server)
	w.ready(server)
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "keeper"}},
		Spec:       corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.org/never"}}, Containers: []corev1.Container{{Name: "one", Image: "one"}}},
	}
	pods, deployments := w.core.CoreV1().Pods(w.namespace), w.core.AppsV1().Deployments(w.namespace)
	pod, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "keeper"}, Spec: template.Spec}, metav1.CreateOptions{})
	must(t, err)
	zero := int32(0)
	deployment, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "stable"},
		Spec:       appsv1.DeploymentSpec{Replicas: &zero, Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template},
	}, metav1.CreateOptions{})
	must(t, err)
	scale := func(replicas int32) (*autoscalingv1.Scale, error) {
		wanted := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "stable"}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
		return deployments.UpdateScale(w.Context(), "stable", wanted, metav1.UpdateOptions{DryRun: []string{"All"}})
	}
	denies := func(what, says string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want a denial with %q", what, err, says)
		}
	}
	w.until("the webhooks are in force", func() error {
		if _, err := scale(4); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a scale is not denied: %w", err)
		}
		_, err := scale(2)
		return err
	})
	_, err = scale(4)
	denies("a scale", "stable may not be scaled from 0 to 4", err)
	if scaled, err := scale(0); err != nil || scaled.Spec.Replicas != 1 {
		t.Errorf("a scale to 0 gives %v, %v", scaled, err)
	}
	deployment.ResourceVersion, pod.ResourceVersion = "", "" // Controllers write to both.
	deployment.Status.ObservedGeneration = 99
	_, err = deployments.UpdateStatus(t.Context(), deployment, metav1.UpdateOptions{})
	denies("a status", "this generation is too high", err)
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: "evil", TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullAlways,
	}}}
	_, err = pods.UpdateEphemeralContainers(t.Context(), "keeper", pod, metav1.UpdateOptions{})
	denies("an ephemeral container", "this image is evil", err)
	pod.Spec.EphemeralContainers[0].Image = "good"
	_, err = pods.UpdateEphemeralContainers(t.Context(), "keeper", pod, metav1.UpdateOptions{})
	must(t, err)
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "keeper"}}
	denies("an eviction", "the keeper stays", pods.EvictV1(t.Context(), eviction))
	execute := func(command string) error {
		return w.core.CoreV1().RESTClient().Post().Namespace(w.namespace).Resource("pods").Name("keeper").SubResource("exec").
			Param("command", command).Param("stdout", "true").Do(t.Context()).Error()
	}
	denies("a command", "rm is not executed in keeper", execute("rm"))
	if err := execute("ls"); err == nil || apierrors.IsForbidden(err) { // The pod does not run.
		t.Errorf("another command gives %v", err)
	}
	// The pod itself, and what is not a subresource with a function, are not asked about.
	_, err = pods.Patch(t.Context(), "keeper", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	must(t, err)
}

func TestSubresourcesHavePathsAndRulesOfTheirOwn(t *testing.T) {
	server := offline(t, &journal{})
	must(t, addSubresources(server))
	must(t, webhook.Validate(server, func(context.Context, webhook.Request[*corev1.Pod]) error { return nil }))
	body := review(admissionv1.Create, heroJSON("", ""), "")
	for path, wants := range map[string]string{
		"/validate/apps/v1/deployment/scale":        "this path is for autoscaling/v1, Kind=Scale",
		"/default/apps/v1/deployment/scale":         "this path is for autoscaling/v1, Kind=Scale",
		"/validate/core/v1/pod/ephemeralcontainers": "this path is for /v1, Kind=Pod",
		"/validate/core/v1/pod/exec":                "this path is for /v1, Kind=PodExecOptions",
		"/validate/core/v1/pod":                     "this path is for /v1, Kind=Pod",
	} {
		if answer := post(server.Handler(), path, body); answer.Code != 400 || !strings.Contains(answer.Body.String(), wants) {
			t.Errorf("%s answers %d %s", path, answer.Code, answer.Body)
		}
	}
	pod := strings.Replace(body, `"kind":{"group":"`+heroes+`","version":"v1","kind":"Hero"}`, `"kind":{"group":"","version":"v1","kind":"Pod"},"subResource":"status"`, 1)
	for _, path := range []string{"/validate/core/v1/pod", "/validate/core/v1/pod/ephemeralcontainers"} {
		if answer := post(server.Handler(), path, pod); answer.Code != 400 || !strings.Contains(answer.Body.String(), `for the subresource "status"`) {
			t.Errorf("%s answers %d %s to a request for another subresource", path, answer.Code, answer.Body)
		}
	}
	allow := func(context.Context, webhook.Request[*corev1.Pod]) error { return nil }
	for want, options := range map[string][]webhook.Option{
		"OfKind has /v1, Kind=; give": {webhook.Subresource(&corev1.Pod{}, "exec"), webhook.OfKind(schema.GroupVersionKind{Version: "v1"})},
		`Subresource is ""`:           {webhook.Subresource(&corev1.Pod{}, "")},
		`Subresource is "pods/exec"`:  {webhook.Subresource(&corev1.Pod{}, "pods/exec")},
		"Subresource: finding":        {webhook.Subresource(nil, "status")},
		"only subresources such":      {webhook.On(admissionv1.Connect)},
		"has a function already":      {webhook.Subresource(&corev1.Pod{}, "ephemeralcontainers")},
		"name its kind with OfKind":   {webhook.Subresource(&stranger{}, "status")},
		"calls no webhooks for this":  {webhook.Subresource(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "X"}}, "status")},
		"it names none; set its apiV": {webhook.Subresource(&unstructured.Unstructured{}, "status")},
	} {
		if err := webhook.Validate(server, allow, options...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}
