package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
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
	patch, err := patchOfMutation(mutation)
	var changed any
	if err == nil {
		err = json.Unmarshal(patch, &changed)
	}
	if err != nil { // The error may hold a value.
		return "fields that cannot be compared" + hidden
	}
	paths := pathsOf(nil, "", changed)
	if len(paths) == 0 {
		return "fields that are not in its JSON"
	}
	return strings.Join(paths, ", ") + hidden
}

func patchOfMutation(mutation cache.Mutation) ([]byte, error) {
	before, err := json.Marshal(mutation.Before)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(mutation.After)
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(before, after)
}

// pathsOf appends the paths that a merge patch sets or deletes, in order.
func pathsOf(paths []string, path string, patch any) []string {
	fields, isObject := patch.(map[string]any)
	if !isObject || path != "" && len(fields) == 0 { // The last case is a map that is set to {}.
		return append(paths, path)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		within := path + "." + name
		switch {
		case path == "":
			within = name
		case strings.Contains(name, "."):
			within = path + "[" + name + "]"
		}
		paths = pathsOf(paths, within, fields[name])
	}
	return paths
}
