package loop

import (
	"context"
	"sync"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// guard ends the use of a container that no longer runs. An exec may stay open for ever after its container has ended,
// and the reconciler, which waits for it, would not see the pod's events.
type guard struct {
	client  *controller.Client
	changes streams.Stream[streams.Change]

	mu    sync.Mutex
	place container.Place
	end   context.CancelCauseFunc // nil while no container is used
}

// use returns a context that ends with container.ErrGone when the container of a place no longer runs. The caller must
// call done.
func (g *guard) use(ctx context.Context, place container.Place) (bound context.Context, done func()) {
	bound, end := context.WithCancelCause(ctx)
	g.mu.Lock()
	g.place, g.end = place, end
	g.mu.Unlock()
	g.check(ctx) // It may have ended before.
	return bound, func() {
		g.mu.Lock()
		g.end = nil
		g.mu.Unlock()
		end(nil)
	}
}

// run looks at each change of pods until ctx ends.
func (g *guard) run(ctx context.Context) error {
	return streams.ForEach(ctx, g.changes, func(changes []streams.Change) {
		for _, change := range changes {
			for _, object := range []streams.Object{change.Old, change.New} {
				if _, is := object.(*corev1.Pod); is {
					g.check(ctx)
					return
				}
			}
		}
	}, func(error) { g.check(ctx) }) // Changes may have been missed.
}

// check ends the use of the container if it no longer runs.
func (g *guard) check(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.end != nil && !g.runs(ctx, g.place) {
		g.end(container.ErrGone)
	}
}

// runs reports whether the container of a place runs, as far as the cache has seen.
func (g *guard) runs(ctx context.Context, place container.Place) bool {
	pod, err := controller.Get[*corev1.Pod](ctx, g.client, types.NamespacedName{Namespace: place.Namespace, Name: place.Pod})
	if err != nil {
		return controller.IgnoreNotFound(err) != nil
	}
	if pod.UID != place.PodUID || pod.DeletionTimestamp != nil {
		return false
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == place.Container {
			return status.ContainerID == place.ID && status.State.Running != nil
		}
	}
	return false
}
