package localcluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestTheAuditLogHasTheRequestsOfTheGivenUsersWithoutTheirContent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	const jane = "system:serviceaccount:default:jane"
	c, err := Start(t.Context(), Options{APIOnly: true, AuditLog: file, AuditUsers: []string{jane}})
	if err != nil {
		t.Fatal(err)
	}
	accounts := clientOf(t, c).CoreV1().ServiceAccounts("default")
	for _, name := range []string{"jane", "john"} {
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		config := rest.AnonymousClientConfig(c.AdminConfig())
		config.BearerToken = token.Status.Token
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": "content"}}
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), made, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a request of %s: %v, want a refusal", name, err)
		}
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	log, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range bytes.Lines(log) {
		var event struct {
			Verb, Stage    string
			User           struct{ Username string }
			ObjectRef      struct{ Resource, Namespace string }
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		if event.Stage == "ResponseComplete" {
			found = append(found, fmt.Sprint(event.User.Username, " ", event.Verb, " ", event.ObjectRef.Resource, " ", event.ObjectRef.Namespace, " ", event.ResponseStatus.Code))
		}
	}
	if want := []string{jane + " create configmaps default 403"}; !slices.Equal(found, want) {
		t.Errorf("the log has the requests %q, want %q:\n%s", found, want, log)
	}
	if bytes.Contains(log, []byte("content")) {
		t.Errorf("the log has the content of an object:\n%s", log)
	}
}

func TestAnAuditLogWithContentHasTheObjectThatAWriteLeft(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	c, err := Start(t.Context(), Options{APIOnly: true, AuditLog: file, AuditUsers: []string{"bellerophon:admin"}, AuditContent: true})
	if err != nil {
		t.Fatal(err)
	}
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "made"}, Data: map[string]string{"key": "content"}}
	if made, err = clientOf(t, c).CoreV1().ConfigMaps("default").Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	log, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		var event struct{ ResponseObject *corev1.ConfigMap }
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		if left := event.ResponseObject; left != nil && left.UID == made.UID && left.ResourceVersion == made.ResourceVersion && left.Data["key"] == "content" && left.ManagedFields == nil {
			return
		}
	}
	t.Errorf("the log lacks the answer with the version %s:\n%s", made.ResourceVersion, log)
}

func TestAnAuditLogNeedsUsers(t *testing.T) {
	for _, options := range []Options{{AuditLog: "file"}, {AuditUsers: []string{"jane"}}} {
		if _, err := options.complete(); err == nil || !strings.Contains(err.Error(), "AuditUsers") {
			t.Errorf("complete() of %+v = %v, want an error that names AuditUsers", options, err)
		}
	}
}
