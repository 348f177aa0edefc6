package controller_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnOwnerThatWasMadeAgainIsSaidToBeAnotherOne(t *testing.T) {
	m := manager(t, silent, controller.Options{})
	if err := m.Add("configs", nothing, controller.For(&corev1.ConfigMap{})); err != nil {
		t.Fatal(err)
	}
	owner, child := config("owner"), secret("child")
	owner.UID = "first"
	if err := controller.SetControllerReference(m.Client(), owner, child); err != nil {
		t.Fatal(err)
	}
	owner.UID = "second"
	err := controller.SetControllerReference(m.Client(), owner, child)
	if !errors.Is(err, controller.ErrFormerOwner) || !errors.Is(err, controller.ErrOtherController) {
		t.Fatalf("the error is %v", err)
	}
	for _, want := range []string{"had the uid first, and has second", "remove its owner reference to keep it"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
	owner.Name, owner.UID = "another", "third"
	if err := controller.SetControllerReference(m.Client(), owner, child); !errors.Is(err, controller.ErrOtherController) || errors.Is(err, controller.ErrFormerOwner) {
		t.Errorf("for an owner of another name the error is %v", err)
	}
}

func TestAnObjectWithoutNamespacesCannotPassAsOneOfTheOwnersNamespace(t *testing.T) {
	api := transport(func(request *http.Request) *http.Response {
		if request.URL.Path == "/apis/rbac.authorization.k8s.io/v1" {
			return says(http.StatusOK, &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "clusterroles", Kind: "ClusterRole"}}})
		}
		return nil
	})
	m := manager(t, api, controller.Options{})
	if err := m.Add("configs", nothing, controller.For(&corev1.ConfigMap{}), controller.Uses(&rbacv1.ClusterRole{})); err != nil {
		t.Fatal(err)
	}
	owner := config("owner")
	owner.UID = "o-1"
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: "role"}}
	if namespaced, err := m.Client().IsNamespaced(t.Context(), role); err != nil || namespaced {
		t.Fatalf("the kind has namespaces: %t, %v", namespaced, err)
	}
	err := controller.SetControllerReference(m.Client(), owner, role)
	if err == nil || !strings.Contains(err.Error(), "whose kind has no namespaces") || len(role.OwnerReferences) > 0 {
		t.Errorf("the error is %v, and the owners are %v", err, role.OwnerReferences)
	}
}
