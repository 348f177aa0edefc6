package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/operators"
)

// ErrMutated is wrapped in the error of a reconcile during which an object of the cache was changed:
// see Options.DetectMutations.
var ErrMutated = errors.New("an object of the cache was changed; change a deep copy of it")

// detecting returns a reconciler that fails if an object of the cache was changed while it ran, by this
// reconciler or by another goroutine.
func detecting(held *cache.Cache, reconcile operators.Reconciler) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		end := held.BeginReads()
		defer end() // Also if the reconciler panics.
		after, err := reconcile(ctx, request)
		end()
		for _, mutation := range held.Mutations() {
			err = errors.Join(err, fmt.Errorf("%w: %s: %s", ErrMutated, mutation.Key, difference(mutation)))
		}
		return after, err
	}
}

// difference returns the paths that were changed, and never a value. A reconciler may copy a value of a Secret
// into an object of any kind, and errors end up in logs. Names of fields and keys of maps are shown.
func difference(mutation cache.Mutation) string {
	const hidden = " (values are not shown, because they may come from a Secret)"
	paths, err := history.Fields(mutation.Before, mutation.After)
	if err != nil {
		return "fields that cannot be compared" + hidden
	}
	if len(paths) == 0 {
		return "fields that are not in its JSON"
	}
	return strings.Join(paths, ", ") + hidden
}
