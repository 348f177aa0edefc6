package dependents_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/dependents"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionsOf returns the conditions of an owner, which is a ConfigMap and has them in an annotation.
func conditionsOf(owner *corev1.ConfigMap) (conditions []metav1.Condition) {
	_ = json.Unmarshal([]byte(owner.Annotations["conditions"]), &conditions) // At first there are none.
	return conditions
}

// run runs a manager whose reconciler stores the conditions of a set.
func (w *world) run(set *dependents.Set[*corev1.ConfigMap]) {
	w.t.Helper()
	w.Start(0, false, nil, func(manager *controller.Manager) {
		c := manager.Client()
		reconcile := func(ctx context.Context, owner *corev1.ConfigMap) (controller.Result, error) {
			outcome, conditions := set.Reconcile(ctx, c, owner), conditionsOf(owner)
			w.mu.Lock()
			w.outcomes = append(w.outcomes, outcome)
			w.mu.Unlock()
			if outcome.SetConditions(&conditions, owner.Generation) {
				encoded, err := json.Marshal(conditions)
				w.must(err)
				changed := owner.DeepCopy()
				metav1.SetMetaDataAnnotation(&changed.ObjectMeta, "conditions", string(encoded))
				if _, err := controller.Patch(ctx, c, changed, controller.MergeFrom(owner)); err != nil {
					return controller.Result{}, err
				}
			}
			return outcome.Result()
		}
		w.must(manager.Add("owners", controller.Typed(c, controller.TypedReconciler[*corev1.ConfigMap]{Reconcile: reconcile}),
			append(set.Owns(), controller.For(&corev1.ConfigMap{}))...))
	})
}

// condition returns the condition of a dependent in the status of the owner.
func (w *world) condition(name string) metav1.Condition {
	w.t.Helper()
	owner := w.owner()
	w.must(w.server.Get(owner))
	found := meta.FindStatusCondition(conditionsOf(owner), "dependents.bellerophon.io/"+name)
	if found == nil {
		w.t.Fatalf("the owner has no condition for %s: %v", name, owner.Annotations)
	}
	return *found
}

func TestADependentThatIsNotReadyAtItsDeadlineFailsUntilItIsReady(t *testing.T) {
	inWorld(t, func(w *world) {
		a := slow(secret("a")).Deadline(10*time.Minute, conditionsOf)
		b := slow(secret("b")).After(a).Deadline(30*time.Second, conditionsOf)
		set := w.newSet(a, b)
		began := time.Now()
		w.run(set)
		if waits := w.condition("a"); waits.Status != metav1.ConditionFalse || waits.Reason != "Progressing" || !strings.Contains(waits.Message, "it is not ready") || waits.LastTransitionTime.Sub(began) > time.Second {
			t.Errorf("while it waits the condition is %+v", waits)
		}
		if waits := w.condition("b"); waits.Status != metav1.ConditionUnknown || waits.Reason != "Waiting" {
			t.Errorf("while it waits for a, the condition of b is %+v", waits)
		}
		w.stop() // The deadline outlives the process.
		w.wait(5 * time.Minute)
		w.run(set)
		w.wantStates("before the deadline", "a=Progressing b=Waiting")
		w.wait(time.Until(began.Add(10*time.Minute + time.Second)))
		w.wantStates("after the deadline", "a=Failed b=Waiting")
		if failed := w.condition("a"); failed.Reason != dependents.DeadlineExceeded || failed.Status != metav1.ConditionFalse || failed.LastTransitionTime.Sub(began) > time.Second {
			t.Errorf("after the deadline the condition is %+v", failed)
		}
		if err := w.last().Err(); !errors.Is(err, dependents.ErrDeadline) || !strings.Contains(err.Error(), "it was not ready within 10m0s: a: it is not ready") {
			t.Errorf("the error is %v", err)
		}
		calls := w.calls()
		if w.wait(time.Hour); w.calls() != calls {
			t.Errorf("the failure is retried: %d calls, then %d", calls, w.calls())
		}
		w.markReady("a", true)
		w.wantStates("when a is ready", "a=Ready b=Failed") // markReady waits for a minute.
		if ready := w.condition("a"); ready.Status != metav1.ConditionTrue || ready.Reason != "Ready" {
			t.Errorf("when a is ready its condition is %+v", ready)
		}
		w.markReady("b", true)
		w.wantStates("in the end", "a=Ready b=Ready")
	})
}

func TestADeadlineOfADependentThatIsWrongIsRefused(t *testing.T) {
	for want, of := range map[string]*child{
		"Deadline is 1ms; allowed is 1s and above": secret("a").Deadline(time.Millisecond, conditionsOf),
		"Deadline has no function":                 secret("a").Deadline(time.Minute, nil),
	} {
		if _, err := dependents.NewSet("test", dependents.Options{}, of); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

func TestADeadlineStartsAnewWithTheGeneration(t *testing.T) {
	since := func(o dependents.Outcome, conditions []metav1.Condition, generation int64) metav1.Time {
		if !o.SetConditions(&conditions, generation) {
			t.Error("nothing changed")
		}
		return conditions[0].LastTransitionTime
	}
	inWorld(t, func(w *world) {
		w.run(w.newSet(slow(secret("a")).Deadline(time.Hour, conditionsOf)))
		outcome, before := w.last(), w.condition("a").LastTransitionTime
		w.wait(time.Minute)
		outcome.Dependents[0].Since = time.Now()
		owner := w.owner()
		w.must(w.server.Get(owner))
		if after := since(outcome, conditionsOf(owner), 2); !before.Before(&after) {
			t.Errorf("the condition is false since %v, as with the generation before", after)
		}
	})
}
