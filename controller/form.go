package controller

import (
	"fmt"
	"maps"
	"reflect"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// reports returns whether the watch will report an object that was written. It does if the label
// selector matches the object. It also does if the cache has the object: the watch then reports that
// the object no longer matches.
func (w *watched) reports(object streams.Object) bool {
	store := w.store()
	if store == nil || w.options.LabelSelector == "" {
		return true
	}
	selector, err := labels.Parse(w.options.LabelSelector)
	if err != nil || selector.Matches(labels.Set(object.GetLabels())) {
		return true
	}
	_, known := store.Get(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
	return known
}

// form is a Go type for a watched kind. Each kind has the form in which the cache keeps it, which is
// read. If that is not the API type, the kind also has its whole form, which is written.
type form struct {
	*watched
	as       sources.Kind
	requests *rest.RESTClient
}

// kept reports whether the cache keeps the kind in this form.
func (f *form) kept() bool { return f.as.Type() == f.kind.Type() }

// add adds the forms of a kind to forms. It fails if another kind has one of the types.
func (c *Client) add(forms map[reflect.Type]*form, kind *watched) error {
	made := []*form{{watched: kind, as: kind.kind, requests: kind.client}}
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
	for _, form := range made {
		if taken := forms[form.as.Type()]; taken != nil {
			return fmt.Errorf("%v is the type of %v already, and cannot be the type of %v too; define another type",
				form.as.Type(), taken.kind.GroupVersionKind, kind.kind.GroupVersionKind)
		}
	}
	for _, form := range made {
		forms[form.as.Type()] = form
	}
	return nil
}

// forget removes the forms of a kind.
func (c *Client) forget(kind *watched) {
	kept := maps.Clone(*c.forms.Load())
	maps.DeleteFunc(kept, func(_ reflect.Type, form *form) bool { return form.watched == kind })
	c.forms.Store(&kept)
}

// whole returns the form of a kind as its API type.
func (c *Client) whole(kind *watched, object streams.Object) (*form, error) {
	options := []sources.KindOption{sources.Plural(kind.kind.Resource), sources.OfKind(kind.kind.GroupVersionKind)}
	if !kind.kind.Namespaced {
		options = append(options, sources.ClusterScoped())
	}
	as, err := sources.KindOf(c.manager.scheme, object, options...)
	if err != nil {
		return nil, err
	}
	requests, err := as.Client(c.manager.config, c.manager.http)
	if err != nil {
		return nil, err
	}
	return &form{watched: kind, as: as, requests: requests}, nil
}

// of returns the form of a type. It panics for a type that is not watched, which is a bug of the caller.
func (c *Client) of(object reflect.Type) *form {
	found := (*c.forms.Load())[object]
	if found == nil {
		panic(fmt.Sprintf("controller: no controller of the manager watches %v; name it in For, Owns or Watches", object))
	}
	return found
}

// read returns the form of a type that is to be read from the cache. It panics if the cache keeps the
// kind in another form.
func (c *Client) read(object reflect.Type) *form {
	found := c.of(object)
	if !found.kept() {
		panic(fmt.Sprintf("controller: the cache holds %v as %v; read that type, or use Live to read %v from the API server", found.kind.GroupKind(), found.kind.Type(), object))
	}
	return found
}

// written returns the form of a type for a write. whole reports whether the write sends a whole object,
// and not only a patch. written panics if the type lacks fields that the write needs.
func (c *Client) written(object reflect.Type, verb string, whole bool) *form {
	found := c.of(object)
	if as := found.as.Form(); as == sources.Projected || as == sources.MetadataOnly && whole {
		panic(fmt.Sprintf("controller: cannot %s a %v, which is only a part of a %v; %s the API type", verb, object, found.kind.GroupKind(), verb))
	}
	return found
}

// same returns an error unless the given kind and options agree with the watch that exists.
func (w *watched) same(kind sources.Kind, options sources.WatchOptions, project identity) error {
	known := w.kind
	switch {
	case known.GroupVersionKind != kind.GroupVersionKind || known.Resource != kind.Resource:
		return fmt.Errorf("%v is watched twice, as %s of version %s and as %s of version %s; use the same version and plural everywhere",
			kind.GroupKind(), known.Resource, known.Version, kind.Resource, kind.Version)
	case known.Type() != kind.Type():
		return fmt.Errorf("%v is watched twice, as %v and as %v; use one type everywhere", kind.GroupKind(), known.Type(), kind.Type())
	case known.Namespaced != kind.Namespaced:
		return fmt.Errorf("%v is watched twice, with different options: ClusterScoped is given in one place only; give it everywhere or nowhere", kind.GroupKind())
	case w.options.LabelSelector != options.LabelSelector:
		return differs(kind, "LabelSelector", w.options.LabelSelector, options.LabelSelector)
	case w.options.FieldSelector != options.FieldSelector:
		return differs(kind, "FieldSelector", w.options.FieldSelector, options.FieldSelector)
	case known.Form() != kind.Form() || w.project != project:
		return functionDiffers(kind, "Project")
	case identityOf(w.options.Transform) != identityOf(options.Transform):
		return functionDiffers(kind, "Transform")
	}
	return nil
}

// differs returns the error for two different values of an option.
func differs(kind sources.Kind, option, known, given string) error {
	return fmt.Errorf("%v is watched twice, with different options: %s is %q elsewhere and %q here; give it the same %s everywhere, or run the controllers in two managers",
		kind.GroupKind(), option, known, given, option)
}

// functionDiffers returns the error for two different functions of an option.
func functionDiffers(kind sources.Kind, option string) error {
	return fmt.Errorf("%v is watched twice, with different options: %s is not the same function value; "+
		"give it the same %s everywhere (a closure or a method value from one variable), or run the controllers in two managers",
		kind.GroupKind(), option, option)
}
