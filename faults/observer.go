package faults

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

type resource = schema.GroupVersionResource

// observer follows the objects of a namespace, past the proxy.
type observer struct {
	group *lifecycle.Group

	mu      sync.Mutex
	state   State
	newest  map[resource]string // the newest resource version of each kind
	err     error
	changed chan struct{} // closed and replaced with each event
}

// observe follows the objects of some kinds in a namespace until end.
func observe(ctx context.Context, client dynamic.Interface, namespace string, kinds []resource) (*observer, error) {
	o := &observer{group: lifecycle.New(context.WithoutCancel(ctx)), state: State{}, newest: map[resource]string{}, changed: make(chan struct{})}
	for _, kind := range kinds {
		o.newest[kind] = ""
	}
	for _, kind := range kinds {
		// Without a version, a watch begins with the objects that exist.
		watcher, err := client.Resource(kind).Namespace(namespace).Watch(o.group.Context(), metav1.ListOptions{})
		if err != nil {
			o.group.Stop()
			_ = o.group.Wait() // The functions return no errors.
			return nil, fmt.Errorf("watch %s: %w", kind.Resource, err)
		}
		o.group.Go(kind.Resource, func(ctx context.Context) error {
			defer watcher.Stop()
			for event := range watcher.ResultChan() {
				o.take(kind, event)
			}
			if ctx.Err() == nil {
				o.take(kind, watch.Event{Type: watch.Error})
			}
			return nil
		})
	}
	return o, nil
}

func (o *observer) take(kind resource, event watch.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	object, is := event.Object.(*unstructured.Unstructured)
	if is {
		o.newest[kind] = newer(o.newest[kind], object.GetResourceVersion())
	}
	switch {
	case !is || event.Type == watch.Error:
		o.err = fmt.Errorf("the watch of %s ended", kind.Resource)
	case event.Type == watch.Deleted:
		delete(o.state, keyOf(kind, object.GetName()))
	default:
		o.state[keyOf(kind, object.GetName())] = object
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

// look returns the state, and a channel that is closed when it changes.
func (o *observer) look() (State, <-chan struct{}, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.state), o.changed, o.err
}

// lookAfter returns what look does, and says which change of a user the state lacks.
func (o *observer) lookAfter(user *User) (state State, lacks error, changed <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.state), user.unseen(o.state, o.newest), o.changed, o.err
}

func (o *observer) end() error {
	o.group.Stop()
	return o.group.Wait()
}
