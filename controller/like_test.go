package controller_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
)

// TestAnExampleNamesTheTypeOfARead holds that a program can work with kinds that it learns while it runs.
func TestAnExampleNamesTheTypeOfARead(t *testing.T) {
	d := newDesk(t)
	ctx, like := t.Context(), controller.Like(&corev1.ConfigMap{})
	made, err := controller.Create[streams.Object](ctx, d.client, d.config("a", "red", "app", "web"))
	d.must(err)
	d.create(d.config("b", "red", "app", "db"))
	held, err := controller.Get[streams.Object](ctx, d.client, d.name("a"), like)
	if err != nil || held.(*corev1.ConfigMap).ResourceVersion != made.GetResourceVersion() {
		t.Errorf("Get returns %v: %v", held, err)
	}
	if live, err := controller.GetLive[streams.Object](ctx, d.client, d.name("a"), like); err != nil || live.GetUID() != made.GetUID() {
		t.Errorf("GetLive returns %v: %v", live, err)
	}
	applied, err := controller.Apply[streams.Object](ctx, d.client, applycorev1.ConfigMap("c", d.namespace).WithLabels(map[string]string{"app": "db"}))
	if _, is := applied.(*corev1.ConfigMap); err != nil || !is {
		t.Errorf("Apply returns %v: %v", applied, err)
	}
	selected := []controller.ReadOption{like, controller.InNamespace(d.namespace), controller.LabelSelector("app=db")}
	names := func() (names []string) {
		objects, err := controller.List[streams.Object](ctx, d.client, selected...)
		d.must(err)
		for _, object := range objects {
			names = append(names, object.GetName())
		}
		return names
	}
	if got := names(); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("List returns %q", got)
	}
	d.must(controller.DeleteAllOf[streams.Object](ctx, d.client, selected))
	if got := names(); len(got) > 0 {
		t.Errorf("List returns %q after DeleteAllOf", got)
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(roleKind)
	if _, err := controller.Get[streams.Object](ctx, d.client, d.name("x"), controller.Like(metadata)); !apierrors.IsNotFound(err) {
		t.Errorf("Get of one of the kinds of a type returns %v", err)
	}
	for what, err := range map[string]error{
		"a read of an undeclared kind":     second(controller.Get[streams.Object](ctx, d.client, d.name("x"), controller.Like(&appsv1.DaemonSet{}))),
		"an apply of an undeclared kind":   second(controller.Apply[streams.Object](ctx, d.client, applyrbacv1.ClusterRole("x"))),
		"a read of an undeclared metadata": second(controller.Get[streams.Object](ctx, d.client, d.name("x"), controller.Like(blank(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))))),
	} {
		if !errors.Is(err, controller.ErrNotDeclared) {
			t.Errorf("%s returns %v", what, err)
		}
	}
	if d.client.Manager() != d.manager || d.manager.Scheme() == nil {
		t.Error("the client does not know its manager")
	}
	if config, requests := d.manager.Connection(); config.Host == "" || requests == nil {
		t.Error("the manager has no connection")
	}
}

func second[T any](_ T, err error) error { return err }
