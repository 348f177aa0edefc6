package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/util/validation"
)

// PausedBy makes the controller leave alone the objects that have an annotation with the value "true". Such
// an object is not reconciled, not even while it is being deleted, and its finalizers stay. When the
// annotation is removed, that change makes a request. A kind that is kept as a projection must keep its
// annotations.
func PausedBy(annotation string) Option {
	return option(func(d *definition) { d.pausedBy = append(d.pausedBy, annotation) })
}

// pausing returns a reconciler that skips paused objects.
func pausing(of *watched, annotations []string, reconcile operators.Reconciler) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		if store := of.store(); store != nil {
			if object, found := store.Get(request.NamespacedName); found {
				for _, annotation := range annotations {
					if object.GetAnnotations()[annotation] == "true" {
						Logger(ctx).Debug("the object is paused", "annotation", annotation)
						return 0, nil
					}
				}
			}
		}
		return reconcile(ctx, request)
	}
}

// changesPause returns a predicate for changes of the annotations that pause.
func changesPause(annotations []string) Predicate {
	return func(change streams.Change) bool {
		if change.Old == nil || change.New == nil {
			return true
		}
		for _, annotation := range annotations {
			if (change.Old.GetAnnotations()[annotation] == "true") != (change.New.GetAnnotations()[annotation] == "true") {
				return true
			}
		}
		return false
	}
}

// validatePause returns an error for an annotation that no object can have.
func validatePause(annotations []string) error {
	for _, annotation := range annotations {
		if wrong := validation.IsQualifiedName(annotation); len(wrong) > 0 {
			return fmt.Errorf("PausedBy has %q, which is not the name of an annotation: %s", annotation, strings.Join(wrong, "; "))
		}
	}
	return nil
}
