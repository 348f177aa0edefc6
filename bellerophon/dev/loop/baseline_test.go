package loop_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// baseline is the design with two loops, as small as it can be. The first loop deploys, waits for a stable pod, sends
// the files and starts the program. The second one waits for changes of files, and calls the first one again.
type baseline struct {
	w       *world
	changes chan struct{} // has room for no change: the watch of the second loop starts with that loop
	sent    worktree.Tree
}

// startBaseline starts the baseline in place of the program.
func (w *world) startBaseline() {
	b := &baseline{w: w, changes: make(chan struct{}), sent: worktree.Tree{}}
	w.project.watchers = []func(){func() {
		select {
		case b.changes <- struct{}{}:
		default: // No loop watches: the first one is at work.
		}
	}}
	group := lifecycle.New(w.t.Context())
	group.Go("baseline", b.run)
	w.stop = func() {
		group.Stop()
		_ = group.Wait()
		w.stop = nil
	}
}

func (b *baseline) run(ctx context.Context) error {
	for {
		b.deploy(ctx)
		select {
		case <-b.changes:
		case <-ctx.Done():
			return nil
		}
	}
}

// deploy is the first loop. The files that it sends are the ones at its start.
func (b *baseline) deploy(ctx context.Context) {
	files := b.w.project.Snapshot().Tree
	one, selector := int32(1), map[string]string{contract.ApplicationLabel: application}
	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = namespace, application
	deployment.Spec.Replicas = &one
	deployment.Spec.Template.Labels = selector
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.invalid/hero:1"}}
	found := deployment.DeepCopy()
	if b.w.server.Get(found) != nil {
		_ = b.w.server.Create(deployment)
	}
	var at container.Place
	for at.PodUID == "" && ctx.Err() == nil {
		for _, pod := range b.w.pods() {
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				at = container.Place{Namespace: namespace, Pod: pod.Name, PodUID: pod.UID, Container: "main"}
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
	change := worktree.Difference(b.sent, files)
	contents, _, _ := b.w.project.Contents(change.Send)
	if b.w.containers.Sync(ctx, at, change, contents, files) != nil {
		return
	}
	b.sent = files
	_, _ = b.w.containers.Run(ctx, at, container.Command{Slot: "build"}, nil)
}

// hasFiles reports whether a pod that lives has the files of the project, and the Deployment is as it was made.
func (w *world) hasFiles() bool {
	found := &appsv1.Deployment{}
	found.Namespace, found.Name = namespace, application
	if w.server.Get(found) != nil || *found.Spec.Replicas != 1 || found.Spec.Template.Spec.Containers[0].Image != "example.invalid/hero:1" {
		return false
	}
	tree := w.project.Snapshot().Tree
	w.containers.mu.Lock()
	defer w.containers.mu.Unlock()
	for _, pod := range w.containers.pods {
		if !pod.gone && pod.tree.Root() == tree.Root() {
			return true
		}
	}
	return false
}

func TestTwoLoopsMissAFileThatChangesDuringADeployment(t *testing.T) {
	missed := 0
	for _, at := range moments() {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer w.end()
			w.startBaseline()
			<-time.After(at)
			w.project.edit(func(tree worktree.Tree) { tree["main.go"] = version(1000) })
			<-time.After(time.Hour)
			if !w.hasFiles() {
				missed++
			}
		})
	}
	t.Logf("with two loops, %d of %d changes had not arrived after an hour", missed, len(moments()))
	if missed == 0 || missed == len(moments()) {
		t.Error("this is not the design of the notes: it loses the changes during a deployment, and no others")
	}
}

func TestTwoLoopsRepairNoDriftWhileNoFileChanges(t *testing.T) {
	for name, drift := range drifts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.end()
				w.startBaseline()
				<-time.After(time.Minute)
				if !w.hasFiles() {
					t.Fatal("the pod has not got the files")
				}
				drift(w)
				<-time.After(time.Hour)
				if w.hasFiles() {
					t.Error("this is not the design of the notes: it repairs drift")
				}
			})
		})
	}
}
