package plans_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/controller/plans"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAStepThatIsNotDoneAtItsDeadlineFailsWithAReason(t *testing.T) {
	for name, failure := range map[string]error{"it waits": nil, "it fails": errors.New("the disk is full")} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.let(failure, "b")
				deploy := func() *plan {
					return plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"), w.does("b").Deadline(10*time.Minute), w.does("c")))
				}
				w.start(0, false, deploy())
				status := w.status()
				waits := status.Condition("Deployed")
				since := status.Phases[0].Steps[1].StartedAt.UTC().Format(time.RFC3339)
				if waits.Status != metav1.ConditionFalse || !strings.Contains(waits.Message, "step one/b is "+string(status.State)+" since "+since) {
					t.Errorf("while it waits the condition is %+v", waits)
				}
				w.stop() // The deadline outlives the process.
				w.wait(5 * time.Minute)
				w.start(0, false, deploy())
				if status := w.status(); !status.Active() {
					t.Errorf("before the deadline the status is %+v", status)
				}
				w.wait(time.Hour)
				status = w.want("after the deadline", "deploy=FATAL_ERROR a=COMPLETE b=FATAL_ERROR c=PENDING")
				step := status.Phases[0].Steps[1]
				took := step.FinishedAt.Sub(step.StartedAt.Time)
				if step.Reason != plans.DeadlineExceeded || !strings.Contains(step.Message, "was not done within its deadline of 10m0s") {
					t.Errorf("the step is %+v", step)
				}
				if failure == nil && took != 10*time.Minute || failure != nil && (took < 10*time.Minute || !strings.Contains(step.Message, "the disk is full")) {
					t.Errorf("it failed after %v: %s", took, step.Message)
				}
				if failed := status.Condition("Deployed"); failed.Reason != plans.DeadlineExceeded || failed.Status != metav1.ConditionFalse || !strings.Contains(failed.Message, "one/b") {
					t.Errorf("the condition is %+v", failed)
				}
				// A change of the inputs starts the plan anew, with a new deadline.
				w.let(nil)
				w.change(func(horse *Horse) { horse.Spec.Replicas = 2 })
				if done := w.want("after a change", "deploy=COMPLETE a=COMPLETE b=COMPLETE c=COMPLETE").Condition("Deployed"); done.Status != metav1.ConditionTrue {
					t.Errorf("in the end the condition is %+v", done)
				}
			})
		})
	}
}

func TestAStepThatIsDoneAtItsDeadlineIsComplete(t *testing.T) {
	inWorld(t, func(w *world) {
		started := time.Now()
		w.done = func(string) (plans.Progress, error) {
			return plans.Progress{Done: time.Since(started) >= 10*time.Minute-time.Second}, nil
		}
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a").Deadline(10*time.Minute))))
		w.wait(time.Hour)
		w.want("after the deadline", "deploy=COMPLETE a=COMPLETE")
	})
}

func TestAStepWhoseConditionIsFalseIsSkippedAndItsChildrenAreDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		cache, err := dependents.NewSet("cache", dependents.Options{}, dependents.One("cache", func(context.Context, *Horse, *dependents.View) (*corev1.Secret, error) {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cache"}}, nil
		}))
		w.must(err)
		large := func(horse *Horse) bool { return horse.Spec.Replicas > 1 }
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", plans.Apply("cache", cache).When(large), w.does("warm").When(large), w.does("serve"))))
		exists := func() bool {
			list := &corev1.SecretList{}
			w.must(w.server.List(list))
			return len(list.Items) > 0
		}
		w.want("of a small one", "deploy=COMPLETE cache=COMPLETE warm=COMPLETE serve=COMPLETE")
		w.wantCalls("of a small one", "serve")
		if exists() {
			t.Error("a small one has the child")
		}
		w.change(func(horse *Horse) { horse.Spec.Replicas = 2 })
		w.wantCalls("of a large one", "warm serve")
		if !exists() {
			t.Error("a large one does not have the child")
		}
		w.change(func(horse *Horse) { horse.Spec.Replicas = 1 })
		w.want("of one that is small again", "deploy=COMPLETE cache=COMPLETE warm=COMPLETE serve=COMPLETE")
		if exists() {
			t.Error("one that is small again has the child")
		}
	})
}

func TestADeadlineOrAConditionThatIsWrongIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		for want, step := range map[string]step{
			"Deadline is 10ms; allowed is 1s and above": w.does("a").Deadline(10 * time.Millisecond),
			"Deadline is 0s; allowed is 1s and above":   w.does("a").Deadline(0),
			"When has no condition":                     w.does("a").When(nil),
		} {
			if _, err := plans.NewRunner(planOf, plans.NewPlan("deploy", plans.NewPhase("one", step))); err == nil || !strings.Contains(err.Error(), `step "a" in phase "one" of plan "deploy": `+want) {
				t.Errorf("the error is %v, want %q", err, want)
			}
		}
	})
}
