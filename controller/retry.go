package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// conflictBackoff is the wait between attempts after conflicts: 10 ms, then longer, 1.5 s in all.
var conflictBackoff = wait.Backoff{Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8}

// RetryOnConflict changes an object by optimistic concurrency: it reads the object, calls change with a
// copy, and sends the difference on condition that no other client has changed the object meanwhile. After
// such a change it starts again with the changed object, up to eight times. It returns the object
// as the API server stored it. If change changes nothing, nothing is sent.
//
// The first attempt reads the object from the cache if the cache has it whole, and the others read it
// from the API server. change may be called several times, and must not keep its argument. An error of
// change ends the attempts and is returned as it is. With Subresource("status"), only changes of the
// status are sent; without it, changes of the status are ignored.
//
//	_, err := controller.RetryOnConflict(ctx, client, name, func(config *corev1.ConfigMap) error {
//		config.Data["leader"] = me
//		return nil
//	})
func RetryOnConflict[T streams.Object](ctx context.Context, c *Client, name types.NamespacedName, change func(object T) error, options ...WriteOption) (T, error) {
	how, err := writingOf(options, mayNameSubresource)
	if err != nil {
		return *new(T), fmt.Errorf("cannot patch %s: %w", name, err)
	}
	var of []ReadOption
	if !how.kind.Empty() {
		of = []ReadOption{OfKind(how.kind)}
	}
	before, err := Get[T](ctx, c, name, of...)
	if errors.Is(err, ErrPartial) || errors.Is(err, ErrNotWatched) || apierrors.IsNotFound(err) { // The cache may be late.
		before, err = GetLive[T](ctx, c, name, of...)
	}
	backoff := conflictBackoff
	for {
		if err != nil {
			return *new(T), err
		}
		after := before.DeepCopyObject().(T)
		if err := change(after); err != nil {
			return *new(T), err
		}
		written, conflict := Patch(ctx, c, after, MergeFrom(before), options...)
		if !apierrors.IsConflict(conflict) {
			return written, conflict
		}
		if backoff.Steps == 0 {
			return *new(T), fmt.Errorf("giving up after %d conflicts: %w", conflictBackoff.Steps+1, conflict)
		}
		if err := lifecycle.Pause(ctx, backoff.Step()); err != nil {
			return *new(T), errors.Join(err, conflict)
		}
		before, err = GetLive[T](ctx, c, name, of...)
	}
}
