package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/controllertest"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// untilTrue asks the API server again and again, because it does not say when it has read a configuration of webhooks.
func untilTrue(t *testing.T, what string, check func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s: %v", what, err)
		}
	}
}

func beacon(name, colour string, labels map[string]string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "hooks.example.com/v1", "kind": "Beacon", "metadata": map[string]any{"name": name}, "spec": map[string]any{"colour": colour},
	}}
	made.SetLabels(labels)
	return made
}

// The hooks of testdata/webhooks validate, change and convert a custom resource.
func TestHooksAnswerTheAPIServer(t *testing.T) {
	for _, program := range []string{"bash", "jq", "base64"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the hooks need %s, which is not installed", program)
		}
	}
	cluster := controllertest.Start(t)
	cluster.Install(t, "testdata/webhooks/crd")
	namespace := cluster.Namespace(t)
	client := kubernetes.NewForConfigOrDie(cluster.Config())
	name := "hooks-" + namespace
	runHooks(t, cluster, Options{
		Directory: "testdata/webhooks/hooks", Webhooks: webhook.Options{URL: "https://127.0.0.1", Address: "127.0.0.1:0", Name: name},
	})
	t.Cleanup(func() { // Nothing answers for them any more.
		ctx, admission := context.WithoutCancel(t.Context()), client.AdmissionregistrationV1()
		if err := errors.Join(admission.ValidatingWebhookConfigurations().Delete(ctx, name, metav1.DeleteOptions{}),
			admission.MutatingWebhookConfigurations().Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
	})
	beacons := func(version string) dynamic.ResourceInterface {
		kind := schema.GroupVersionResource{Group: "hooks.example.com", Version: version, Resource: "beacons"}
		return dynamic.NewForConfigOrDie(cluster.Config()).Resource(kind).Namespace(namespace)
	}
	if _, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), configMapIn(namespace, "forbidden", "colour", "red"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	untilTrue(t, "red is forbidden, and others shine", func() error {
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		if _, err := beacons("v1").Create(t.Context(), beacon("one", "red", nil), dryRun); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "red is forbidden here") {
			return fmt.Errorf("red is not denied: %w", err)
		}
		made, err := beacons("v1").Create(t.Context(), beacon("one", "blue", nil), dryRun)
		if err != nil {
			return err
		}
		if shines, _, _ := unstructured.NestedBool(made.Object, "spec", "shines"); !shines {
			return fmt.Errorf("it does not shine: %v", made.Object)
		}
		return nil
	})
	for _, each := range []*unstructured.Unstructured{beacon("exempt", "red", nil), beacon("unchecked", "red", map[string]string{"hooks-unchecked": "yes"}), beacon("one", "blue", nil)} {
		if _, err := beacons("v1").Create(t.Context(), each, metav1.CreateOptions{}); err != nil {
			t.Errorf("%s is denied: %v", each.GetName(), err)
		}
	}
	untilTrue(t, "beacons are converted", func() error {
		listed, err := beacons("v2").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, each := range listed.Items {
			if colours, _, _ := unstructured.NestedStringSlice(each.Object, "spec", "colours"); len(colours) != 1 {
				return fmt.Errorf("as v2 it is %v", each.Object)
			}
		}
		return nil
	})
	second, err := beacons("v2").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedStringSlice(second.Object, []string{"red"}, "spec", "colours"); err != nil {
		t.Fatal(err)
	}
	if _, err := beacons("v2").Update(t.Context(), second, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a write of another version is not validated: %v", err)
	}
}
