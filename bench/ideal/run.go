package ideal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Run writes children and status for every object that is created in any namespace, until ctx
// ends. inFlight is the number of objects that are written at once: 1 to 1024. If progress is not 0,
// the status also tells progress, once, when an object is not finished that long after its first write.
// While the API server is the bottleneck it waits longer, as the contract of the comparison allows. A
// failure is logged and not retried.
func Run(ctx context.Context, config *rest.Config, inFlight int, progress time.Duration, log *slog.Logger) error {
	c, err := newClient(config, "", inFlight)
	if err != nil {
		return err
	}
	c.progress = progress
	defer c.Close()
	c.group = lifecycle.New(ctx)
	failed := func(err error) {
		if err != nil && !errors.Is(err, context.Canceled) {
			log.Warn("an object is not finished and not retried", "error", err)
		}
	}
	c.done = func(_ types.NamespacedName, err error) { failed(err) }
	err = errors.Join(c.followServers(ctx), c.followHeroes(ctx, func(kind watch.EventType, hero *v1.BellerophonSimple) {
		if kind != watch.Added || hero.Status.ObservedGeneration > 0 || hero.DeletionTimestamp != nil {
			return
		}
		c.group.Go("children", func(ctx context.Context) error {
			if err := c.slot(ctx); err != nil {
				return err
			}
			defer c.free()
			failed(c.children(ctx, hero))
			return nil
		})
	}))
	if err != nil {
		c.group.Stop()
	}
	return errors.Join(err, c.group.Wait())
}

// Burst is a number of objects to create and finish.
type Burst struct {
	Namespace string // the namespace of the objects; it has to exist
	Prefix    string // the prefix of their names, which end with a number
	Objects   int    // the number of objects: 1 or more
	InFlight  int    // the number of objects that are written at once: 1 to 1024
	Replicas  int32  // the replicas of each object
}

// Result is the result of a [Burst].
type Result struct {
	// Elapsed is the time from the first write to the answer to the last write.
	Elapsed time.Duration
	// Latencies holds one duration for each object, in the order in which the objects were
	// finished. It is the time from the request that creates the object to the answer to the
	// write of its finished status.
	Latencies []time.Duration
	// Writes is the number of writes for all objects, including the creation of the objects.
	Writes int
}

// Run creates the objects and brings each object to its finished status. It returns when all
// objects are finished, at the first failure, or when ctx ends.
func (b Burst) Run(ctx context.Context, config *rest.Config) (*Result, error) {
	if b.Objects < 1 || b.Replicas < 0 || b.Namespace == "" {
		return nil, fmt.Errorf("ideal: Namespace is %q, Objects is %d and Replicas is %d; give a namespace, one object or more, and replicas from 0 up",
			b.Namespace, b.Objects, b.Replicas)
	}
	c, err := newClient(config, b.Namespace, b.InFlight)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.group = lifecycle.New(ctx)
	type end struct {
		name types.NamespacedName
		at   time.Time
		err  error
	}
	ends := make(chan end, b.Objects)
	c.done = func(name types.NamespacedName, err error) { ends <- end{name, time.Now(), err} }
	if err := c.followServers(ctx); err != nil {
		c.group.Stop()
		return nil, errors.Join(err, c.group.Wait())
	}
	result, began := &Result{}, time.Now()
	created := make(map[types.NamespacedName]time.Time, b.Objects) // held by c.mu
	c.group.Go("objects", func(ctx context.Context) error {
		for i := range b.Objects {
			if err := c.slot(ctx); err != nil {
				return err
			}
			name := types.NamespacedName{Namespace: b.Namespace, Name: fmt.Sprintf("%s-%d", b.Prefix, i)}
			c.group.Go(name.Name, func(ctx context.Context) error {
				defer c.free()
				c.mu.Lock()
				created[name] = time.Now()
				c.writes++
				c.mu.Unlock()
				return c.object(ctx, name.Name, b.Replicas)
			})
		}
		return nil
	})
	for len(result.Latencies) < b.Objects && err == nil {
		select {
		case end := <-ends:
			c.mu.Lock()
			result.Latencies = append(result.Latencies, end.at.Sub(created[end.name]))
			c.mu.Unlock()
			err = end.err
		case <-c.group.Context().Done():
			err = context.Cause(c.group.Context())
		}
	}
	result.Elapsed = time.Since(began)
	c.group.Stop()
	// The error that stopped the group is more useful than the error that it was stopped.
	if stopped := c.group.Wait(); stopped != nil {
		err = stopped
	}
	if err != nil {
		return nil, fmt.Errorf("run a burst of %d objects: %w", b.Objects, err)
	}
	result.Writes = c.writes
	return result, nil
}

// object creates an object and its children. The caller holds a slot.
func (c *client) object(ctx context.Context, name string, replicas int32) error {
	hero := &v1.BellerophonSimple{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.BellerophonSimpleSpec{Replicas: new(replicas)},
	}
	made := &v1.BellerophonSimple{}
	if err := c.Heroes().Post().Namespace(c.namespace).Resource(v1.Plural).Body(hero).Do(ctx).Into(made); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	return c.children(ctx, made)
}
