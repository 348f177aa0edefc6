package simulation

import (
	"context"
	"fmt"
	"net/http"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// clients create and change the objects. They are no replicas, and do not count.
type clients struct {
	wire         *wire
	ships, sails client
}

// client is a client for one of the kinds.
type client struct {
	kind sources.Kind
	rest *rest.RESTClient
}

func newClients(config *rest.Config) (*clients, error) {
	made := &clients{wire: newWire(0, 0)}
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { made.wire.next = next; return made.wire })
	requests, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	for _, each := range []struct {
		into   *client
		object streams.Object
	}{{&made.ships, &ship{}}, {&made.sails, &sail{}}} {
		if each.into.kind, err = sources.KindOf(scheme, each.object); err != nil {
			return nil, err
		}
		if each.into.rest, err = each.into.kind.Client(config, requests); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// fieldManager is the manager of the objects' fields. The fake API server uses this name as well.
const fieldManager = "sourcestest"

// create creates objects, each ship with its sail.
func (c *clients) create(ctx context.Context, objects int, show func(string)) error {
	const workers = 16
	group := lifecycle.New(ctx)
	for worker := range workers {
		group.Go("create objects", func(ctx context.Context) error {
			for number := worker; number < objects/2 && ctx.Err() == nil; number += workers {
				if number%1000 == 0 {
					show(fmt.Sprintf("%d objects: creating %d", objects, 2*number))
				}
				made := newShip(number)
				if err := c.ships.create(ctx, made); err != nil {
					return err
				}
				if err := c.sails.create(ctx, newSail(made)); err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		})
	}
	return group.Wait()
}

func (c client) create(ctx context.Context, object streams.Object) error {
	err := c.rest.Post().Namespace(namespace).Resource(c.kind.Resource()).
		VersionedParams(&metav1.CreateOptions{FieldManager: fieldManager}, metav1.ParameterCodec).Body(object).Do(ctx).Into(object)
	if err != nil {
		return fmt.Errorf("creating %s: %w", object.GetName(), err)
	}
	return nil
}

// change changes the ship with a number, and its sail as well if no replica does.
func (c *clients) change(ctx context.Context, number, to int, sailToo bool) error {
	if err := c.ships.change(ctx, number, to); err != nil || !sailToo {
		return err
	}
	return c.sails.change(ctx, number, to)
}

func (c client) change(ctx context.Context, number, to int) error {
	err := c.rest.Patch(types.MergePatchType).Namespace(namespace).Resource(c.kind.Resource()).Name(nameOf(number)).
		VersionedParams(&metav1.PatchOptions{FieldManager: fieldManager}, metav1.ParameterCodec).
		Body(fmt.Appendf(nil, `{"spec":{"round":%d}}`, to)).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("changing %s: %w", nameOf(number), err)
	}
	return nil
}

// pageSize is the one of the replicas.
const pageSize = controller.DefaultPageSize

// readAll reads all objects in pages, as a replica does, and returns the bytes of the pages.
func (c *clients) readAll(ctx context.Context) (bytes int64, err error) {
	before := c.wire.traffic().PageBytes
	for _, each := range []client{c.ships, c.sails} {
		for query := (metav1.ListOptions{Limit: pageSize}); ; {
			page, err := each.kind.List(ctx, each.rest, "", query)
			if err != nil {
				return 0, fmt.Errorf("reading %s: %w", each.kind.Resource(), err)
			}
			head, err := meta.ListAccessor(page)
			if err != nil {
				return 0, err
			}
			if query.Continue = head.GetContinue(); query.Continue == "" {
				break
			}
		}
	}
	return c.wire.traffic().PageBytes - before, nil
}
