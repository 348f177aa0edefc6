package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// ErrMutated is in the error of a reconcile during which an object of the cache was
// changed: see [Options].
var ErrMutated = errors.New("an object of the cache was changed; change a deep copy of it")

// detecting is a reconciler that fails when it, or what runs beside it, changes what the
// cache holds.
func detecting(held *cache.Cache, reconcile operators.Reconciler) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		after, err := reconcile(ctx, request)
		for _, mutation := range held.Mutations() {
			err = errors.Join(err, fmt.Errorf("%w: %s: %s", ErrMutated, mutation.Key, difference(mutation)))
		}
		return after, err
	}
}

// difference is what was changed, as a merge patch.
func difference(mutation cache.Mutation) string {
	before, err := json.Marshal(mutation.Before)
	if err != nil {
		return err.Error()
	}
	after, err := json.Marshal(mutation.After)
	if err != nil {
		return err.Error()
	}
	patch, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return err.Error()
	}
	return string(patch)
}
