package controller

import (
	"context"
	"fmt"
	"iter"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Get returns an object of type T. It reads a kind that a controller watches from the cache, as the type
// in which the cache keeps it. It reads a kind of [Uses] from the API server. For an object that does
// not exist, it fails with an error for which apierrors.IsNotFound is true. In a namespace that the cache
// does not have, it fails with an [ErrNotWatched]. Of the options, only [OfKind] and [Like] apply.
func Get[T streams.Object](ctx context.Context, c *Client, name types.NamespacedName, options ...ReadOption) (T, error) {
	none, wanted := *new(T), reading{}
	if len(options) > 0 {
		wanted = wanted.applied(options)
		if err := wanted.ofOne(); err != nil {
			return none, fmt.Errorf("cannot get %s: %w", name, err)
		}
	}
	form, err := c.cachedForm(typeOf[T](wanted), wanted.kind)
	if err != nil {
		return none, fmt.Errorf("cannot get %s: %w", name, err)
	}
	if form.live() {
		return getLive[T](ctx, form, name)
	}
	if err := form.watched.covers(name.Namespace); err != nil {
		return none, fmt.Errorf("cannot get %s: %w", streams.Key{GroupKind: form.as.GroupKind(), NamespacedName: name}, err)
	}
	if store := form.store(); store != nil {
		var held streams.Object
		found := false
		if c.manager.tape == nil {
			held, found = store.Get(name)
		} else {
			c.manager.tape.read(ctx, func() []streams.Object {
				if held, found = store.Get(name); !found {
					return nil
				}
				return []streams.Object{held}
			})
		}
		if c.manager.history != nil {
			read := operators.Read{Key: streams.Key{GroupKind: form.as.GroupKind(), NamespacedName: name}}
			if found {
				read.Objects, read.ResourceVersion = 1, held.GetResourceVersion()
			}
			operators.RecordRead(ctx, read)
		}
		if found {
			return held.(T), nil
		}
	}
	return none, notFound(form, name)
}

// notFound returns the error for an object that the cache does not have.
func notFound(form *form, name types.NamespacedName) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: form.as.Group, Resource: form.as.Resource()}, name.String())
}

// List returns the objects of type T, sorted by namespace and name. It reads where [Get] does. Options
// select objects; without one, List returns all objects of the kind, in the namespaces that are watched.
//
// A [FieldSelector] may name metadata.name, metadata.namespace and, for a kind in the cache, each field
// that has an index of its name.
func List[T streams.Object](ctx context.Context, c *Client, options ...ReadOption) ([]T, error) {
	wanted := reading{}.applied(options)
	form, err := c.cachedForm(typeOf[T](wanted), wanted.kind)
	if err != nil {
		return nil, fmt.Errorf("cannot list %v: %w", typeOf[T](wanted), err)
	}
	if form.live() {
		return ListLive[T](ctx, c, options...)
	}
	for _, namespace := range wanted.namespaces() {
		if err := form.watched.covers(namespace); err != nil {
			return nil, fmt.Errorf("cannot list %v: %w", form.as.GroupKind(), err)
		}
	}
	store := form.store()
	if store == nil {
		return nil, nil
	}
	var held []streams.Object
	if c.manager.tape == nil {
		held, err = wanted.from(store)
	} else {
		c.manager.tape.read(ctx, func() []streams.Object {
			held, err = wanted.from(store)
			return held
		})
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list %v: %w", form.as.GroupKind(), err)
	}
	if c.manager.history != nil {
		read := operators.Read{Key: streams.Key{GroupKind: form.as.GroupKind()}, Objects: len(held)}
		if namespaces := wanted.namespaces(); len(namespaces) == 1 {
			read.Key.Namespace = namespaces[0]
		}
		operators.RecordRead(ctx, read)
	}
	objects := make([]T, len(held))
	for i, object := range held {
		objects[i] = object.(T)
	}
	return objects, nil
}

// GetLive returns an object from the API server instead of the cache, which costs a request. Use it if a
// write was refused in a way that the cache cannot explain. Use it also to read the whole of an object
// that is kept as a projection or as metadata. Of the options, only [OfKind] and [Like]
// apply.
func GetLive[T streams.Object](ctx context.Context, c *Client, name types.NamespacedName, options ...ReadOption) (T, error) {
	wanted := reading{}.applied(options)
	err := wanted.ofOne()
	var from *form
	if err == nil {
		from, err = c.form(typeOf[T](wanted), wanted.kind)
	}
	if err != nil {
		return *new(T), fmt.Errorf("cannot get %s: %w", name, err)
	}
	return getLive[T](ctx, from, name)
}

func getLive[T streams.Object](ctx context.Context, from *form, name types.NamespacedName) (T, error) {
	object, err := from.get(ctx, name)
	if err != nil {
		return *new(T), fmt.Errorf("cannot get %s: %w", streams.Key{GroupKind: from.as.GroupKind(), NamespacedName: name}, err)
	}
	return object.(T), nil
}

// get requests an object from the API server.
func (f *form) get(ctx context.Context, name types.NamespacedName) (streams.Object, error) {
	object := f.as.New()
	err := f.to(ctx, f.requests.Get(), name.Namespace).Name(name.Name).Do(ctx).Into(object)
	if err == nil && object.GetName() == "" {
		err = errNoObject
	}
	if err != nil {
		return nil, err
	}
	return f.as.Projected(object)
}

// ListLive returns the objects of type T from the API server instead of the cache, in the API server's
// order. It takes the options of [List], except for [InIndex], and requests one page after the other:
// see [LivePages].
func ListLive[T streams.Object](ctx context.Context, c *Client, options ...ReadOption) ([]T, error) {
	var all []T
	for page, err := range LivePages[T](ctx, c, options...) {
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
	}
	return all, nil
}

// LivePages iterates over the objects of a [ListLive] in pages of 500. All pages show the same state of
// the cluster. If the caller takes so long that the API server has forgotten that state, the iteration
// ends with an error for which apierrors.IsResourceExpired is true. It ends after any error.
func LivePages[T streams.Object](ctx context.Context, c *Client, options ...ReadOption) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		wanted := reading{}.applied(options)
		from, err := c.form(typeOf[T](wanted), wanted.kind)
		if err == nil {
			_, err = wanted.selector()
		}
		if err == nil && wanted.index != "" {
			err = fmt.Errorf("InIndex names the index %q, and only the cache has indexes; watch the kind and use List", wanted.index)
		}
		query := metav1.ListOptions{LabelSelector: wanted.labelSelector, FieldSelector: wanted.fieldSelector, Limit: DefaultPageSize}
		for err == nil {
			var page []T
			if page, err = livePage[T](ctx, from, wanted.namespace, &query); err != nil || !yield(page, nil) || query.Continue == "" {
				break
			}
		}
		if err != nil {
			yield(nil, fmt.Errorf("cannot list %v: %w", typeOf[T](wanted), err))
		}
	}
}

// livePage requests one page of a list, and sets the token of the next page in the query.
func livePage[T streams.Object](ctx context.Context, from *form, namespace string, query *metav1.ListOptions) (page []T, err error) {
	list, err := from.as.List(ctx, from.requests, namespace, *query)
	if err != nil {
		return nil, err
	}
	head, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	query.Continue = head.GetContinue()
	err = from.as.EachItem(list, func(object streams.Object) error {
		page = append(page, object.(T))
		return nil
	})
	return page, err
}

// IgnoreNotFound returns nil for an error of an object that does not exist, and any other error
// unchanged.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
