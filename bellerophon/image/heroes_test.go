package image_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	herov1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/image"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// serverOf returns the path of the server, built for an image.
func serverOf(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bellerophon-server")
	if err := image.Server.Compile(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// load writes the image of a program, and loads it into the node of the cluster.
func load(t *testing.T, cluster *localcluster.Cluster, of image.Program, built string) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	if _, err := of.Write(built, of.Image, archive); err != nil {
		t.Fatal(err)
	}
	if err := cluster.LoadImage(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
}

// realHero is a hero on a real node.
type realHero struct {
	*testing.T
	core      kubernetes.Interface
	heroes    dynamic.NamespaceableResourceInterface
	kubectl   func(arguments ...string)
	namespace string
	name      string // of the hero
}

// newRealHero returns a namespace of the real node that takes only restricted pods.
func newRealHero(t *testing.T, cluster *localcluster.Cluster) *realHero {
	t.Helper()
	return newRealHeroIn(t, cluster, clustertest.NamespaceIn(t, cluster))
}

// newRealHeroIn does so in a namespace that exists.
func newRealHeroIn(t *testing.T, cluster *localcluster.Cluster, namespace string) *realHero {
	t.Helper()
	h := &realHero{T: t, namespace: namespace, name: "example"}
	var err error
	if h.core, err = kubernetes.NewForConfig(cluster.AdminConfig()); err != nil {
		t.Fatal(err)
	}
	clients, err := dynamic.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	h.heroes = clients.Resource(herov1.GroupVersion.WithResource("heroes"))
	restrict(t, h.core, h.namespace)
	explainFailure(t, cluster, h.namespace)
	h.kubectl = func(arguments ...string) {
		t.Helper()
		kubectl(t, cluster, h.namespace, arguments...)
	}
	return h
}

// kubectl runs the real kubectl in a namespace, and returns what it prints.
func kubectl(t *testing.T, cluster *localcluster.Cluster, namespace string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), cluster.Kubectl(), append([]string{"--kubeconfig=" + cluster.Kubeconfig(), "--namespace=" + namespace}, arguments...)...)
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, said)
	}
	return string(said)
}

// removeDefinition removes the kind when the test ends. The chart keeps it.
func removeDefinition(t *testing.T, cluster *localcluster.Cluster) {
	t.Helper()
	t.Cleanup(func() {
		command := exec.Command(cluster.Kubectl(), "--kubeconfig="+cluster.Kubeconfig(), "delete", "crd", "heroes."+herov1.GroupVersion.Group)
		if said, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, said)
		}
	})
}

func TestAHeroOnARealNodeKeepsItsDataThroughADeadLeaderARolloutFewerMembersAndARestore(t *testing.T) {
	cluster := clustertest.WithRealNode(t)
	load(t, cluster, image.Operator, operator(t))
	load(t, cluster, image.Server, serverOf(t))
	h := newRealHero(t, cluster)
	helm(t, cluster.Kubeconfig(), "install", "bellerophon", filepath.Join("..", "..", "charts", "bellerophon-operator"), "--namespace="+h.namespace,
		"--set=image.pullPolicy=Never", "--set=webhooks.enabled=true", "--set=heroes.enabled=true", "--wait", "--timeout=2m")
	removeDefinition(t, cluster)

	// The manifest is of the first version, so the operator's webhooks convert it.
	h.apply(`{"apiVersion":"stable.bellerophon.io/v1alpha0","kind":"Bellerophon","metadata":{"name":"example"},"spec":{"winged_horse_name":"pegasus","replicas":3}}`)
	running := h.until("three members are ready", isRunning(3))
	h.askWhy(cluster.AdminConfig())
	h.put("horse", "pegasus")

	if err := h.core.CoreV1().Pods(h.namespace).Delete(t.Context(), running.Status.Leader, *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	h.until("another member leads", func(hero *herov1.Bellerophon) bool {
		return hero.Status.Leader != "" && hero.Status.Leader != running.Status.Leader
	})
	h.want("horse", "pegasus")
	running = h.until("the leader is a member again", isRunning(3))

	h.patch(`{"spec":{"config":{"log-level":"debug"}}}`)
	h.until("all members have the new settings", func(hero *herov1.Bellerophon) bool {
		return isRunning(3)(hero) && hero.Status.CurrentRevision != running.Status.CurrentRevision
	})
	h.want("horse", "pegasus")
	h.put("rider", "bellerophon")

	h.patch(`{"spec":{"replicas":1}}`)
	h.until("one member is left", isRunning(1))
	h.want("horse", "pegasus")
	h.want("rider", "bellerophon")

	// All volumes are lost, and a new hero begins with a backup.
	h.apply(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"backups"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"64Mi"}}}}`)
	h.patch(`{"spec":{"backup":{"volumeClaimName":"backups"},"storage":{"retention":"BackupThenDelete"}}}`)
	h.until("the backups are set up", isRunning(1))
	h.kubectl("create", "job", "now", "--from=cronjob/example-backup")
	h.until("a backup is complete", func(hero *herov1.Bellerophon) bool { return hero.Status.LastBackup != nil })
	h.put("shield", "bronze") // Only the last backup has it.
	h.kubectl("delete", "hero", "example", "--timeout=2m")
	h.kubectl("wait", "--for=delete", "pvc/data-example-0", "--timeout=60s")
	h.name = "again"
	h.apply(`{"apiVersion":"stable.bellerophon.io/v1","kind":"Bellerophon","metadata":{"name":"again"},"spec":{"restore":{"volumeClaimName":"backups","hero":"example"}}}`)
	h.until("the backup is restored", func(hero *herov1.Bellerophon) bool { return isRunning(3)(hero) && hero.Status.Restored })
	h.want("horse", "pegasus")
	h.want("rider", "bellerophon")
	h.want("shield", "bronze")

	// Without a backup, the hero says what is wrong.
	h.name = "broken"
	h.apply(`{"apiVersion":"stable.bellerophon.io/v1","kind":"Bellerophon","metadata":{"name":"broken"},"spec":{"replicas":1,"restore":{"volumeClaimName":"backups"}}}`)
	h.until("the restore has failed", func(hero *herov1.Bellerophon) bool {
		degraded := meta.FindStatusCondition(hero.Status.Conditions, herov1.ConditionDegraded)
		return degraded != nil && degraded.Reason == "RestoreFailed"
	})
	h.kubectl("delete", "hero", "broken", "again")

	// The chart of the software makes a hero, too.
	h.name = "store"
	helm(t, cluster.Kubeconfig(), "install", h.name, filepath.Join("..", "..", "charts", "bellerophon"), "--namespace="+h.namespace, "--set=hero=true", "--set=replicas=1")
	h.until("the hero of the chart is ready", isRunning(1))
	h.put("horse", "arion")
	h.want("horse", "arion")
	helm(t, cluster.Kubeconfig(), "uninstall", h.name, "--namespace="+h.namespace, "--wait", "--timeout=2m")

	// The same image serves a BellerophonSimple.
	converge(t, cluster.AdminConfig(), h.namespace, "simple")
	uninstalled(t, cluster.Kubeconfig(), h.core, h.namespace)
}

func TestTheChartOfTheSoftwareRunsAClusterWithoutTheOperator(t *testing.T) {
	cluster := clustertest.WithRealNode(t)
	load(t, cluster, image.Server, serverOf(t))
	h := newRealHero(t, cluster)
	chart := filepath.Join("..", "..", "charts", "bellerophon")
	helm(t, cluster.Kubeconfig(), "lint", "--strict", chart)
	arguments := []string{"example", chart, "--namespace=" + h.namespace, "--set=image.pullPolicy=Never", "--wait", "--timeout=2m"}
	helm(t, cluster.Kubeconfig(), append([]string{"install"}, arguments...)...)
	h.put("horse", "pegasus")
	helm(t, cluster.Kubeconfig(), append([]string{"upgrade", "--set=config.log-level=debug"}, arguments...)...)
	h.want("horse", "pegasus")
	helm(t, cluster.Kubeconfig(), append([]string{"upgrade", "--set=replicas=5"}, arguments...)...)
	h.want("horse", "pegasus")
	helm(t, cluster.Kubeconfig(), "uninstall", "example", "--namespace="+h.namespace, "--wait", "--timeout=2m")
	claims, err := h.core.CoreV1().PersistentVolumeClaims(h.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(claims.Items) != 5 {
		t.Errorf("the release left %d volumes, %v; want five", len(claims.Items), err)
	}
}

func isRunning(members int32) func(*herov1.Bellerophon) bool {
	return func(hero *herov1.Bellerophon) bool {
		return hero.Status.Phase == herov1.PhaseRunning && hero.Status.ReadyReplicas == members && hero.Status.ObservedGeneration == hero.Generation
	}
}

// until waits until the status of the hero fulfils a condition.
func (h *realHero) until(what string, holds func(*herov1.Bellerophon) bool) *herov1.Bellerophon {
	h.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(h.Context(), 2*time.Minute)
	defer cancel()
	watcher, err := h.heroes.Namespace(h.namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + h.name})
	if err != nil {
		h.Fatal(err)
	}
	defer watcher.Stop()
	hero := &herov1.Bellerophon{}
	for event := range watcher.ResultChan() {
		seen, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			h.Fatalf("the watch emits %v", event.Object)
		}
		hero = &herov1.Bellerophon{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(seen.Object, hero); err != nil {
			h.Fatal(err)
		}
		if holds(hero) {
			h.Logf("%s after %v", what, time.Since(began))
			return hero
		}
	}
	h.Fatalf("waited in vain until %s; the status is %+v, Ready is %+v", what, hero.Status, meta.FindStatusCondition(hero.Status.Conditions, herov1.ConditionReady))
	return nil
}

// apply creates an object of the namespace by kubectl.
func (h *realHero) apply(manifest string) {
	h.Helper()
	file := filepath.Join(h.TempDir(), "manifest.json")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		h.Fatal(err)
	}
	h.kubectl("apply", "--filename="+file)
}

func (h *realHero) patch(change string) {
	h.Helper()
	if _, err := h.heroes.Namespace(h.namespace).Patch(h.Context(), h.name, types.MergePatchType, []byte(change), metav1.PatchOptions{}); err != nil {
		h.Fatal(err)
	}
}

// path is the path of a key, through the hero's Service.
func (h *realHero) path(key string) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/services/%s:http/proxy/v1/keys/%s", h.namespace, h.name, key)
}

func (h *realHero) put(key, value string) {
	h.Helper()
	h.served("writing "+key, h.core.CoreV1().RESTClient().Put().AbsPath(h.path(key)).Body([]byte(value)))
}

// want checks the value of a key.
func (h *realHero) want(key, value string) {
	h.Helper()
	if got := h.served("reading "+key, h.core.CoreV1().RESTClient().Get().AbsPath(h.path(key))); string(got) != value {
		h.Fatalf("%s is %q, want %q", key, got, value)
	}
}

// served sends a request until it is answered: the Service may name a member for a moment that has just gone, and
// learns of a Ready pod a moment after its hero.
func (h *realHero) served(what string, request *rest.Request) []byte {
	h.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(20 * time.Second)
	for {
		got, err := request.Do(h.Context()).Raw()
		if err == nil {
			return got
		}
		select {
		case <-ticker.C:
		case <-deadline:
			h.Fatalf("%s: %v", what, err)
		}
	}
}
