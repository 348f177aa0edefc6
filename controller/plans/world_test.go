package plans_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/internal/crashtest"
	"github.com/bellerophon-io/bellerophon/controller/plans"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// Horse is the owner in these tests.
type Horse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              HorseSpec   `json:"spec"`
	Status            HorseStatus `json:"status,omitzero"`
}

// HorseSpec is what the user of a horse asks for.
type HorseSpec struct {
	Replicas int    `json:"replicas,omitempty"`
	Image    string `json:"image,omitempty"`
}

// HorseStatus is the status of a horse.
type HorseStatus struct {
	Plan plans.Status `json:"plan,omitzero"`
}

// HorseList is a list of horses.
type HorseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Horse `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (h *Horse) DeepCopyObject() runtime.Object {
	copied := *h
	h.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	h.Status.Plan.DeepCopyInto(&copied.Status.Plan)
	return &copied
}

// DeepCopyObject implements runtime.Object.
func (l *HorseList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = nil
	for i := range l.Items {
		copied.Items = append(copied.Items, *l.Items[i].DeepCopyObject().(*Horse))
	}
	return &copied
}

var horses = schema.GroupVersion{Group: "acme.io", Version: "v1"}

// scheme returns a scheme with horses.
func scheme() *runtime.Scheme {
	made := runtime.NewScheme()
	if err := clientscheme.AddToScheme(made); err != nil {
		panic(err)
	}
	made.AddKnownTypes(horses, &Horse{}, &HorseList{})
	metav1.AddToGroupVersion(made, horses)
	return made
}

func planOf(horse *Horse) *plans.Status { return &horse.Status.Plan }

type (
	plan  = plans.Plan[*Horse]
	phase = plans.Phase[*Horse]
	step  = plans.Step[*Horse]
)

// world has one horse. The manager of a test runs plans on it.
type world struct {
	*crashtest.World
	t      *testing.T
	server *sourcestest.Server
	runner *plans.Runner[*Horse]
	c      *controller.Client

	mu    sync.Mutex
	calls []string                                  // of the functions of steps
	done  func(step string) (plans.Progress, error) // what the functions return
	errs  []error
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	crashtest.InWorld(t, scheme(), func(of *crashtest.World) {
		w := &world{World: of, t: of.T, server: of.Server, done: func(string) (plans.Progress, error) { return plans.Progress{Done: true}, nil }}
		w.must(w.server.Create(&Horse{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}, Spec: HorseSpec{Replicas: 1}}))
		test(w)
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	w.Must(err)
}

// start runs a manager with a runner of the plans. stopAt and after stop its client at a write, if stopAt
// is not 0.
func (w *world) start(stopAt int, after bool, of ...*plan) {
	w.t.Helper()
	runner, err := plans.NewRunner(planOf, of...)
	w.must(err)
	w.Start(stopAt, after, nil, func(manager *controller.Manager) {
		c := manager.Client()
		w.runner, w.c = runner, c
		reconcile := controller.Typed(c, controller.TypedReconciler[*Horse]{Reconcile: func(ctx context.Context, horse *Horse) (controller.Result, error) {
			_, result, err := runner.Reconcile(ctx, c, horse)
			if err != nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.errs = append(w.errs, err)
			}
			return result, err
		}})
		w.must(manager.Add("horses", reconcile, append(runner.Owns(), controller.For(&Horse{}))...))
	})
}

func (w *world) stop() {
	w.t.Helper()
	w.Stop()
}

func (w *world) wait(duration time.Duration) { w.Wait(duration) }

func (w *world) horse() *Horse {
	w.t.Helper()
	horse := &Horse{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}
	w.must(w.server.Get(horse))
	return horse
}

func (w *world) status() *plans.Status { return &w.horse().Status.Plan }

// change changes the horse, as its user does.
func (w *world) change(change func(horse *Horse)) {
	w.t.Helper()
	horse := w.horse()
	change(horse)
	w.must(w.server.Update(horse))
	w.wait(time.Minute)
}

// annotate sets an annotation, or removes it if value is empty.
func (w *world) annotate(name, value string) {
	w.t.Helper()
	w.change(func(horse *Horse) {
		if delete(horse.Annotations, name); value != "" {
			metav1.SetMetaDataAnnotation(&horse.ObjectMeta, name, value)
		}
	})
}

// does returns a step whose function is recorded, and returns what the world says.
func (w *world) does(name string) step {
	return plans.Run(name, func(_ context.Context, horse *Horse, execution plans.Execution) (plans.Progress, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls = append(w.calls, name)
		if execution.UID != horse.Status.Plan.UID || execution.Plan != horse.Status.Plan.Plan {
			w.t.Errorf("%s: the execution is %v, and the status is %v", name, execution, horse.Status.Plan)
		}
		return w.done(name)
	})
}

// let sets what the functions of the steps return: steps is a list of the ones that are not done.
func (w *world) let(err error, steps ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = func(name string) (plans.Progress, error) {
		for _, not := range steps {
			if not == name {
				return plans.Progress{Message: "not yet"}, err
			}
		}
		return plans.Progress{Done: true}, nil
	}
}

// wantCalls checks the calls of functions since the last call.
func (w *world) wantCalls(when, want string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.calls, " "); got != want {
		w.t.Errorf("%s it called %q, want %q", when, got, want)
	}
	w.calls = nil
}

// summary returns the states of a plan and of its steps, as "deploy=COMPLETE a=COMPLETE b=PENDING".
func summary(status *plans.Status) string {
	parts := []string{status.Plan + "=" + string(status.State)}
	for _, phase := range status.Phases {
		for _, step := range phase.Steps {
			parts = append(parts, step.Name+"="+string(step.State))
		}
	}
	return strings.Join(parts, " ")
}

func (w *world) want(when, want string) *plans.Status {
	w.t.Helper()
	status := w.status()
	if got := summary(status); got != want {
		w.t.Errorf("%s the plan is %q, want %q: %s", when, got, want, status.Message)
	}
	return status
}

// uid checks that the execution is, or is not, another one than before.
func (w *world) uid(when string, before types.UID, same bool) types.UID {
	w.t.Helper()
	now := w.status().UID
	if (now == before) != same {
		w.t.Errorf("%s the uid is %s, and was %s", when, now, before)
	}
	return now
}

func images(horse *Horse) any   { return horse.Spec.Image }
func replicas(horse *Horse) any { return fmt.Sprint(horse.Spec.Replicas) }
