package main

import (
	"context"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
)

// reflectors returns the lower bound of everything that is built on client-go's Reflector, as
// both sides are. Each event counts as reconciled when the Reflector would store it.
func reflectors() side {
	return side{name: floor, run: func(ctx context.Context, world *world, recorder *recorder) error {
		group := lifecycle.New(ctx)
		for i, feed := range world.feeds {
			lister := cache.NewListWatchFromClient(world.clients[i], feed.script.kind.Resource(), metav1.NamespaceAll, fields.Everything())
			reflector := cache.NewReflectorWithOptions(lister, feed.script.kind.New(), &counted{recorder, i}, cache.ReflectorOptions{})
			group.Go("reflector", func(ctx context.Context) error {
				reflector.RunWithContext(ctx)
				return nil
			})
		}
		return group.Wait()
	}}
}

// counted is a store of one kind that stores nothing.
type counted struct {
	recorder *recorder
	kind     int
}

var _ cache.ReflectorStore = (*counted)(nil)

func (c *counted) Add(object any) error    { return c.Update(object) }
func (c *counted) Delete(object any) error { return c.Update(object) }
func (c *counted) Resync() error           { return nil }

func (c *counted) Update(object any) error {
	updated := object.(metav1.Object)
	c.recorder.reconciles.Add(1)
	c.recorder.sawNow(c.kind, updated)
	return nil
}

func (c *counted) Replace(objects []any, _ string) error {
	for _, object := range objects {
		c.recorder.sawNow(c.kind, object.(metav1.Object))
	}
	return nil
}
