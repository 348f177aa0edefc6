package conformance

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var deletionChecks = []check{
	{"4.1", "The garbage collector deletes the children, and they stay deleted", ofOperators, leavesDeletion},
	{"4.2", "A deletion that waits for the children completes", ofOperators, leavesForegroundDeletion},
	{"4.3", "An object that is deleted and created again gets new children", ofOperators, startsAnew},
}

func leavesDeletion(ctx context.Context, t *trial) error {
	return t.deletes(ctx, metav1.DeletePropagationBackground)
}

func leavesForegroundDeletion(ctx context.Context, t *trial) error {
	return t.deletes(ctx, metav1.DeletePropagationForeground)
}

func (t *trial) deletes(ctx context.Context, policy metav1.DeletionPropagation) error {
	if _, err := t.settled(ctx, "pegasus", 2); err != nil {
		return err
	}
	hero, err := t.get(ctx, sheroes, "pegasus") // A process may set a finalizer after the finished status.
	if err != nil {
		return err
	}
	if finalizers := hero.GetFinalizers(); len(finalizers) > 0 {
		return fmt.Errorf("it has the finalizers %v, want none", finalizers)
	}
	mark := t.proxy.mark()
	if err := t.remove(ctx, sheroes, "pegasus", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		return err
	}
	if _, err := t.await(ctx, sheroes, t.namespace, "pegasus", gone); err != nil {
		return err
	}
	for _, child := range children {
		if _, err := t.await(ctx, child, t.namespace, "pegasus", gone); err != nil {
			return err
		}
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	// The process may see the deletion of a child before the deletion of its owner, and create
	// the child again. The garbage collector then deletes that child too.
	if writes, _ := t.accepted(mark); len(writes) > 0 {
		t.note("%d writes while all was being deleted: %v", len(writes), counts(writes))
	}
	for _, child := range children {
		if _, err := t.await(ctx, child, t.namespace, "pegasus", gone); err != nil {
			return fmt.Errorf("it was created again: %w", err)
		}
	}
	return nil
}

func startsAnew(ctx context.Context, t *trial) error {
	for round := range 3 {
		if _, err := t.finished(ctx, "pegasus", 1); err != nil {
			return fmt.Errorf("in round %d: %w", round, err)
		}
		if err := t.remove(ctx, sheroes, "pegasus", metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}
