package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A tool that removes a program deletes the configuration first, while the program still runs.
func TestAConfigurationIsDeletedWithItsOwnerAlsoWhenItWasCreatedAgain(t *testing.T) {
	w := newWorld(t)
	w.install()
	const name = "owned"
	configurations := w.core.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	roles := w.core.RbacV1().ClusterRoles()
	server, err := webhook.New(w.config, types(), webhook.Options{
		Address: "127.0.0.1:0", URL: "https://127.0.0.1", Name: name, ClusterRole: "bellerophon-owner", Logger: w.log.logger(),
	})
	must(t, err)
	w.removeAfterwards(name)
	must(t, webhook.Validate(server, func(context.Context, webhook.Request[*Hero]) error { return nil }))
	group := lifecycle.New(t.Context())
	group.Go("server", server.Run)
	defer func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}()

	w.until("the server says what is missing", func() error {
		if err := server.Ready(); err == nil || !strings.Contains(err.Error(), "owner") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	if _, err := configurations.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("there is a configuration without its owner; %v", err)
	}
	role, err := roles.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bellerophon-owner"}}, metav1.CreateOptions{})
	must(t, err)
	w.ready(server)

	owned := func() error {
		live, err := configurations.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(live.OwnerReferences) != 1 || live.OwnerReferences[0].UID != role.UID || len(live.Webhooks) != 1 {
			return fmt.Errorf("it has the owners %v and %d webhooks", live.OwnerReferences, len(live.Webhooks))
		}
		return nil
	}
	must(t, owned())
	must(t, configurations.Delete(t.Context(), name, metav1.DeleteOptions{}))
	w.until("a deleted configuration is there again", owned)

	must(t, roles.Delete(t.Context(), role.Name, metav1.DeleteOptions{}))
	gone := func() error {
		live, err := configurations.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("it is there, with the owners %v", live.OwnerReferences)
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it may be there: %w", err)
		}
		return nil
	}
	w.until("the configuration is gone", gone)
	w.until("the server has noticed", func() error {
		if strings.Count(w.log.String(), "the owner of the webhook configurations does not exist") < 2 { // The first one is of the start.
			return errors.New("it says nothing")
		}
		return nil
	})
	stays, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); stays.Err() == nil; <-tick.C {
		must(t, gone())
	}
}
