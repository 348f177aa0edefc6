package ideal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bench/connection"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// selector selects the StatefulSets that the client creates.
const selector = "app.kubernetes.io/managed-by=bellerophon,app.kubernetes.io/name=bellerophon-simple"

// client writes the children and the status of objects.
type client struct {
	*connection.Connection
	namespace string        // empty is all namespaces
	slots     chan struct{} // its capacity is the number of objects that may be written at once
	progress  time.Duration // how long an object is unfinished at least until its status says so; 0 is for ever

	group  *lifecycle.Group
	done   func(name types.NamespacedName, err error) // called with the result of each status write
	mu     sync.Mutex
	known  map[types.NamespacedName]*object // the objects whose finished status is not written yet
	lag    lag
	writes int
}

// object is an object whose finished status is not written yet.
type object struct {
	hero     *v1.BellerophonSimple
	began    time.Time
	followed bool // the StatefulSet controller has seen its servers
	telling  bool // its progressing status is being written
	finished bool // its servers were finished meanwhile
}

// newClient creates a client whose requests share one connection.
func newClient(config *rest.Config, namespace string, inFlight int) (*client, error) {
	if inFlight < 1 || inFlight > 1024 {
		return nil, fmt.Errorf("ideal: InFlight is %d; allowed is 1 to 1024", inFlight)
	}
	shared, err := connection.New(config)
	if err != nil {
		return nil, err
	}
	return &client{
		Connection: shared, namespace: namespace,
		slots: make(chan struct{}, inFlight), known: map[types.NamespacedName]*object{},
	}, nil
}

// slot waits until another object may be written.
func (c *client) slot(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *client) free() { <-c.slots }

// children writes the children of an object. The caller holds a slot.
func (c *client) children(ctx context.Context, hero *v1.BellerophonSimple) error {
	config, service, servers := childrenOf(hero)
	c.mu.Lock()
	c.known[nameOf(hero)] = &object{hero: hero, began: time.Now()} // The servers may be finished before the answers arrive.
	c.writes += 3
	c.mu.Unlock()
	var failed [3]error
	group := lifecycle.New(ctx)
	group.Go("ConfigMap", func(ctx context.Context) error {
		_, failed[0] = c.Core().CoreV1().ConfigMaps(hero.Namespace).Create(ctx, config, metav1.CreateOptions{})
		return nil
	})
	group.Go("Service", func(ctx context.Context) error {
		_, failed[1] = c.Core().CoreV1().Services(hero.Namespace).Create(ctx, service, metav1.CreateOptions{})
		return nil
	})
	group.Go("StatefulSet", func(ctx context.Context) error {
		_, failed[2] = c.Core().AppsV1().StatefulSets(hero.Namespace).Create(ctx, servers, metav1.CreateOptions{})
		return nil
	})
	if err := errors.Join(group.Wait(), errors.Join(failed[:]...)); err != nil {
		return fmt.Errorf("create the children of %s: %w", nameOf(hero), err)
	}
	if c.progress > 0 {
		c.group.Go("progress", func(ctx context.Context) error { return c.tell(ctx, hero) })
	}
	return nil
}

// tell writes a progressing status, unless the object is finished before the contract asks for it.
func (c *client) tell(ctx context.Context, hero *v1.BellerophonSimple) error {
	for {
		left := c.held(hero, time.Now())
		if left <= 0 {
			break
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
	if err := c.slot(ctx); err != nil {
		return err
	}
	name := nameOf(hero)
	c.mu.Lock()
	known := c.known[name]
	if known != nil {
		known.telling = true
		c.writes++
	}
	c.mu.Unlock()
	if known == nil {
		c.free()
		return nil
	}
	err := c.writeStatus(ctx, hero, progressingStatus(hero, time.Now()))
	c.free()
	if err != nil {
		c.done(name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known.telling = false; known.finished {
		c.finish(known)
	}
	return nil
}

// held returns how long the progressing status of an object may still be left out, or 0 if it is finished.
func (c *client) held(hero *v1.BellerophonSimple, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.known[nameOf(hero)]
	if known == nil {
		return 0
	}
	return known.began.Add(max(c.progress, c.lag.held(now))).Sub(now)
}

// seen writes the status of the object when its servers are finished.
func (c *client) seen(servers *appsv1.StatefulSet) {
	name := nameOf(servers)
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.known[name]
	if known == nil {
		return
	}
	if !known.followed && servers.Status.ObservedGeneration >= servers.Generation {
		now := time.Now()
		c.lag.took(now.Sub(known.began), now)
		known.followed = true
	}
	if !isFinished(servers, *known.hero.Spec.Replicas) {
		return
	}
	if known.finished = true; !known.telling { // Otherwise the older status could arrive last.
		c.finish(known)
	}
}

// finish writes the finished status of an object. The caller holds the lock.
func (c *client) finish(known *object) {
	hero, name := known.hero, nameOf(known.hero)
	delete(c.known, name)
	c.writes++
	c.group.Go("status", func(ctx context.Context) error {
		if err := c.slot(ctx); err != nil {
			return err
		}
		err := c.writeStatus(ctx, hero, finishedStatus(hero, time.Now()))
		c.free()
		c.done(name, err)
		return nil
	})
}

func (c *client) writeStatus(ctx context.Context, hero *v1.BellerophonSimple, status v1.BellerophonSimpleStatus) error {
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	err = c.Heroes().Patch(types.MergePatchType).Namespace(hero.Namespace).Resource(v1.Plural).Name(hero.Name).
		SubResource("status").Body(body).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("write the status of %s: %w", nameOf(hero), err)
	}
	return nil
}

// followServers reads all StatefulSets, and follows them until the group ends. It returns when it
// has read the existing ones.
func (c *client) followServers(ctx context.Context) error {
	sets := c.Core().AppsV1().StatefulSets(c.namespace)
	return follow(ctx, c.group, "StatefulSets", &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			return sets.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return sets.Watch(ctx, options)
		},
	}, func(_ watch.EventType, object runtime.Object) {
		if servers, ok := object.(*appsv1.StatefulSet); ok {
			c.seen(servers)
		}
	})
}

// followHeroes reads and follows the objects themselves in the same way.
func (c *client) followHeroes(ctx context.Context, each func(watch.EventType, *v1.BellerophonSimple)) error {
	request := func(options metav1.ListOptions) *rest.Request {
		return c.Heroes().Get().NamespaceIfScoped(c.namespace, c.namespace != "").Resource(v1.Plural).VersionedParams(&options, c.ParameterCodec())
	}
	return follow(ctx, c.group, v1.Plural, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &v1.BellerophonSimpleList{}
			return list, request(options).Do(ctx).Into(list)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch = true
			return request(options).Watch(ctx)
		},
	}, func(kind watch.EventType, object runtime.Object) {
		if hero, ok := object.(*v1.BellerophonSimple); ok {
			each(kind, hero)
		}
	})
}

// follow calls each for all existing objects, and then for each event, from one goroutine. A
// watch that ends continues from its last version.
func follow(ctx context.Context, group *lifecycle.Group, what string, source *cache.ListWatch, each func(watch.EventType, runtime.Object)) error {
	list, err := source.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("read the %s: %w", what, err)
	}
	version, items, err := contentOf(list)
	if err != nil {
		return fmt.Errorf("read the %s: %w", what, err)
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(group.Context(), version, source)
	if err != nil {
		return fmt.Errorf("watch the %s: %w", what, err)
	}
	for _, item := range items {
		each(watch.Added, item)
	}
	group.Go(what, func(context.Context) error {
		defer func() { <-watcher.Done() }()
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if event.Type == watch.Error {
				return fmt.Errorf("watch the %s: %v", what, event.Object)
			}
			each(event.Type, event.Object)
		}
		return nil
	})
	return nil
}
