package simple_test

import (
	"context"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	"github.com/bellerophon-io/bellerophon/bellerophon/simple"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// TestTheWebhooksOfTheChartDenyTakenNames runs the webhooks with the permissions that the chart grants.
func TestTheWebhooksOfTheChartDenyTakenNames(t *testing.T) {
	w := newWorldWithOperator(t)
	manifests := must(render.Operator("hooks", w.namespace, map[string]any{"webhooks": map[string]any{"enabled": true}}))(t)
	for _, object := range manifests.Without("Deployment").Objects {
		kind := object.GroupVersionKind()
		resource := kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s")
		place := w.any.Resource(resource).Namespace(object.GetNamespace())
		must(place.Create(w.ctx, object, metav1.CreateOptions{}))(t)
		t.Cleanup(func() {
			if err := place.Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	account := rest.CopyConfig(w.config)
	account.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + w.namespace + ":hooks", Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
	name := "hooks-webhooks." + w.namespace
	server := must(webhook.New(account, types(), webhook.Options{
		Address: "127.0.0.1:0", URL: "https://127.0.0.1", Name: name,
		Certificates: webhook.Certificates{Secret: w.namespace + "/hooks-webhooks-certificates"},
	}))(t)
	here := webhook.NamespaceSelector(metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.namespace}})
	if err := simple.AddWebhooks(server, w.operator.manager.Client(), here); err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(w.ctx)
	group.Go("webhooks", server.Run)
	if err := server.WaitReady(w.ctx); err != nil {
		t.Fatal(err)
	}
	must(w.core.CoreV1().Services(w.namespace).Create(w.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "arion"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone},
	}, metav1.CreateOptions{}))(t)
	var err error
	for err = nil; err == nil && w.ctx.Err() == nil; { // The API server reads the configuration a moment later.
		_, err = w.heroes.Create(w.ctx, w.hero("arion", 1), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "Service "+w.namespace+"/arion is not owned by this object") {
		t.Errorf("an object with a taken name gives %v", err)
	}
	w.create(w.hero("pegasus", 1))
	w.awaitReady("pegasus", 1)
	if again := must(w.any.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}).
		Get(w.ctx, name, metav1.GetOptions{}))(t); len(mustHave(t, again, "webhooks")) != 1 {
		t.Errorf("the configuration of the chart is %v", again.Object)
	}
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func mustHave(t *testing.T, object *unstructured.Unstructured, field string) []any {
	t.Helper()
	list, _, err := unstructured.NestedSlice(object.Object, field)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
