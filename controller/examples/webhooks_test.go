package examples

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/controllertest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// questV1 returns a quest of the first version.
func questV1(name, monster, reward string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "quests.example.com/v1", "kind": "Quest", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"monster": monster, "reward": reward},
	}}
}

func TestQuestsAreValidatedDefaultedAndConverted(t *testing.T) {
	cluster := controllertest.Start(t)
	cluster.Install(t, "webhooks/crd")
	client := run(t, "webhooks", "127.0.0.1:0")
	t.Cleanup(func() { // Nothing answers for them any more.
		ctx, admission := context.WithoutCancel(t.Context()), client.AdmissionregistrationV1()
		if err := admission.ValidatingWebhookConfigurations().Delete(ctx, "quests.example.com", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := admission.MutatingWebhookConfigurations().Delete(ctx, "quests.example.com", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	namespace := cluster.Namespace(t)
	dynamics, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	quests := func(version string) dynamic.ResourceInterface {
		return dynamics.Resource(schema.GroupVersionResource{Group: "quests.example.com", Version: version, Resource: "quests"}).Namespace(namespace)
	}
	// The API server does not say when it has read a configuration, so the test asks until all three are in force.
	await(t, func() error {
		_, err := quests("v1").Create(t.Context(), questV1("try", "pegasus", "1 talent"), metav1.CreateOptions{DryRun: []string{"All"}})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "pegasus is no monster") {
			return fmt.Errorf("it is not denied: %w", err)
		}
		made, err := quests("v1").Create(t.Context(), questV1("try", "chimera", "1"), metav1.CreateOptions{DryRun: []string{"All"}})
		if err != nil {
			return err
		}
		if reward, _, _ := unstructured.NestedString(made.Object, "spec", "reward"); reward != "1 drachmas" {
			return fmt.Errorf("the reward is %q", reward)
		}
		return nil
	})
	if _, err := quests("v1").Create(t.Context(), questV1("chimera", "chimera", "10"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	second, err := quests("v2").Get(t.Context(), "chimera", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reward, _, _ := unstructured.NestedMap(second.Object, "spec", "reward")
	if reward["amount"] != int64(10) || reward["currency"] != "drachmas" {
		t.Errorf("in the second version the reward is %v", reward)
	}
	if err := unstructured.SetNestedField(second.Object, int64(9), "spec", "reward", "amount"); err != nil {
		t.Fatal(err)
	}
	if _, err := quests("v2").Update(t.Context(), second, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "cannot be lowered") {
		t.Errorf("a lower reward gives %v", err)
	}
	_, err = quests("v1").Patch(t.Context(), "chimera", "application/merge-patch+json", []byte(`{"spec":{"reward":"20 talents"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Errorf("a higher reward gives %v", err)
	}
	if err := quests("v1").Delete(t.Context(), "chimera", metav1.DeleteOptions{}); err != nil { // Without the program, it could not be converted.
		t.Error(err)
	}
}

// await calls a check until it succeeds, and fails the test after 30 s.
func await(t *testing.T, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}
