package controller_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func TestAnUpdateReplacesTheObjectAndConflictsWithAnother(t *testing.T) {
	d := newDesk(t)
	made := d.create(d.config("x", "red"))
	changed := made.DeepCopy()
	changed.Data = map[string]string{"size": "9"}
	_, err := controller.Update(t.Context(), d.client, changed)
	d.must(err)
	held, _ := cached[*corev1.ConfigMap](d.client, d.name("x"))
	if !reflect.DeepEqual(held.Data, changed.Data) {
		t.Errorf("the next read sees %v", held.Data)
	}
	if _, err := controller.Update(t.Context(), d.client, changed); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version returns %v", err)
	}
	if _, err := controller.Update(t.Context(), d.client, d.config("other", "")); !apierrors.IsNotFound(err) {
		t.Errorf("an update of an object that does not exist returns %v", err)
	}
}

func TestADryRunChangesNothingAndIsNotVisible(t *testing.T) {
	d := newDesk(t)
	made, err := controller.Create(t.Context(), d.client, d.config("x", "red"), controller.DryRun())
	if err != nil || made.UID == "" {
		t.Errorf("the answer is %v: %v", made, err)
	}
	d.wantList("everything", "")
	stored := d.create(d.config("x", "red"))
	changed := stored.DeepCopy()
	changed.Data["color"] = "blue"
	_, err = controller.Patch(t.Context(), d.client, changed, controller.MergeFrom(stored), controller.DryRun())
	d.must(err)
	_, err = controller.Apply[*corev1.ConfigMap](t.Context(), d.client, controller.ApplyConfigurationOf(d.config("x", "green")), controller.DryRun(), controller.Force())
	d.must(err)
	d.must(controller.Delete(t.Context(), d.client, stored, controller.DryRun()))
	for i := range 3 {
		if held, found := cached[*corev1.ConfigMap](d.client, d.name("x")); !found || held.ResourceVersion != stored.ResourceVersion {
			t.Fatalf("read %d sees %v", i, held)
		}
		idleFor(t.Context(), 50*time.Millisecond)
	}
}

func TestStrictValidationRefusesUnknownFields(t *testing.T) {
	d := newDesk(t)
	service := blank(serviceKind)
	service.SetNamespace(d.namespace)
	service.SetName("pegasus")
	d.must(unstructured.SetNestedMap(service.Object, map[string]any{"clusterIP": "None", "wings": "two", "ports": []any{map[string]any{"port": int64(80)}}}, "spec"))
	_, err := controller.Create(t.Context(), d.client, service, controller.FieldValidation(controller.ValidateStrict))
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "wings") {
		t.Errorf("strict validation returns %v", err)
	}
	_, err = controller.Create(t.Context(), d.client, service, controller.FieldValidation(controller.ValidateIgnore))
	d.must(err)
	if _, err := controller.Create(t.Context(), d.client, service, controller.FieldValidation("loose")); err == nil || !strings.Contains(err.Error(), "allowed are Strict, Warn and Ignore") {
		t.Errorf("the error is %v", err)
	}
}

func TestAScaleIsVisibleToTheNextRead(t *testing.T) {
	d := newDesk(t)
	selected := map[string]string{"app": "web"}
	made, err := controller.Create(t.Context(), d.client, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: selected}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: selected}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "server", Image: "example.invalid/server"}}},
		}},
	})
	d.must(err)
	for _, replicas := range []int32{3, 0, 5} {
		scaled, err := controller.Scale(t.Context(), d.client, made, replicas)
		if err != nil || scaled.Spec.Replicas != replicas {
			t.Fatalf("the scale is %v: %v", scaled, err)
		}
		if held, _ := cached[*appsv1.Deployment](d.client, d.name("web")); *held.Spec.Replicas != replicas {
			t.Errorf("the next read sees %d replicas, want %d", *held.Spec.Replicas, replicas)
		}
	}
	if scale, err := controller.GetScale[*appsv1.Deployment](t.Context(), d.client, d.name("web")); err != nil || scale.Spec.Replicas != 5 {
		t.Errorf("the scale is %v: %v", scale, err)
	}
	if _, err := controller.Scale(t.Context(), d.client, made, -1); err == nil {
		t.Error("a negative number of replicas is accepted")
	}
	if _, err := controller.Scale(t.Context(), d.client, d.create(d.config("x", "")), 1); !apierrors.IsNotFound(err) {
		t.Errorf("a ConfigMap is scaled: %v", err)
	}
	if _, err := controller.Patch(t.Context(), d.client, made, controller.RawPatch(types.MergePatchType, []byte("{}")), controller.Subresource("scale")); err == nil || !strings.Contains(err.Error(), "use Scale") {
		t.Errorf("the subresource scale is patched: %v", err)
	}
}

func TestAnEvictionIsVisibleToTheNextRead(t *testing.T) {
	d := newDesk(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "x"},
		Spec:       corev1.PodSpec{NodeSelector: map[string]string{"no": "node"}, Containers: []corev1.Container{{Name: "main", Image: "example.invalid/main"}}},
	}
	made, err := controller.Create(t.Context(), d.client, pod)
	d.must(err)
	d.must(controller.Evict(t.Context(), d.client, made, controller.DryRun()))
	if held, found := cached[*corev1.Pod](d.client, d.name("x")); !found || held.DeletionTimestamp != nil {
		t.Error("a dry run evicts the pod")
	}
	d.must(controller.Evict(t.Context(), d.client, made, controller.GracePeriod(0)))
	if held, found := cached[*corev1.Pod](d.client, d.name("x")); found && held.DeletionTimestamp == nil {
		t.Errorf("the evicted pod is read as %v", held.Status.Phase)
	}
	if err := controller.Evict(t.Context(), d.client, d.create(d.config("x", ""))); err == nil || !strings.Contains(err.Error(), "only pods can be evicted") {
		t.Errorf("a ConfigMap is evicted: %v", err)
	}
}

func TestOneGoTypeServesSeveralKinds(t *testing.T) {
	d := newDesk(t)
	account := blank(accountKind)
	account.SetNamespace(d.namespace)
	account.SetName("rider")
	made, err := controller.Create(t.Context(), d.client, account)
	d.must(err)
	if made.GroupVersionKind() != accountKind {
		t.Errorf("the answer is of %v", made.GroupVersionKind())
	}
	changed := made.DeepCopy()
	changed.SetLabels(map[string]string{"app": "web"})
	_, err = controller.Patch(t.Context(), d.client, changed, controller.MergeFrom(made))
	d.must(err)
	held, err := controller.Get[*unstructured.Unstructured](t.Context(), d.client, d.name("rider"), controller.OfKind(accountKind))
	if err != nil || held.GetLabels()["app"] != "web" || held.GroupVersionKind() != accountKind {
		t.Errorf("the next read sees %v: %v", held, err)
	}
	if _, err := controller.Get[*unstructured.Unstructured](t.Context(), d.client, d.name("rider"), controller.OfKind(serviceKind)); !apierrors.IsNotFound(err) {
		t.Errorf("a service of that name is found: %v", err)
	}
	if _, err := controller.Get[*unstructured.Unstructured](t.Context(), d.client, d.name("rider")); err == nil || !strings.Contains(err.Error(), "name one with OfKind") {
		t.Errorf("without a kind the error is %v", err)
	}
	if _, err := controller.Get[*unstructured.Unstructured](t.Context(), d.client, d.name("rider"), controller.OfKind(roleKind)); !errors.Is(err, controller.ErrOtherType) {
		t.Errorf("a kind that is declared with another type is read: %v", err)
	}
	all, err := controller.List[*unstructured.Unstructured](t.Context(), d.client, controller.OfKind(accountKind), controller.LabelSelector("app=web"))
	if err != nil || len(all) != 1 {
		t.Errorf("the list is %v: %v", all, err)
	}
	live, err := controller.ListLive[*unstructured.Unstructured](t.Context(), d.client, controller.OfKind(accountKind), controller.LabelSelector("app=web"), controller.InNamespace(d.namespace))
	if err != nil || len(live) != 1 || live[0].GroupVersionKind() != accountKind {
		t.Errorf("the live list is %v: %v", live, err)
	}
	d.must(controller.Delete(t.Context(), d.client, live[0]))

	// Metadata of two kinds.
	_, err = d.others.RbacV1().Roles(d.namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "rider"}}, metav1.CreateOptions{})
	d.must(err)
	role, err := controller.GetLive[*metav1.PartialObjectMetadata](t.Context(), d.client, d.name("rider"), controller.OfKind(roleKind))
	d.must(err)
	labelled := role.DeepCopy()
	labelled.Labels = map[string]string{"app": "web"}
	_, err = controller.Patch(t.Context(), d.client, labelled, controller.MergeFrom(role))
	d.must(err)
	if held, err := controller.Get[*metav1.PartialObjectMetadata](t.Context(), d.client, d.name("rider"), controller.OfKind(roleKind)); err != nil || held.Labels["app"] != "web" {
		t.Errorf("the next read sees %v: %v", held, err)
	}
	if _, err := controller.Get[*metav1.PartialObjectMetadata](t.Context(), d.client, d.name("rider"), controller.OfKind(roleBindingKind)); !apierrors.IsNotFound(err) {
		t.Errorf("a role binding of that name is found: %v", err)
	}
	d.must(controller.Delete(t.Context(), d.client, labelled))
}

func TestRetryOnConflictLosesNoChange(t *testing.T) {
	d := newDesk(t)
	d.create(d.config("x", "red"))
	const writers, times = 6, 5
	group := lifecycle.New(t.Context())
	for writer := range writers {
		group.Go("writer", func(ctx context.Context) error {
			for i := range times {
				_, err := controller.RetryOnConflict(ctx, d.client, d.name("x"), func(config *corev1.ConfigMap) error {
					config.Data[fmt.Sprintf("%d-%d", writer, i)] = "yes"
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	d.must(group.Wait())
	held, _ := cached[*corev1.ConfigMap](d.client, d.name("x"))
	if len(held.Data) != writers*times+1 {
		t.Errorf("%d of %d changes are there", len(held.Data)-1, writers*times)
	}
	d.mu.Lock()
	d.sent = nil
	d.mu.Unlock()
	_, err := controller.RetryOnConflict(t.Context(), d.client, d.name("x"), func(config *corev1.ConfigMap) error { return nil })
	d.must(err)
	d.wantSent("for no change")
	stop := errors.New("stop")
	if _, err := controller.RetryOnConflict(t.Context(), d.client, d.name("x"), func(*corev1.ConfigMap) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the error is %v", err)
	}
	if _, err := controller.RetryOnConflict(t.Context(), d.client, d.name("none"), func(*corev1.ConfigMap) error { return nil }); !apierrors.IsNotFound(err) {
		t.Errorf("the error is %v", err)
	}
}
