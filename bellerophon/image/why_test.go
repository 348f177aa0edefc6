package image_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/bellerophon/why"
	"github.com/bellerophon-io/bellerophon/controller/history"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// askWhy asks the operator's pods for the hero by a forwarded port: without a token, with one that may not ask, and with one that may.
func (h *realHero) askWhy(config *rest.Config) {
	h.Helper()
	reader := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
	if _, err := h.core.CoreV1().ServiceAccounts(h.namespace).Create(h.Context(), reader, metav1.CreateOptions{}); err != nil {
		h.Fatal(err)
	}
	token, err := h.core.CoreV1().ServiceAccounts(h.namespace).CreateToken(h.Context(), reader.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		h.Fatal(err)
	}
	file := filepath.Join(h.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Status.Token), 0o600); err != nil {
		h.Fatal(err)
	}
	deployed := ask.Deployed{Config: config, Namespace: h.namespace, Selector: "app.kubernetes.io/name=bellerophon-operator"}
	var answer history.Answer
	asks := func(token string) error {
		return ask.Pods(h.Context(), deployed, ask.Server{TokenFile: token}, why.Question("heroes/"+h.name, h.namespace, false), why.IsNewer, func(one history.Answer) error {
			answer = one
			return nil
		})
	}
	nowhere := ask.Deployed{Config: config, Namespace: h.namespace, Selector: "app=none"}
	if err := ask.Pods[history.Answer](h.Context(), nowhere, ask.Server{}, why.Question("heroes/"+h.name, h.namespace, false), why.IsNewer, nil); err == nil || !strings.Contains(err.Error(), "no pod with the labels app=none runs") {
		h.Errorf("without an operator: %v", err)
	}
	if err := asks(""); err == nil {
		h.Error("the operator answers without a token")
	}
	if err := asks(file); err == nil {
		h.Error("the operator answers to a user without the permission")
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/debug/why"}, Verbs: []string{"get"}}}}
	if _, err := h.core.RbacV1().ClusterRoles().Create(h.Context(), role, metav1.CreateOptions{}); err != nil {
		h.Fatal(err)
	}
	if _, err := h.core.RbacV1().ClusterRoleBindings().Create(h.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: h.namespace}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: h.namespace, Name: reader.Name}},
	}, metav1.CreateOptions{}); err != nil {
		h.Fatal(err)
	}
	ticker, late := time.NewTicker(time.Second), time.After(time.Minute)
	defer ticker.Stop()
	for err := asks(file); err != nil; err = asks(file) { // A refusal counts for ten seconds.
		select {
		case <-ticker.C:
		case <-late:
			h.Fatalf("with the permission: %v", err)
		}
	}
	if len(answer.Controllers) != 1 || len(answer.Controllers[0].Attempts) == 0 || answer.Controllers[0].Attempts[0].Name != h.name {
		h.Errorf("the operator answers %+v", answer)
	}
}
