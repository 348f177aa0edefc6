package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var unchangedChecks = []check{
	{"5.1", "Nothing is written while idle", ofOperators, writesNothingWhileIdle},
	{"5.2", "Nothing is written for irrelevant changes", ofOperators, writesNothingForNoise},
	{"5.3", "Nothing is written when watches end and a relist is needed", ofOperators, writesNothingAfterLists},
	{"5.4", "Nothing is written after a restart", ofOperators, writesNothingAfterRestart},
}

// several creates objects of several sizes, and waits until the process writes nothing more. It
// returns the resource versions of all objects and children.
func (t *trial) several(ctx context.Context) (map[string]string, error) {
	heroes, err := t.createAll(ctx, 0, 1, 2, 3)
	if err != nil {
		return nil, err
	}
	for _, hero := range heroes {
		if _, err := t.awaitAll(ctx, hero); err != nil {
			return nil, err
		}
	}
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	return t.versions(ctx)
}

// versions returns the resource versions of all objects of the namespace and of their children.
func (t *trial) versions(ctx context.Context) (map[string]string, error) {
	held := map[string]string{}
	for _, resource := range watched {
		list, err := t.any.Resource(resource).Namespace(t.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			held[resource.Resource+"/"+list.Items[i].GetName()] = list.Items[i].GetResourceVersion()
		}
	}
	return held, nil
}

// stays returns an error if the process writes something from a mark on, within [Options.Quiet],
// or if a resource version has changed.
func (t *trial) stays(ctx context.Context, mark int, were map[string]string) error {
	if err := t.unchanged(ctx, mark); err != nil {
		return err
	}
	are, err := t.versions(ctx)
	if err != nil {
		return err
	}
	if !maps.Equal(were, are) {
		return fmt.Errorf("the resource versions were %v and are %v", were, are)
	}
	return nil
}

func writesNothingWhileIdle(ctx context.Context, t *trial) error {
	were, err := t.several(ctx)
	if err != nil {
		return err
	}
	mark := t.proxy.mark()
	if err := t.marker(ctx); err != nil { // Writes of other clients do not count.
		return err
	}
	return t.stays(ctx, mark, were)
}

func writesNothingForNoise(ctx context.Context, t *trial) error {
	if _, err := t.several(ctx); err != nil {
		return err
	}
	mark := t.proxy.mark()
	for i := range 4 {
		for _, resource := range watched {
			noise := fmt.Sprintf(`{"metadata":{"labels":{"noise":"%d"},"annotations":{"noise":"%d"}}}`, i, i)
			if _, err := t.patch(ctx, resource, fmt.Sprintf("pegasus-%d", i), noise); err != nil {
				return err
			}
		}
	}
	were, err := t.versions(ctx)
	if err != nil {
		return err
	}
	if err := t.marker(ctx); err != nil {
		return err
	}
	return t.stays(ctx, mark, were)
}

// watched lists the resources that a contender has to watch.
var watched = append(slices.Clone(children), sheroes)

// readsAll reports whether a call reads all objects of a resource.
func readsAll(c *call) bool {
	query, err := url.ParseQuery(c.query)
	if err != nil {
		return false
	}
	version := query.Get("resourceVersion")
	return c.Verb == "list" || (c.Verb == "watch" && (query.Get("sendInitialEvents") == "true" || version == "" || version == "0"))
}

// awaitLists waits until the process, from a mark on, has read all objects of each resource, or
// watches the resource over a new web socket.
func (t *trial) awaitLists(ctx context.Context, mark int) error {
	ctx, cancel := context.WithTimeout(ctx, t.options.Patience)
	defer cancel()
	for _, resource := range watched {
		_, err := t.proxy.await(ctx, mark, func(c *call) bool {
			again := c.socket && c.Verb == "watch" && c.code < http.StatusBadRequest // A web socket that was taken over has no code.
			return c.Resource == resource.Resource && (again || (readsAll(c) && c.code == http.StatusOK))
		}, some)
		if err != nil {
			return fmt.Errorf("wait until the process reads all %s: %w", resource.Resource, err)
		}
	}
	return nil
}

func writesNothingAfterLists(ctx context.Context, t *trial) error {
	were, err := t.several(ctx)
	if err != nil {
		return err
	}
	mark := t.proxy.mark()
	listed := map[string]bool{}
	stop := t.proxy.fail(func(c *call) *metav1.Status {
		kind := schema.GroupResource{Group: c.APIGroup, Resource: c.Resource}.String()
		listed[kind] = listed[kind] || readsAll(c)
		if c.Verb != "watch" || c.socket || listed[kind] {
			return nil // The proxy does not write events into a web socket.
		}
		return failure(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
	})
	defer stop()
	t.proxy.cut()
	if err := t.awaitLists(ctx, mark); err != nil {
		return err
	}
	if sockets := t.proxy.since(mark, func(c *call) bool { return c.socket }); len(sockets) > 0 {
		t.note("it watches over web sockets: its watches ended, but without an event that asks for a relist")
	}
	if err := t.marker(ctx); err != nil {
		return err
	}
	return t.stays(ctx, mark, were)
}

func writesNothingAfterRestart(ctx context.Context, t *trial) error {
	were, err := t.several(ctx)
	if err != nil {
		return err
	}
	if _, err := t.stop(); err != nil {
		return err
	}
	mark := t.proxy.mark()
	if err := t.start(ctx); err != nil {
		return err
	}
	if err := t.awaitLists(ctx, mark); err != nil {
		return err
	}
	if err := t.marker(ctx); err != nil {
		return err
	}
	return t.stays(ctx, mark, were)
}

// marker creates an object in another namespace and waits until it is finished. At that point the
// process has handled the earlier events.
func (t *trial) marker(ctx context.Context) (err error) {
	namespace, err := t.makeNamespace(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.removeNamespace(ctx, namespace)) }()
	other := &trial{world: t.world, namespace: namespace}
	hero, err := other.create(ctx, other.hero("marker", 1))
	if err != nil {
		return err
	}
	_, err = other.awaitFinished(ctx, hero)
	return err
}

// failure returns the answer of an API server that refuses a request.
func failure(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}
}
