package loop_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// inVirtualTime runs a test in a world, with the program started.
func inVirtualTime(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.start()
		test(w)
	})
}

func TestAnApplicationComesToRun(t *testing.T) {
	inVirtualTime(t, func(w *world) {
		w.wantRunning(time.Minute)
		if ports := w.status().Ports; len(ports) != 1 || ports[0].Target != 8080 {
			t.Errorf("it forwards %v", ports)
		}
		if w.status().Message != "" {
			t.Errorf("the message is %q", w.status().Message)
		}
	})
}

func TestASyncSendsChangedAndDeletedFilesAlone(t *testing.T) {
	inVirtualTime(t, func(w *world) {
		w.wantRunning(time.Minute)
		before := w.containers.asked()
		w.project.edit(func(tree worktree.Tree) {
			tree["main.go"] = version(2)
			delete(tree, "lib/a.go")
		})
		w.wantRunning(time.Minute)
		sent := w.containers.since(before)
		if len(sent) != 1 || fmt.Sprint(sent[0].Send, sent[0].Remove, sent[0].RemoveEmpty) != "[main.go] [lib/a.go] [lib]" {
			t.Errorf("it sent %+v", sent)
		}
	})
}

func TestASyncThatHangsEndsWithItsContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.containers.hangs = 1
		w.start()
		<-time.After(10 * time.Second)
		if w.containers.asked() != 1 {
			t.Fatal("no sync has begun, or several")
		}
		w.killPods()
		w.wantRunning(time.Minute)
	})
}

func TestAConfigMapOfAnotherProgramIsNotTakenForTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		foreign := &corev1.ConfigMap{Data: map[string]string{"mine": "yes"}}
		foreign.Namespace, foreign.Name = namespace, contract.StatusName(application)
		must(t, w.server.Create(foreign))
		w.start()
		<-time.After(time.Minute)
		must(t, w.server.Get(foreign))
		if len(foreign.Data) != 1 || len(foreign.OwnerReferences) != 0 {
			t.Errorf("it is %v now, with the owners %v", foreign.Data, foreign.OwnerReferences)
		}
		if said := w.output.String(); strings.Count(said, "write the Status of hero") != 1 {
			t.Errorf("the user reads %q", said)
		}
	})
}

func TestAFailedBuildIsShownAndRetriedAtTheNextChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		broken := w.project.tree.Root()
		w.containers.exits = func(root string) int {
			if root == broken {
				return 2
			}
			return 0
		}
		w.start()
		<-time.After(time.Hour)
		build := w.status().Build
		if w.status().State != contract.FilesSynced || build == nil || build.Outcome != contract.Failed || build.Exit != 2 || build.Starts != 1 || build.Output != "main.go:3: syntax error\n" {
			t.Fatalf("the Status is %+v with the build %+v", w.status(), build)
		}
		w.project.edit(func(tree worktree.Tree) { tree["main.go"] = version(3) })
		w.wantRunning(time.Minute)
	})
}

func TestANewProcessTakesOverWithoutASyncOrABuild(t *testing.T) {
	inVirtualTime(t, func(w *world) {
		w.wantRunning(time.Minute)
		w.stop()
		syncs := w.containers.asked()
		w.start()
		w.wantRunning(time.Minute)
		if w.containers.asked() != syncs {
			t.Errorf("it sent %+v again", w.containers.since(syncs))
		}
		if builds := w.status().Build; builds.Outcome != contract.Succeeded {
			t.Errorf("the build is %+v", builds)
		}
	})
}

func TestAnApplicationAtRestCausesNoRequests(t *testing.T) {
	inVirtualTime(t, func(w *world) {
		w.wantRunning(time.Minute)
		<-time.After(time.Minute)
		before := w.server.Counts().Requests
		<-time.After(time.Hour)
		for verb, number := range w.server.Counts().Requests {
			if more := number - before[verb]; more > 0 && verb[:5] != "watch" {
				t.Errorf("%d requests to %s in an hour", more, verb)
			}
		}
	})
}

// drifts are changes of the Deployment by another client.
var drifts = map[string]func(w *world){
	"scaled": func(w *world) { w.changeDeployment(func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 }) },
	"edited": func(w *world) {
		w.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "example.invalid/other" })
	},
	"deleted": func(w *world) { must(w.t, w.server.Delete(w.deployment())) },
}

func (w *world) deployment() *appsv1.Deployment {
	found := &appsv1.Deployment{}
	found.Namespace, found.Name = namespace, application
	must(w.t, w.server.Get(found))
	return found
}

// deploymentIfAny returns the Deployment, or nil.
func (w *world) deploymentIfAny() *appsv1.Deployment {
	found := &appsv1.Deployment{}
	found.Namespace, found.Name = namespace, application
	if w.server.Get(found) != nil {
		return nil
	}
	return found
}

func (w *world) changeDeployment(change func(d *appsv1.Deployment)) {
	found := w.deployment()
	change(found)
	must(w.t, w.server.Update(found))
}

func TestADeploymentThatDriftsIsRepairedWhileNoFileChanges(t *testing.T) {
	for name, drift := range drifts {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(w *world) {
				w.wantRunning(time.Minute)
				drift(w)
				<-time.After(time.Second)
				w.wantRunning(time.Minute)
			})
		})
	}
}

// moments are times at which a file changes during a deployment: before, at and between its steps.
func moments() (all []time.Duration) {
	for at := time.Duration(0); at < 8*time.Second; at += 50 * time.Millisecond {
		all = append(all, at)
	}
	return all
}

func TestAFileThatChangesAtAnyPointOfADeploymentArrives(t *testing.T) {
	for _, at := range moments() {
		inVirtualTime(t, func(w *world) {
			<-time.After(at)
			w.project.edit(func(tree worktree.Tree) { tree["main.go"] = version(1000) })
			<-time.After(time.Millisecond)
			w.wantRunning(time.Minute)
		})
	}
}

func TestAFileThatChangesAtAnyStepOfASyncArrives(t *testing.T) {
	const files = 40
	for at := range files {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer w.end()
			for i := range files {
				w.project.tree[fmt.Sprintf("f%d", i)] = version(i)
			}
			w.containers.atSync = func(step int) {
				if step == at {
					w.project.edit(func(tree worktree.Tree) {
						tree[fmt.Sprintf("f%d", (at*7)%files)] = version(1000)
						delete(tree, fmt.Sprintf("f%d", (at*5+1)%files))
					})
				}
			}
			w.start()
			w.wantRunning(time.Minute)
			if want := maps.Clone(w.project.tree); len(want) > files+2 {
				t.Fatal("the test has changed no file")
			}
		})
	}
}
