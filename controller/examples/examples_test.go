package examples

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/controllertest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

// run runs an example until the end of the test, when it must end without an error.
func run(t *testing.T, name string, arguments ...string) kubernetes.Interface {
	t.Helper()
	cluster := controllertest.Start(t)
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), name)
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, output)
	}
	var output bytes.Buffer
	running := exec.CommandContext(context.WithoutCancel(t.Context()), program, arguments...)
	running.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
	running.Stdout, running.Stderr = &output, &output
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := running.Wait(); err != nil {
			t.Errorf("%s ended with %v:\n%s", name, err, output.String())
		}
	})
	return client
}

// watcher opens watches of one kind, such as client.CoreV1().Services("default").
type watcher interface {
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// until waits for an object in a state, and fails the test if that takes longer than 30 s. It calls acts as
// soon as it watches.
func until[T runtime.Object](t *testing.T, of watcher, name, what string, is func(kind watch.EventType, object T) bool, acts ...func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	watching, err := of.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	for _, act := range acts {
		if err := act(); err != nil {
			t.Fatal(err)
		}
	}
	for event := range watching.ResultChan() {
		if object, typed := event.Object.(T); typed && is(event.Type, object) {
			return
		}
	}
	t.Fatalf("%s: %v", what, errors.Join(ctx.Err(), errors.New("it did not happen")))
}

func exists[T any](kind watch.EventType, _ T) bool { return kind == watch.Added }

func TestTheSmallestOperatorExposesADeploymentAndRepairsTheService(t *testing.T) {
	client := run(t, "smallest")
	namespace := controllertest.Start(t).Namespace(t)
	labels := map[string]string{"app": "pegasus"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "pegasus", Labels: map[string]string{"expose": "true"}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example"}}},
			},
		},
	}
	if _, err := client.AppsV1().Deployments(namespace).Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	services := client.CoreV1().Services(namespace)
	until[*corev1.Service](t, services, "pegasus", "the service", exists)
	if err := services.Delete(t.Context(), "pegasus", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until[*corev1.Service](t, services, "pegasus", "the service, again", exists)
}

func TestSeveralControllersServeTheNamespacesOfTeams(t *testing.T) {
	client := run(t, "several")
	namespace := controllertest.Start(t).Namespace(t)
	patch := []byte(`{"metadata":{"labels":{"team":"red"}}}`)
	if _, err := client.CoreV1().Namespaces().Patch(t.Context(), namespace, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until[*corev1.ResourceQuota](t, client.CoreV1().ResourceQuotas(namespace), "team", "the quota", exists)
	drift := []byte(`{"spec":{"hard":{"pods":"1"}}}`)
	if _, err := client.CoreV1().ResourceQuotas(namespace).Patch(t.Context(), "team", "application/merge-patch+json", drift, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, client.CoreV1().ResourceQuotas(namespace), "team", "the repair", func(_ watch.EventType, quota *corev1.ResourceQuota) bool {
		return quota.Spec.Hard.Pods().Value() == 100
	})
	registry := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "registry"}, StringData: map[string]string{"token": "one"}}
	made, err := client.CoreV1().Secrets("default").Create(t.Context(), registry, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	copies := client.CoreV1().Secrets(namespace)
	until(t, copies, "registry", "the copy", func(_ watch.EventType, copied *corev1.Secret) bool { return string(copied.Data["token"]) == "one" })
	made.StringData = map[string]string{"token": "two"}
	if _, err := client.CoreV1().Secrets("default").Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, copies, "registry", "the new copy", func(_ watch.EventType, copied *corev1.Secret) bool { return string(copied.Data["token"]) == "two" })
}

func TestFilesBecomeConfigMaps(t *testing.T) {
	folder := t.TempDir()
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, "pegasus.txt"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("white")
	client := run(t, "files", folder)
	configs := client.CoreV1().ConfigMaps("default")
	says := func(content string) func(watch.EventType, *corev1.ConfigMap) bool {
		return func(_ watch.EventType, config *corev1.ConfigMap) bool { return config.Data["content"] == content }
	}
	until(t, configs, "pegasus", "the file", says("white"))
	write("black")
	until(t, configs, "pegasus", "the changed file", says("black"))
	if _, err := configs.Patch(t.Context(), "pegasus", "application/merge-patch+json", []byte(`{"data":{"content":"red"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, configs, "pegasus", "the repair", says("black"))
	isDeleted := func(kind watch.EventType, _ *corev1.ConfigMap) bool { return kind == watch.Deleted }
	until(t, configs, "pegasus", "the deletion", isDeleted, func() error { return os.Remove(filepath.Join(folder, "pegasus.txt")) })
}

func TestAHeroGetsAStallAConfigMapAndACondition(t *testing.T) {
	cluster, stable := controllertest.Start(t), t.TempDir()
	cluster.Install(t, "heroes/crd")
	client := run(t, "heroes", stable)
	namespace := cluster.Namespace(t)
	dynamics, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	heroes := dynamics.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "heroes"}).Namespace(namespace)
	hero := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Hero",
		"metadata": map[string]any{"name": "bellerophon"},
		"spec":     map[string]any{"horse": "pegasus"},
	}}
	isReady := func(_ watch.EventType, hero *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(hero.Object, "status", "conditions")
		return len(conditions) == 1 && conditions[0].(map[string]any)["status"] == "True"
	}
	until(t, heroes, "bellerophon", "the condition", isReady, func() error {
		_, err := heroes.Create(t.Context(), hero, metav1.CreateOptions{})
		return err
	})
	until[*corev1.ConfigMap](t, client.CoreV1().ConfigMaps(namespace), "bellerophon", "the config map", exists)
	stall := filepath.Join(stable, namespace+".bellerophon")
	if horse, err := os.ReadFile(stall); err != nil || string(horse) != "pegasus" {
		t.Errorf("the stall has %q: %v", horse, err)
	}
	isDeleted := func(kind watch.EventType, _ *unstructured.Unstructured) bool { return kind == watch.Deleted }
	until(t, heroes, "bellerophon", "the deletion", isDeleted, func() error {
		return heroes.Delete(t.Context(), "bellerophon", metav1.DeleteOptions{})
	})
	if _, err := os.Stat(stall); !os.IsNotExist(err) {
		t.Errorf("the stall is left: %v", err)
	}
}
