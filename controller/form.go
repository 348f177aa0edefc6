package controller

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// forms holds the forms of each Go type. Forms of watched kinds precede forms of kinds that are used.
type forms map[reflect.Type][]*form

// form is a Go type for a kind that a controller declares. Each watched kind has the form in which the
// cache keeps it, which is read. If that is not the API type, the kind also has its whole form, which is
// written. A kind that is only used has its whole form alone.
type form struct {
	watched  *watched // nil for a kind that is only used
	client   *Client
	as       sources.Kind
	requests *rest.RESTClient
}

// kept reports whether reads of the form need no other form: the cache keeps the kind in this form, or
// not at all.
func (f *form) kept() bool { return f.watched == nil || f.as.Type() == f.watched.kind.Type() }

// keptBy reports whether a watch keeps the kind in this form.
func (f *form) keptBy(by *watched) bool { return f.as.Type() == by.kind.Type() }

// store returns the store of the kind, or nil while the kind is not watched.
func (f *form) store() *cache.Store {
	if by := f.cachedBy(); by != nil {
		return by.store()
	}
	return nil
}

// isCached reports whether a watch caches the kind in this form.
func (f *form) isCached() bool { return f.watched != nil && f.keptBy(f.watched) }

// cachedBy returns the watch that caches the kind, perhaps as another Go type, or nil.
func (f *form) cachedBy() *watched {
	if f.watched != nil {
		return f.watched
	}
	for _, watched := range f.client.manager.present.Load().watches {
		if watched.kind.GroupVersionKind == f.as.GroupVersionKind && watched.store() != nil {
			return watched
		}
	}
	return nil
}

// live reports whether reads go to the API server. A kind on demand that is not wanted now is not read
// live.
func (f *form) live() bool { return f.watched == nil }

// covers returns an error if the watch does not have a namespace. An empty namespace stands for
// all that are watched.
func (w *watched) covers(namespace string) error {
	watched := w.options.Namespaces
	if namespace == "" || len(watched) == 0 || slices.Contains(watched, namespace) {
		return nil
	}
	return fmt.Errorf("%w: %s is not one of %s; name it in Options.Namespaces, or in Namespaces of the kind, or use GetLive or ListLive",
		ErrNotWatched, namespace, strings.Join(watched, ", "))
}

// reports returns whether the watch will report an object that was written. It does if the selectors
// match the object. It also does if the cache has the object: the watch then reports that the object no
// longer matches.
func (w *watched) reports(object streams.Object) bool {
	store := w.store()
	if store != nil && !store.Selects(object) {
		return false
	}
	if store == nil || w.options.LabelSelector == "" && w.options.FieldSelector == "" {
		return true
	}
	selector, err := labels.Parse(w.options.LabelSelector)
	if (err != nil || selector.Matches(labels.Set(object.GetLabels()))) && fieldsMatch(w.options.FieldSelector, object) {
		return true
	}
	_, known := store.Get(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
	return known
}

// to addresses a request to the place where the API server serves the kind.
func (f *form) to(ctx context.Context, request *rest.Request, namespace string) *rest.Request {
	return f.as.Address(ctx, f.requests, request, namespace)
}

// copy returns a copy that can be changed without changing these forms.
func (f forms) copy() forms {
	copied := maps.Clone(f)
	for of, known := range copied {
		copied[of] = slices.Clone(known)
	}
	return copied
}

// watch adds the forms of a watched kind.
func (f forms) watch(c *Client, kind *watched) error {
	made := []*form{{watched: kind, client: c, as: kind.kind, requests: kind.client}}
	if c.manager.scheme.Recognizes(kind.kind.GroupVersionKind) {
		object, err := c.manager.scheme.New(kind.kind.GroupVersionKind)
		if err != nil {
			return fmt.Errorf("making a %v: %w", kind.kind.GroupVersionKind, err)
		}
		if reflect.TypeOf(object) != kind.kind.Type() {
			whole, err := c.whole(kind, object.(streams.Object))
			if err != nil {
				return err
			}
			made = append(made, whole)
		}
	}
	for _, added := range made {
		of := added.as.Type()
		for _, known := range f[of] {
			if known.watched != nil && !sources.NamesItsKind(of) {
				return fmt.Errorf("%v is the type of %v already, and cannot be the type of %v too; define another type",
					of, known.as.GroupVersionKind, kind.kind.GroupVersionKind)
			}
		}
		same := func(known *form) bool {
			return known.watched == nil && known.as.GroupVersionKind == added.as.GroupVersionKind
		}
		f[of] = append([]*form{added}, slices.DeleteFunc(f[of], same)...)
	}
	return nil
}

// use adds the form of a kind that is used, unless a watch has one of its type.
func (f forms) use(kind *used) {
	of := kind.form.as.Type()
	for _, known := range f[of] {
		if known.as.GroupVersionKind == kind.form.as.GroupVersionKind {
			return
		}
	}
	f[of] = append(f[of], kind.form)
}

// forget removes the forms of a kind that is no longer watched.
func (f forms) forget(kind *watched) {
	for of, known := range f {
		if f[of] = slices.DeleteFunc(known, func(form *form) bool { return form.watched == kind }); len(f[of]) == 0 {
			delete(f, of)
		}
	}
}

// drop removes the form of a kind that is no longer used.
func (f forms) drop(kind *used) {
	of := kind.form.as.Type()
	if f[of] = slices.DeleteFunc(f[of], func(form *form) bool { return form == kind.form }); len(f[of]) == 0 {
		delete(f, of)
	}
}

// whole returns the form of a watched kind as its API type.
func (c *Client) whole(kind *watched, object streams.Object) (*form, error) {
	as, err := sources.KindOf(c.manager.scheme, object, sources.OfKind(kind.kind.GroupVersionKind), sources.LocatedAs(kind.kind))
	if err != nil {
		return nil, err
	}
	requests, err := c.manager.clientOf(as)
	if err != nil {
		return nil, err
	}
	return &form{watched: kind, client: c, as: as, requests: requests}, nil
}
