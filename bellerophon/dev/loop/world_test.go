package loop_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/loop"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/signal"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// devfile has one container, a build and a run command.
const devfile = `schemaVersion: 2.2.2
metadata: {name: hero}
components:
- name: main
  container:
    image: example.invalid/hero:1
    mountSources: true
    endpoints: [{name: http, targetPort: 8080}]
commands:
- id: make
  exec: {component: main, commandLine: make, group: {kind: build, isDefault: true}}
- id: serve
  exec: {component: main, commandLine: ./hero, group: {kind: run, isDefault: true}}
`

const (
	namespace   = "stable"
	application = "hero"
)

// world is a cluster and a project, in a bubble of virtual time.
type world struct {
	t          *testing.T
	server     *sourcestest.Server
	containers *fakeContainers
	project    *fakeProject
	group      *lifecycle.Group
	delay      time.Duration // how long a pod takes to start
	kubelet    *controller.Manager

	devfile   string
	manifests loop.Manifests // nil for none

	stop func() // ends the program; nil if it does not run

	output strings.Builder // of commands; read it when the program is at rest

	mu   sync.Mutex
	view client.View
}

// newWorld returns a world in which a Deployment gets a pod, as in a real cluster.
func newWorld(t *testing.T) *world {
	t.Helper()
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme, GarbageCollection: time.Second})
	must(t, err)
	w := &world{
		t: t, server: server, devfile: devfile, containers: newFakeContainers(), group: lifecycle.New(t.Context()), delay: 3 * time.Second,
		project: &fakeProject{tree: worktree.Tree{"main.go": version(1), "lib/a.go": version(1)}},
	}
	w.kubelet = newManager(t, server)
	must(t, w.kubelet.Add("kubelet", w.keepPod, controller.For(&appsv1.Deployment{}), controller.Watches(&corev1.Pod{}, func(streams.Object) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: namespace, Name: application}}
	})))
	w.group.Go("kubelet", w.kubelet.Run)
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newManager(t *testing.T, server *sourcestest.Server) *controller.Manager {
	t.Helper()
	manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{
		Namespaces: []string{namespace}, Logger: slog.New(slog.DiscardHandler), OnError: func(error) {},
	})
	must(t, err)
	return manager
}

// version returns a file with a content of its own.
func version(number int) worktree.File {
	return worktree.File{Mode: 0o644, Size: int64(number), Sum: fmt.Sprintf("%064d", number)}
}

// start starts the program: client and controller in one process.
func (w *world) start() {
	w.t.Helper()
	manager := newManager(w.t, w.server)
	changes := &signal.Signal{}
	w.project.mu.Lock()
	w.project.watchers = []func(){changes.Send}
	w.project.mu.Unlock()
	must(w.t, client.Add(manager, client.Options{
		Namespace: namespace, Application: application, Read: func() ([]byte, error) { return []byte(w.devfile), nil },
		Snapshot: w.project.Snapshot, Changes: changes.Stream(), Show: func(view client.View) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.view = view
		},
	}))
	_, err := loop.New(manager, loop.Options{
		Namespace: namespace, Application: application, Project: w.project, Containers: w.containers, Ports: &fakePorts{},
		Changes: changes.Stream(), Output: &w.output, Manifests: w.manifests, Logger: slog.New(slog.DiscardHandler),
	})
	must(w.t, err)
	group := lifecycle.New(w.t.Context())
	group.Go("program", manager.Run)
	w.stop = func() {
		group.Stop()
		must(w.t, group.Wait())
		w.stop = nil
	}
}

// end ends everything.
func (w *world) end() {
	if w.stop != nil {
		w.stop()
	}
	w.group.Stop()
	must(w.t, w.group.Wait())
}

// keepPod is the controller of Deployments, and the kubelet: it keeps one pod of a Deployment's template.
func (w *world) keepPod(ctx context.Context, request operators.Request) (time.Duration, error) {
	c := w.kubelet.Client()
	pods, err := controller.List[*corev1.Pod](ctx, c, controller.InNamespace(namespace))
	if err != nil {
		return 0, err
	}
	deployment, err := controller.Get[*appsv1.Deployment](ctx, c, request.NamespacedName)
	if controller.IgnoreNotFound(err) != nil {
		return 0, err
	}
	wanted := 0
	if err == nil {
		wanted = int(*deployment.Spec.Replicas)
	}
	kept := 0
	for _, pod := range pods {
		isCurrent := wanted > kept && maps.Equal(pod.Annotations, deployment.Spec.Template.Annotations)
		if !isCurrent || pod.DeletionTimestamp != nil {
			w.containers.kill(pod.UID)
			if err := controller.IgnoreNotFound(controller.Delete(ctx, c, pod)); err != nil {
				return 0, err
			}
			continue
		}
		kept++
		if pod.Status.Phase == corev1.PodRunning {
			continue
		}
		if wait := time.Until(pod.CreationTimestamp.Add(w.delay)); wait > 0 {
			return wait, nil
		}
		started := pod.DeepCopy()
		started.Status.Phase = corev1.PodRunning
		for _, each := range pod.Spec.Containers {
			started.Status.ContainerStatuses = append(started.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: each.Name, ContainerID: "id-" + string(pod.UID), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			})
		}
		if _, err := controller.UpdateStatus(ctx, c, started); err != nil {
			return 0, err
		}
	}
	if kept >= wanted {
		return 0, nil
	}
	_, err = controller.Create(ctx, c, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, GenerateName: application + "-", Labels: deployment.Spec.Template.Labels, Annotations: deployment.Spec.Template.Annotations,
		},
		Spec: deployment.Spec.Template.Spec,
	})
	return time.Second, err
}

// killPods deletes all pods, as a node that goes does.
func (w *world) killPods() {
	for _, pod := range w.pods() {
		w.containers.kill(pod.UID)
		_ = w.server.Delete(pod) // The kubelet may have been faster.
	}
}

func (w *world) pods() []*corev1.Pod {
	found, _ := controller.List[*corev1.Pod](w.t.Context(), w.kubelet.Client(), controller.InNamespace(namespace))
	return found
}

// outage takes the API server away for a time.
func (w *world) outage(lasting time.Duration) {
	must(w.t, w.server.Inject(sourcestest.Fault{Action: sourcestest.Disconnect, Times: sourcestest.Always}))
	w.server.Break()
	w.containers.cutOff(true)
	<-time.After(lasting)
	w.server.Heal()
	w.containers.cutOff(false)
}

// trouble returns what keeps the application from running with the project's files, or "".
func (w *world) trouble() string {
	tree := w.project.Snapshot().Tree
	var deployment appsv1.Deployment
	deployment.Namespace, deployment.Name = namespace, application
	if err := w.server.Get(&deployment); err != nil {
		return err.Error()
	}
	if *deployment.Spec.Replicas != 1 || len(deployment.Spec.Template.Spec.Containers) != 1 || deployment.Spec.Template.Spec.Containers[0].Image != "example.invalid/hero:1" {
		return "the Deployment has drifted"
	}
	w.containers.mu.Lock()
	defer w.containers.mu.Unlock()
	for _, pod := range w.containers.pods {
		if pod.gone {
			continue
		}
		switch {
		case !maps.Equal(pod.tree, tree):
			return fmt.Sprintf("the container has %d files, and the project %d; the change is %+v, and the Status %+v", len(pod.tree), len(tree), worktree.Difference(pod.tree, tree), w.status())
		case pod.built != tree.Root():
			return "the build is of other files"
		case pod.running != pod.built:
			return "the program that runs is of another build"
		}
		switch {
		case w.status().State != contract.RunCommandRunning:
			return fmt.Sprintf("the Status says %s: %s", w.status().State, w.status().Message)
		case w.status().Sync.Root != tree.Root():
			return "the Status has another root than the project"
		}
		return ""
	}
	return "no pod has files"
}

// wantRunning fails unless the application runs with the project's files within a time.
func (w *world) wantRunning(within time.Duration) {
	w.t.Helper()
	trouble := ""
	for deadline := time.Now().Add(within); ; <-time.After(time.Second) {
		if trouble = w.trouble(); trouble == "" {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	w.t.Fatalf("after %v: %s", within, trouble)
}

// status returns the Status that the user saw last.
func (w *world) status() contract.Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view.Status
}

// fakePorts forwards nothing.
type fakePorts struct{ ports []contract.Port }

func (p *fakePorts) Set(_ container.Place, ports []contract.Port) { p.ports = ports }

func (p *fakePorts) Bound() []contract.Port { return p.ports }
