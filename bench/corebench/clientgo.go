package main

import (
	"context"
	"fmt"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// clientGo returns a controller on plain client-go: one shared informer for each kind, handlers
// that add keys to a queue, and workers.
func clientGo() side {
	return side{name: "client-go", run: func(ctx context.Context, world *world, recorder *recorder) error {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())
		var informers []cache.SharedIndexInformer
		for i := range world.feeds {
			informer, err := newInformer(world, i, queue.Add)
			if err != nil {
				return err
			}
			informers = append(informers, informer)
		}
		reconcile := func(name types.NamespacedName) {
			recorder.reconcile(name.Name, func(kind int) (metav1.Object, bool) {
				object, found, err := informers[kind].GetIndexer().GetByKey(name.Namespace + "/" + name.Name)
				if err != nil || !found {
					return nil, false
				}
				return object.(metav1.Object), true
			})
		}
		group := lifecycle.New(ctx)
		for _, informer := range informers {
			group.Go("informer", func(ctx context.Context) error {
				informer.RunWithContext(ctx)
				return nil
			})
		}
		for range workers {
			group.Go("worker", func(context.Context) error {
				for {
					name, shutDown := queue.Get()
					if shutDown {
						return nil
					}
					reconcile(name)
					queue.Forget(name)
					queue.Done(name)
				}
			})
		}
		group.Go("queue", func(ctx context.Context) error {
			<-ctx.Done()
			queue.ShutDown()
			return nil
		})
		return group.Wait()
	}}
}

// ownerIndex is the index by owner that Bellerophon's manager has for every kind. Bellerophon's
// cache also lists by namespace; client-go has its own index for that.
const ownerIndex = "owner"

func byOwner(object any) ([]string, error) {
	var uids []string
	for _, owner := range object.(metav1.Object).GetOwnerReferences() {
		uids = append(uids, string(owner.UID))
	}
	return uids, nil
}

// newInformer creates the informer of a kind. Events of the first kind enqueue the object itself.
// Events of the other kinds enqueue the controller of the object.
func newInformer(world *world, kind int, add func(types.NamespacedName)) (cache.SharedIndexInformer, error) {
	script := world.feeds[kind].script
	informer := cache.NewSharedIndexInformerWithOptions(
		cache.NewListWatchFromClient(world.clients[kind], script.kind.Resource(), metav1.NamespaceAll, fields.Everything()),
		script.kind.New(),
		cache.SharedIndexInformerOptions{Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, ownerIndex: byOwner}})
	transform := func(object any) (any, error) {
		if kept, ok := object.(streams.Object); ok {
			world.keep(kept)
		}
		return object, nil
	}
	if err := informer.SetTransform(transform); err != nil {
		return nil, fmt.Errorf("set the transform of %s: %w", script.kind.Kind, err)
	}
	enqueue := func(object any) {
		meta, ok := object.(metav1.Object)
		if !ok {
			return // The tombstone of a missed deletion. The load deletes nothing.
		}
		name := types.NamespacedName{Namespace: meta.GetNamespace(), Name: meta.GetName()}
		if kind > 0 {
			owner := metav1.GetControllerOfNoCopy(meta)
			if owner == nil || owner.Kind != world.feeds[0].script.kind.Kind {
				return
			}
			name.Name = owner.Name
		}
		add(name)
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, updated any) { enqueue(updated) },
		DeleteFunc: enqueue,
	})
	if err != nil {
		return nil, fmt.Errorf("add a handler to the informer of %s: %w", script.kind.Kind, err)
	}
	return informer, nil
}
