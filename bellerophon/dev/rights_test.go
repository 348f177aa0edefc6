package dev_test

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/devtest"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

func TestTheRightsThatAreMissingAreNamed(t *testing.T) {
	cluster := clustertest.WithRealNode(t)
	namespace := clustertest.NamespaceIn(t, cluster)
	config := cluster.AdminConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	err := dev.Run(t.Context(), config, dev.Options{Directory: devtest.CopySample(t, "script"), Namespace: namespace, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "create pods/exec") || !strings.Contains(err.Error(), "patch deployments.apps") {
		t.Errorf("it returns %v", err)
	}
}

// roleInTheDocs returns the Role of docs/dev.md.
func roleInTheDocs(t *testing.T) *rbacv1.Role {
	t.Helper()
	page, err := os.ReadFile(sessionPage)
	must(t, err)
	_, after, found := bytes.Cut(page, []byte("```yaml\n"))
	content, _, _ := bytes.Cut(after, []byte("```"))
	role := &rbacv1.Role{}
	if err := yaml.UnmarshalStrict(content, role); err != nil || !found {
		t.Fatalf("the page has no Role: %v", err)
	}
	return role
}

func TestTheRoleInTheDocsSufficesForBothParts(t *testing.T) {
	s := newSession(t, "script")
	s.name = "greeting-script"
	role := roleInTheDocs(t)
	_, err := s.client.RbacV1().Roles(s.namespace).Create(s.ctx, role, metav1.CreateOptions{})
	must(t, err)
	_, err = s.client.RbacV1().RoleBindings(s.namespace).Create(s.ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "developer"}},
	}, metav1.CreateOptions{})
	must(t, err)
	s.config.Impersonate = rest.ImpersonationConfig{UserName: "developer"}
	// Apart, as two processes.
	s.start(dev.Options{Part: dev.ControllerPart})
	stopController := s.stop
	s.start(dev.Options{Part: dev.ClientPart})
	s.until(func(status contract.Status) bool { return status.State == contract.RunCommandRunning })
	must(t, s.stop())
	s.wantNothing()
	must(t, stopController())
}
