package states

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// observer follows the objects of the subject and its children in all namespaces. It uses client-go's
// informers, so that it shares no code with the runtime of the operator.
type observer struct {
	factory dynamicinformer.DynamicSharedInformerFactory
	stop    context.CancelFunc

	mu     sync.Mutex
	spaces map[string]*space
}

// space is a namespace as it was last seen.
type space struct {
	objects map[string]*unstructured.Unstructured // by kind and name
	changed chan struct{}                         // closed at the next change
	last    time.Time                             // of the last change
	events  map[string]int                        // the number of changes by kind and name
}

// observe follows resources until close is called. It returns when they are listed.
func observe(ctx context.Context, client dynamic.Interface, resources []schema.GroupVersionResource) (*observer, error) {
	ctx, stop := context.WithCancel(ctx)
	o := &observer{factory: dynamicinformer.NewDynamicSharedInformerFactory(client, 0), stop: stop, spaces: map[string]*space{}}
	for _, resource := range resources {
		_, err := o.factory.ForResource(resource).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { o.see(object, false) },
			UpdateFunc: func(_, object any) { o.see(object, false) },
			DeleteFunc: func(object any) { o.see(object, true) },
		})
		if err != nil {
			stop()
			return nil, fmt.Errorf("states: follow %s: %w", resource.Resource, err)
		}
	}
	o.factory.Start(ctx.Done())
	for resource, listed := range o.factory.WaitForCacheSync(ctx.Done()) {
		if !listed {
			o.close()
			return nil, fmt.Errorf("states: list %s: %w", resource.Resource, context.Cause(ctx))
		}
	}
	return o, nil
}

func (o *observer) close() {
	o.stop()
	o.factory.Shutdown()
}

// isOfTheCluster reports whether Kubernetes creates an object in each namespace.
func isOfTheCluster(object *unstructured.Unstructured) bool {
	return (object.GetKind() == "ConfigMap" && object.GetName() == "kube-root-ca.crt") ||
		(object.GetKind() == "ServiceAccount" && object.GetName() == "default")
}

func (o *observer) see(item any, gone bool) {
	if last, is := item.(cache.DeletedFinalStateUnknown); is {
		item = last.Obj
	}
	object, ok := item.(*unstructured.Unstructured)
	if !ok || isOfTheCluster(object) {
		return
	}
	key := object.GetKind() + " " + object.GetName()
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.space(object.GetNamespace())
	if gone {
		delete(at.objects, key)
	} else {
		at.objects[key] = object
	}
	at.last = time.Now()
	at.events[key]++
	close(at.changed)
	at.changed = make(chan struct{})
}

// space returns a namespace. The caller holds the lock.
func (o *observer) space(namespace string) *space {
	at := o.spaces[namespace]
	if at == nil {
		at = &space{map[string]*unstructured.Unstructured{}, make(chan struct{}), time.Now(), map[string]int{}}
		o.spaces[namespace] = at
	}
	return at
}

// objectsIn returns the objects of a namespace, in the order of kinds and names.
func (o *observer) objectsIn(namespace string) []*unstructured.Unstructured {
	objects, _, _ := o.look(namespace)
	return objects
}

func (o *observer) look(namespace string) (objects []*unstructured.Unstructured, changed <-chan struct{}, last time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.space(namespace)
	for _, key := range slices.Sorted(maps.Keys(at.objects)) {
		objects = append(objects, at.objects[key])
	}
	return objects, at.changed, at.last
}

// changesIn returns how often each object of a namespace has changed.
func (o *observer) changesIn(namespace string) map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.space(namespace).events)
}

// await waits until a check holds for a namespace that has not changed for the quiet time. It returns
// the context's error if the context ends first.
func (o *observer) await(ctx context.Context, namespace string, quiet time.Duration, check func([]*unstructured.Unstructured) bool) error {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		objects, changed, last := o.look(namespace)
		var calm <-chan time.Time
		if check(objects) {
			left := quiet - time.Since(last)
			if left <= 0 {
				return nil
			}
			timer.Reset(left)
			calm = timer.C
		}
		select {
		case <-changed:
		case <-calm:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
