package image_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/image"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// serverImage is the default image of the servers of BellerophonSimple.
const serverImage = "bellerophon-io/bellerophon-server:v1"

// builtHelm returns the path of the real Helm, which the go command builds from tools/helm. Asking the go command to run it
// takes a second of CPU time each time.
var builtHelm = sync.OnceValues(func() (string, error) {
	module, err := filepath.Abs(filepath.Join("..", "..", "tools", "helm", "go.mod"))
	if err != nil {
		return "", err
	}
	command := exec.Command("go", "tool", "-n", "-modfile="+module, "helm")
	command.Env = append(os.Environ(), "GOWORK=off")
	command.Stderr = os.Stderr
	path, err := command.Output()
	return strings.TrimSpace(string(path)), err
})

// helm runs the real Helm. A warning of the API server fails the test. Cleanups may call it, too.
func helm(t *testing.T, kubeconfig string, arguments ...string) {
	t.Helper()
	program, err := builtHelm()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), program, arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	began := time.Now()
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(arguments, " "), err, said)
	}
	if strings.Contains(strings.ToLower(string(said)), "warn") {
		t.Errorf("helm %s warns:\n%s", strings.Join(arguments, " "), said)
	}
	t.Logf("helm %s took %v", arguments[0], time.Since(began))
}

// explainFailure logs what is in a namespace if the test fails, and uninstalls the chart, so that no later test finds it.
func explainFailure(t *testing.T, cluster *localcluster.Cluster, namespace string) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, arguments := range [][]string{
			{"get", "pods,heroes,jobs,endpointslices", "--output=wide"}, {"get", "events", "--sort-by=.lastTimestamp"},
			{"logs", "--selector=app.kubernetes.io/name=bellerophon-operator", "--tail=40", "--prefix"},
			{"logs", "--selector=app.kubernetes.io/name=bellerophon", "--tail=20", "--prefix"},
		} {
			command := exec.Command(cluster.Kubectl(), append([]string{"--kubeconfig=" + cluster.Kubeconfig(), "--namespace=" + namespace}, arguments...)...)
			said, err := command.CombinedOutput()
			t.Logf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, said)
		}
		helm(t, cluster.Kubeconfig(), "uninstall", "bellerophon", "--namespace="+namespace, "--ignore-not-found", "--wait", "--timeout=2m")
	})
}

// restrict lets a namespace take only pods of the restricted Pod security standard. Of a workload whose pods it would
// refuse, the API server warns.
func restrict(t *testing.T, client kubernetes.Interface, namespace string) {
	t.Helper()
	label := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted","pod-security.kubernetes.io/warn":"restricted"}}}`
	if _, err := client.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, []byte(label), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestHelmInstallsTheImageOnARealNodeAndTheOperatorConverges(t *testing.T) {
	cluster := clustertest.WithRealNode(t)
	archive := filepath.Join(t.TempDir(), "operator.tar")
	id, err := image.Operator.Write(operator(t), image.Operator.Image, archive)
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.LoadImage(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	clustertest.LoadWorkload(t, cluster, serverImage)

	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	namespace := clustertest.NamespaceIn(t, cluster)
	restrict(t, client, namespace)
	explainFailure(t, cluster, namespace)

	// Without a registry, an image that is not on the node cannot be pulled.
	helm(t, cluster.Kubeconfig(), "install", "bellerophon", filepath.Join("..", "..", "charts", "bellerophon-operator"),
		"--namespace="+namespace, "--set=image.pullPolicy=Never", "--set=webhooks.enabled=true", "--wait", "--timeout=2m")

	pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=bellerophon-operator"})
	if err != nil || len(pods.Items) != 2 {
		t.Fatalf("the operator has %d pods, want a leader and a standby; %v", len(pods.Items), err)
	}
	for _, pod := range pods.Items {
		if status := pod.Status.ContainerStatuses[0]; !status.Ready || status.RestartCount != 0 || !strings.Contains(status.ImageID, id) {
			t.Errorf("the operator is %+v, want Ready, never restarted, with the image %s", status, id)
		}
	}
	if users := usersOf(t, "/bellerophon-operator"); len(users) != 2 || users[0] != "65532" || users[1] != "65532" {
		t.Errorf("the operator's processes have the users %q", users)
	}

	began := time.Now()
	hero := converge(t, cluster.AdminConfig(), namespace, "example")
	t.Logf("%d servers were Ready after %v", hero.Status.ReadyReplicas, time.Since(began))
	servers, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: hero.Status.Selector})
	if err != nil || len(servers.Items) != 3 {
		t.Fatalf("there are %d servers, %v", len(servers.Items), err)
	}
	for _, pod := range servers.Items {
		// A simulated node never gives a container an ID of containerd.
		if id := pod.Status.ContainerStatuses[0].ContainerID; !strings.HasPrefix(id, "containerd://") || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("the server %s is %s in the container %q", pod.Name, pod.Status.Phase, id)
		}
	}
	uninstalled(t, cluster.Kubeconfig(), client, namespace)

	helm(t, cluster.Kubeconfig(), "install", "bellerophon", filepath.Join("..", "..", "charts", "bellerophon-operator"),
		"--namespace="+namespace, "--set=image.pullPolicy=Never", "--set=shards.enabled=true", "--wait", "--timeout=2m")
	leases, err := client.CoordinationV1().Leases(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "bellerophon.io/shards=bellerophon"})
	if err != nil || len(leases.Items) != 2 {
		t.Errorf("there are the Leases %+v of shards, want one of each pod; %v", leases, err)
	}
	converge(t, cluster.AdminConfig(), namespace, "sharded")
}

// uninstalled uninstalls the chart, and waits until no webhook configuration of it is left. Such a
// configuration would refuse each object, as no server answers any more.
func uninstalled(t *testing.T, kubeconfig string, client kubernetes.Interface, namespace string) {
	t.Helper()
	configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	before, err := configurations.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(before.Items) != 1 || len(before.Items[0].OwnerReferences) != 1 {
		t.Fatalf("want one configuration with one owner: %+v, %v", before, err)
	}
	helm(t, kubeconfig, "uninstall", "bellerophon", "--namespace="+namespace, "--wait", "--timeout=2m")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watcher, err := configurations.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	left, err := configurations.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	count := len(left.Items)
	for count > 0 {
		event, open := <-watcher.ResultChan()
		switch {
		case !open:
			t.Fatalf("%d configurations are left", count)
		case event.Type == watch.Deleted:
			count--
		}
	}
}

// usersOf returns the users of the processes that run a program in a container.
func usersOf(t *testing.T, program string) (users []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(line), program+"\x00") {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(file), "status"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "\nUid:\t")
		user, _, _ := strings.Cut(rest, "\t")
		users = append(users, user)
	}
	return users
}

// converge creates an object with three servers of the default image, and waits until it is Ready.
func converge(t *testing.T, config *rest.Config, namespace, name string) *v1.BellerophonSimple {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	heroes := client.Resource(v1.GroupVersion.WithResource("sheroes")).Namespace(namespace)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watcher, err := heroes.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.GroupVersion.String(),
		"kind":       "BellerophonSimple",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"replicas": int64(3)},
	}}
	if _, err := heroes.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	hero := &v1.BellerophonSimple{}
	for event := range watcher.ResultChan() {
		seen, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("the watch emits %v", event.Object)
		}
		if seen.GetName() != name {
			continue
		}
		hero = &v1.BellerophonSimple{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(seen.Object, hero); err != nil {
			t.Fatal(err)
		}
		if meta.IsStatusConditionTrue(hero.Status.Conditions, v1.ConditionReady) && hero.Status.ReadyReplicas == 3 {
			return hero
		}
	}
	t.Fatalf("the object did not become Ready; its last status is %+v", hero.Status)
	return nil
}

// tarNames returns the names of an archive's files.
func tarNames(t *testing.T, archive io.Reader) (names []string) {
	t.Helper()
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}
