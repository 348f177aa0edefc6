package compat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// errNotCached says that a read has to go to the API server.
var errNotCached = errors.New("the cache does not have it")

// listed returns the store of a kind, if the cache has the kind's first list.
func (c *both) listed(kind schema.GroupKind) *cache.Store {
	store := c.ours.Manager().Cache().Store(kind)
	if store == nil || store.Level() < cache.Listed || slices.Contains(c.uncached, kind) {
		return nil
	}
	return store
}

// covered reports whether the cache has the objects of a namespace. An empty namespace stands for all that
// are watched, or for a kind without namespaces.
func (c *both) covered(namespace string) bool {
	watched := c.ours.Manager().Namespaces()
	return namespace == "" || len(watched) == 0 || slices.Contains(watched, namespace)
}

// Get implements client.Client.
func (c *both) Get(ctx context.Context, name client.ObjectKey, object client.Object, options ...client.GetOption) error {
	given := client.GetOptions{}
	given.ApplyOptions(options)
	err := errNotCached
	if given.Raw == nil && c.covered(name.Namespace) {
		err = c.getCached(ctx, name, object, given.UnsafeDisableDeepCopy != nil && *given.UnsafeDisableDeepCopy)
	}
	if errors.Is(err, errNotCached) {
		return c.live.Get(ctx, name, object, options...)
	}
	return err
}

// getCached copies an object of the cache into the given one. It fails with errNotCached if the kind is
// not cached in the form of the object.
func (c *both) getCached(ctx context.Context, name types.NamespacedName, into client.Object, shared bool) error {
	kind, err := apiutil.GVKForObject(into, c.Scheme())
	if err != nil || c.listed(kind.GroupKind()) == nil {
		return errNotCached // The client of controller-runtime has the better error.
	}
	held, err := controller.Get[streams.Object](ctx, c.ours, name, controller.Like(into))
	if apierrors.IsNotFound(err) && name.Namespace != "" { // Many programs give cluster-scoped objects a namespace.
		held, err = controller.Get[streams.Object](ctx, c.ours, types.NamespacedName{Name: name.Name}, controller.Like(into))
	}
	switch {
	case undeclared(err):
		return errNotCached
	case apierrors.IsNotFound(err):
		return named(err, name)
	case err != nil:
		return plain(err)
	case shared:
		return assign(into, held)
	}
	if err := assign(into, held.DeepCopyObject().(client.Object)); err != nil {
		return err
	}
	into.GetObjectKind().SetGroupVersionKind(kind)
	return nil
}

// named returns a NotFound error of the cache with the name that the API server would give.
func named(err error, name types.NamespacedName) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil {
		return err
	}
	of := status.ErrStatus.Details
	return apierrors.NewNotFound(schema.GroupResource{Group: of.Group, Resource: of.Kind}, name.Name)
}

// List implements client.Client.
func (c *both) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	given := client.ListOptions{}
	given.ApplyOptions(options)
	err := errNotCached
	if given.Raw == nil && given.Continue == "" && c.covered(given.Namespace) && (given.Limit == 0 || selectsByIndex(given.FieldSelector)) {
		err = c.listCached(ctx, list, &given)
	}
	if errors.Is(err, errNotCached) {
		return c.live.List(ctx, list, options...)
	}
	return err
}

// selectsByIndex reports whether a field selector names a field that only an index of the cache may have.
func selectsByIndex(selector fields.Selector) bool {
	if selector == nil {
		return false
	}
	for _, required := range selector.Requirements() {
		if !strings.HasPrefix(required.Field, "metadata.") {
			return true
		}
	}
	return false
}

// selectsNothing reports whether a selector is labels.Nothing or fields.Nothing, whose text is empty as the
// text of a selector that selects everything.
func selectsNothing(selector interface {
	Empty() bool
	String() string
}) bool {
	return selector != nil && !selector.Empty() && selector.String() == ""
}

// listCached fills a list from the cache. It fails with errNotCached if the kind is not cached in the form
// of the list's items.
func (c *both) listCached(ctx context.Context, list client.ObjectList, given *client.ListOptions) error {
	example, kind, err := c.exampleOf(list)
	if err == nil && selectsByIndex(given.FieldSelector) && c.ours.Manager().Cache().Store(kind.GroupKind()) != nil {
		if err := c.ours.Manager().Cache().Wait(ctx, cache.Listed, kind.GroupKind()); err != nil { // Only the cache has the index.
			return fmt.Errorf("cannot list %v by an index before the first list of the kind: %w", kind, err)
		}
	}
	if err != nil || c.listed(kind.GroupKind()) == nil {
		return errNotCached
	}
	wanted := []controller.ReadOption{controller.Like(example), controller.InNamespace(given.Namespace)}
	if selectsNothing(given.LabelSelector) || selectsNothing(given.FieldSelector) {
		return meta.SetList(list, nil)
	}
	if by := given.LabelSelector; by != nil {
		wanted = append(wanted, controller.LabelSelector(by.String()))
	}
	if by := given.FieldSelector; by != nil {
		renamed, err := by.Transform(func(field, value string) (string, string, error) { return indexOf(field), value, nil })
		if err != nil {
			return err
		}
		wanted = append(wanted, controller.FieldSelector(renamed.String()))
	}
	held, err := controller.List[streams.Object](ctx, c.ours, wanted...)
	switch {
	case undeclared(err):
		return errNotCached
	case err != nil:
		return plain(err)
	case given.Limit > 0 && int64(len(held)) > given.Limit:
		held = held[:given.Limit]
		list.SetContinue("the cache cannot continue a list") // The next call fails with an error that says so.
	}
	shared := given.UnsafeDisableDeepCopy != nil && *given.UnsafeDisableDeepCopy
	items := make([]runtime.Object, len(held))
	for i, object := range held {
		if items[i] = object; !shared {
			items[i] = object.DeepCopyObject()
			items[i].GetObjectKind().SetGroupVersionKind(kind)
		}
	}
	return meta.SetList(list, items)
}

// exampleOf returns an object of the type and kind of a list's items.
func (c *both) exampleOf(list client.ObjectList) (client.Object, schema.GroupVersionKind, error) {
	kind, err := apiutil.GVKForObject(list, c.Scheme())
	if err != nil {
		return nil, kind, err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	var example client.Object
	switch list.(type) {
	case *unstructured.UnstructuredList:
		example = &unstructured.Unstructured{}
	case *metav1.PartialObjectMetadataList:
		example = &metav1.PartialObjectMetadata{}
	default:
		made, err := c.Scheme().New(kind)
		if err != nil {
			return nil, kind, err
		}
		object, is := made.(client.Object)
		if !is {
			return nil, kind, fmt.Errorf("a %T is no object", made)
		}
		return object, kind, nil
	}
	example.GetObjectKind().SetGroupVersionKind(kind)
	return example, kind, nil
}
