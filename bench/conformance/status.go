package conformance

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// state is a row of the table of states in the contract.
type state map[string]struct {
	status metav1.ConditionStatus
	reason string
}

var progressing = state{
	v1.ConditionReady:       {metav1.ConditionFalse, v1.ReasonReplicasNotReady},
	v1.ConditionProgressing: {metav1.ConditionTrue, v1.ReasonRollingOut},
	v1.ConditionDegraded:    {metav1.ConditionFalse, v1.ReasonRollingOut},
}

// finished returns the row for an object whose servers are finished.
func finished(hero *v1.BellerophonSimple) state {
	reason := v1.ReasonAllReplicasReady
	if *hero.Spec.Replicas == 0 {
		reason = v1.ReasonScaledToZero
	}
	return state{
		v1.ConditionReady:       {metav1.ConditionTrue, reason},
		v1.ConditionProgressing: {metav1.ConditionFalse, reason},
		v1.ConditionDegraded:    {metav1.ConditionFalse, reason},
	}
}

// check returns an error if the status of an object differs from the contract's row.
func (s state) check(hero *v1.BellerophonSimple, replicas, ready int32) error {
	var wrong []error
	is := func(field string, got, want any) {
		if got != want {
			wrong = append(wrong, fmt.Errorf("status.%s is %v, want %v", field, got, want))
		}
	}
	is("observedGeneration", hero.Status.ObservedGeneration, hero.Generation)
	is("replicas", hero.Status.Replicas, replicas)
	is("readyReplicas", hero.Status.ReadyReplicas, ready)
	is("selector", hero.Status.Selector, "app.kubernetes.io/instance="+hero.Name+",app.kubernetes.io/name=bellerophon-simple")
	is("conditions' number", len(hero.Status.Conditions), len(s))
	for _, kind := range []string{v1.ConditionReady, v1.ConditionProgressing, v1.ConditionDegraded} {
		condition := meta.FindStatusCondition(hero.Status.Conditions, kind)
		if condition == nil {
			wrong = append(wrong, fmt.Errorf("there is no condition %s", kind))
			continue
		}
		is(kind+".status", condition.Status, s[kind].status)
		is(kind+".reason", condition.Reason, s[kind].reason)
		is(kind+".observedGeneration", condition.ObservedGeneration, hero.Generation)
		if condition.LastTransitionTime.IsZero() {
			wrong = append(wrong, fmt.Errorf("status.%s.lastTransitionTime is not set", kind))
		}
	}
	return errors.Join(wrong...)
}

// awaitFinished waits for the finished status at the object's generation or a later one.
func (t *trial) awaitFinished(ctx context.Context, hero *v1.BellerophonSimple) (*v1.BellerophonSimple, error) {
	var is *v1.BellerophonSimple
	_, err := t.await(ctx, sheroes, hero.Namespace, hero.Name, func(object *unstructured.Unstructured) (err error) {
		if object == nil {
			return errors.New("it does not exist")
		}
		if is, err = typed(object); err != nil {
			return err
		}
		if is.UID != hero.UID || is.Generation < hero.Generation {
			return errors.New("it is an earlier object or generation")
		}
		return finished(is).check(is, *is.Spec.Replicas, *is.Spec.Replicas)
	})
	return is, err
}

// awaitChildren waits until the children are exactly as the contract requires.
func (t *trial) awaitChildren(ctx context.Context, hero *v1.BellerophonSimple) error {
	want, err := t.wanted(ctx, hero)
	if err != nil {
		return err
	}
	for i, child := range children {
		got, err := t.await(ctx, child, hero.Namespace, hero.Name, func(object *unstructured.Unstructured) error {
			if object == nil {
				return errors.New("it does not exist")
			}
			return same(want[i], object)
		})
		if err != nil {
			return err
		}
		if keys := foreignAnnotations(got); len(keys) > 0 {
			t.note("%s has annotations that are not in the contract: %v", child.Resource, keys)
		}
	}
	return nil
}

// awaitAll waits until an object has its children and its finished status.
func (t *trial) awaitAll(ctx context.Context, hero *v1.BellerophonSimple) (*v1.BellerophonSimple, error) {
	is, err := t.awaitFinished(ctx, hero)
	if err != nil {
		return nil, err
	}
	return is, t.awaitChildren(ctx, is)
}
