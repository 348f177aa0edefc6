package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/controllertest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// running starts the program with the hooks of a directory, and returns the ConfigMaps of a namespace.
func running(t *testing.T, cluster *controllertest.Cluster, namespace, directory string) typedv1.ConfigMapInterface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	runHooks(t, cluster, Options{Directory: directory})
	return client.CoreV1().ConfigMaps(namespace)
}

// runHooks runs the program until the end of the test.
func runHooks(t *testing.T, cluster *controllertest.Cluster, options Options) {
	t.Helper()
	options.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	group := lifecycle.New(context.WithoutCancel(t.Context()))
	group.Go("hooks", func(ctx context.Context) error { return Run(ctx, cluster.Config(), options) })
	t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// awaitConfigMap waits until a ConfigMap meets a condition. done gets nil if it does not exist.
func awaitConfigMap(t *testing.T, of typedv1.ConfigMapInterface, name string, done func(*corev1.ConfigMap) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errors.New("it took more than 20 s"))
	defer cancel()
	watching, err := of.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	now, err := of.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		now, err = nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for !done(now) {
		event, open := <-watching.ResultChan()
		if !open {
			t.Fatalf("waiting for ConfigMap %s: %v; it is %v", name, context.Cause(ctx), now)
		}
		if now, _ = event.Object.(*corev1.ConfigMap); event.Type == "DELETED" {
			now = nil
		}
	}
}

func TestHooksReactToAChangeAndPatchAnotherObject(t *testing.T) {
	cluster := controllertest.Start(t)
	namespace := cluster.Namespace(t)
	configs := running(t, cluster, namespace, "testdata/hooks")
	paint := configMap("paint", "colour", "red")
	paint.Namespace = namespace
	if _, err := configs.Create(t.Context(), paint, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	painted := func(colour string) func(*corev1.ConfigMap) bool {
		return func(now *corev1.ConfigMap) bool {
			return now != nil && now.Data["colour"] == colour && now.Labels["painted"] == "by-a-hook"
		}
	}
	awaitConfigMap(t, configs, "painted", painted("red"))
	paint.Data["colour"] = "blue"
	if _, err := configs.Update(t.Context(), paint, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitConfigMap(t, configs, "painted", painted("blue"))
}

// TestEveryOperationReachesTheAPIServer runs a hook once, which writes each operation.
func TestEveryOperationReachesTheAPIServer(t *testing.T) {
	cluster := controllertest.Start(t)
	namespace := cluster.Namespace(t)
	hook := `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "onStartup": 1}'; exit 0; fi
new() { cat <<YAML
---
operation: $1
object: {apiVersion: v1, kind: ConfigMap, metadata: {name: $2, namespace: ` + namespace + `}, data: {k: "$3"}}
YAML
}
on() { cat <<YAML
---
operation: $1
kind: $2
name: $3
namespace: ` + namespace + `
YAML
}
{
  new Create target 1
  new CreateIfNotExists target 2
  new CreateOrUpdate target 3
  new Create deleted 1
  new Create orphaned 1
  new Create background 1
  on MergePatch cm target; echo 'mergePatch: {data: {merged: "yes"}}'
  on JSONPatch configmaps target; echo 'jsonPatch: [{op: add, path: /data/json, value: "yes"}]'
  on JQPatch ConfigMap target; echo 'jqFilter: .data.jq = .data.k'
  on MergePatch ConfigMap missing; echo 'mergePatch: {data: {}}'; echo 'ignoreMissingObject: true'
  on Delete ConfigMap deleted
  on Delete ConfigMap missing
  on DeleteNonCascading ConfigMap orphaned
  on DeleteInBackground ConfigMap background
  new Create end 1
} > "$KUBERNETES_PATCH_PATH"
`
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "hook.sh"), []byte(hook), 0o700); err != nil {
		t.Fatal(err)
	}
	configs := running(t, cluster, namespace, directory)
	awaitConfigMap(t, configs, "end", func(now *corev1.ConfigMap) bool { return now != nil })
	target, err := configs.Get(t.Context(), "target", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"k": "3", "merged": "yes", "json": "yes", "jq": "3"} {
		if target.Data[key] != want {
			t.Errorf("the data is %v, want %s=%s", target.Data, key, want)
		}
	}
	for _, name := range []string{"deleted", "orphaned", "background"} {
		if left, err := configs.Get(t.Context(), name, metav1.GetOptions{}); err == nil && left.DeletionTimestamp == nil {
			t.Errorf("%s was not deleted: %v", name, left)
		}
	}
}

// The hooks of testdata/protocol have the forms of published hooks: in bash with jq and in Python, with configurations in
// YAML and in JSON, with events, snapshots, groups, filters, queues, metrics and patches.
func TestHooksInBashAndPythonKeepCopiesAndCountThem(t *testing.T) {
	for _, program := range []string{"bash", "jq", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the hooks need %s, which is not installed", program)
		}
	}
	cluster := controllertest.Start(t)
	namespace := cluster.Namespace(t)
	labelled := func(name string) *corev1.ConfigMap {
		made := configMap(name, "colour", name)
		made.Namespace, made.Labels = namespace, map[string]string{"hooks-copy": "yes"}
		return made
	}
	client := kubernetes.NewForConfigOrDie(cluster.Config()).CoreV1()
	if _, err := client.ConfigMaps(namespace).Create(t.Context(), labelled("first"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err) // Before the start, so that the Synchronization shows it.
	}
	configs := running(t, cluster, namespace, "testdata/protocol")
	awaitConfigMap(t, client.ConfigMaps("default"), "started-by-python", func(now *corev1.ConfigMap) bool { return now != nil })
	copied := func(colour string) func(now *corev1.ConfigMap) bool {
		return func(now *corev1.ConfigMap) bool { return now != nil && now.Data["colour"] == colour }
	}
	counted := func(n string) func(now *corev1.ConfigMap) bool {
		return func(now *corev1.ConfigMap) bool {
			return now != nil && now.Data["originals"] == n && now.Data["copies"] == n
		}
	}
	awaitConfigMap(t, configs, "first-copy", copied("first"))
	if _, err := configs.Create(t.Context(), labelled("second"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitConfigMap(t, configs, "second-copy", copied("second"))
	awaitConfigMap(t, configs, "count", counted("2"))
	changed := labelled("second")
	changed.Data["colour"] = "blue"
	if _, err := configs.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitConfigMap(t, configs, "second-copy", copied("blue"))
	if err := configs.Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitConfigMap(t, configs, "first-copy", func(now *corev1.ConfigMap) bool { return now == nil })
	awaitConfigMap(t, configs, "count", counted("1"))
}
