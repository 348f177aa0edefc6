package dependents_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// A Secret with a generated password, a StatefulSet after it, and a Service while the owner asks for one.
func TestOnTheAPIServerAStatefulSetComesAfterItsSecretAndGarbageGoes(t *testing.T) {
	namespace := clustertest.Namespace(t)
	config := clustertest.Shared(t).AdminConfig()
	user, err := kubernetes.NewForConfig(config)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	var password *dependents.Children[*corev1.ConfigMap, *corev1.Secret]
	password = dependents.One("password", func(_ context.Context, owner *corev1.ConfigMap, view *dependents.View) (*corev1.Secret, error) {
		if known, exists := password.Get(view); exists {
			return known, nil
		}
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: owner.Name}, Data: map[string][]byte{"password": []byte(fmt.Sprint(time.Now().UnixNano()))}}, nil
	}).Ready(func(_ context.Context, secret *corev1.Secret) (dependents.Readiness, error) {
		return dependents.Readiness{Ready: secret.Annotations["approved"] == "yes", Message: "it is not approved"}, nil
	})
	labels := map[string]string{"app": "hero"}
	servers := dependents.One("servers", func(_ context.Context, owner *corev1.ConfigMap, _ *dependents.View) (*appsv1.StatefulSet, error) {
		return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: owner.Name}, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), ServiceName: owner.Name, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "main", Image: "bellerophon-io/bellerophon-server:" + owner.Data["image"]}}}},
		}}, nil
	}).After(password)
	public := dependents.One("public", func(_ context.Context, owner *corev1.ConfigMap, _ *dependents.View) (*corev1.Service, error) {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: owner.Name}, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}}, nil
	}).When(func(owner *corev1.ConfigMap, _ *dependents.View) bool { return owner.Data["public"] == "yes" })
	set, err := dependents.NewSet("hero", dependents.Options{}, password, servers, public)
	must(t, err)

	outcomes := make(chan dependents.Outcome, 1000)
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{
		Namespaces: []string{namespace}, Logger: slog.New(slog.DiscardHandler), OnError: func(err error) { t.Log(err) },
	})
	must(t, err)
	client := manager.Client()
	must(t, manager.Add("hero", controller.Typed(client, controller.TypedReconciler[*corev1.ConfigMap]{
		Reconcile: func(ctx context.Context, owner *corev1.ConfigMap) (controller.Result, error) {
			if owner.Name != "x" {
				return controller.Result{}, nil
			}
			outcome := set.Reconcile(ctx, client, owner)
			outcomes <- outcome
			return outcome.Result()
		},
	}), append(set.Owns(), controller.For(&corev1.ConfigMap{}), set.Finalizer(client, "acme.io/children"))...))
	group := lifecycle.New(ctx)
	group.Go("manager", manager.Run)
	defer func() {
		group.Stop()
		must(t, group.Wait())
	}()
	until := func(what string, reached func(outcome dependents.Outcome) bool) {
		t.Helper()
		var last dependents.Outcome
		for {
			select {
			case last = <-outcomes:
				if reached(last) {
					return
				}
			case <-ctx.Done():
				t.Fatalf("it takes too long until %s; the last outcome is %s", what, last.Message())
			}
		}
	}
	state := func(outcome dependents.Outcome) string {
		var states []string
		for _, status := range outcome.Dependents {
			states = append(states, string(status.State))
		}
		return strings.Join(states, " ")
	}
	is := func(want string) func(dependents.Outcome) bool {
		return func(outcome dependents.Outcome) bool { return state(outcome) == want }
	}
	patch := func(body string) {
		t.Helper()
		_, err := user.CoreV1().ConfigMaps(namespace).Patch(ctx, "x", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		must(t, err)
	}

	_, err = user.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"image": "v1", "public": "yes"}}, metav1.CreateOptions{})
	must(t, err)
	until("the StatefulSet waits for the Secret", is("Progressing Waiting Ready"))
	secret, err := user.CoreV1().Secrets(namespace).Get(ctx, "x", metav1.GetOptions{})
	must(t, err)
	if _, err := user.AppsV1().StatefulSets(namespace).Get(ctx, "x", metav1.GetOptions{}); err == nil {
		t.Error("the StatefulSet is there before the Secret is ready")
	}
	_, err = user.CoreV1().Secrets(namespace).Patch(ctx, "x", types.MergePatchType, []byte(`{"metadata":{"annotations":{"approved":"yes"}}}`), metav1.PatchOptions{})
	must(t, err)
	until("all is ready", is("Ready Ready Ready"))

	patch(`{"data":{"public":"no"}}`)
	until("the Service is gone", is("Ready Ready Absent"))
	if _, err := user.CoreV1().Services(namespace).Get(ctx, "x", metav1.GetOptions{}); err == nil {
		t.Error("the Service is still there")
	}
	patch(`{"data":{"image":"v2"}}`)
	until("the StatefulSet rolls out", is("Ready Progressing Absent"))
	until("it has rolled out", is("Ready Ready Absent"))
	again, err := user.CoreV1().Secrets(namespace).Get(ctx, "x", metav1.GetOptions{})
	must(t, err)
	if again.UID != secret.UID || string(again.Data["password"]) != string(secret.Data["password"]) || again.Annotations["approved"] != "yes" {
		t.Errorf("the Secret is another one: %v", again.ObjectMeta)
	}

	watching, err := user.CoreV1().Secrets(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=x", ResourceVersion: again.ResourceVersion})
	must(t, err)
	defer watching.Stop()
	must(t, user.CoreV1().ConfigMaps(namespace).Delete(ctx, "x", metav1.DeleteOptions{}))
	for event := range watching.ResultChan() {
		if event.Type == "DELETED" {
			break
		}
	}
	if _, err := user.AppsV1().StatefulSets(namespace).Get(ctx, "x", metav1.GetOptions{}); err == nil {
		t.Error("the Secret is deleted before the StatefulSet")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
