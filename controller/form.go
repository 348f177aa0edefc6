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

// tells reports whether the watch tells of an object that was written: it does if its label
// selector selects it, or if it has told of it before, as it then tells of its end.
func (w *watched) tells(object streams.Object) bool {
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

// form is what a Go type stands for: a kind that is watched, as that type. A kind has the
// form in which it is kept, which is read, and, if that is another one, its whole form,
// which can be written.
type form struct {
	*watched
	as       sources.Kind
	requests *rest.RESTClient
}

// kept says whether it is the form that is kept.
func (f *form) kept() bool { return f.as.Type() == f.kind.Type() }

// add adds the forms of a kind to those of others.
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
			return fmt.Errorf("%v stands for %v already, and cannot for %v as well; name a type of its own",
				form.as.Type(), taken.kind.GroupVersionKind, kind.kind.GroupVersionKind)
		}
	}
	for _, form := range made {
		forms[form.as.Type()] = form
	}
	return nil
}

// forget forgets the forms of a kind.
func (c *Client) forget(kind *watched) {
	kept := maps.Clone(*c.forms.Load())
	maps.DeleteFunc(kept, func(_ reflect.Type, form *form) bool { return form.watched == kind })
	c.forms.Store(&kept)
}

// whole is the form of a kind as the scheme has it.
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

// of is the form of a type. A type that is not watched is a mistake in the program.
func (c *Client) of(object reflect.Type) *form {
	found := (*c.forms.Load())[object]
	if found == nil {
		panic(fmt.Sprintf("controller: no controller of the manager watches %v; name it in For, Owns or Watches", object))
	}
	return found
}

// read is the form of a type that is to be read from the cache.
func (c *Client) read(object reflect.Type) *form {
	found := c.of(object)
	if !found.kept() {
		panic(fmt.Sprintf("controller: the cache holds %v as %v; read that, or read %v past the cache, with Live", found.kind.GroupKind(), found.kind.Type(), object))
	}
	return found
}

// written is the form of a type of which the whole, or else some fields, are to be written.
func (c *Client) written(object reflect.Type, verb string, whole bool) *form {
	found := c.of(object)
	if as := found.as.Form(); as == sources.Projected || as == sources.MetadataOnly && whole {
		panic(fmt.Sprintf("controller: cannot %s a %v, which is not all of a %v; %s the type of the API", verb, object, found.kind.GroupKind(), verb))
	}
	return found
}

// same returns an error if a kind that is watched cannot be watched in another way besides.
func (w *watched) same(kind sources.Kind, options sources.WatchOptions, project identity) error {
	known := w.kind
	switch {
	case known.GroupVersionKind != kind.GroupVersionKind || known.Resource != kind.Resource:
		return fmt.Errorf("%v is watched twice, as %s of version %s and as %s of version %s; name it alike everywhere",
			kind.GroupKind(), known.Resource, known.Version, kind.Resource, kind.Version)
	case known.Type() != kind.Type():
		return fmt.Errorf("%v is watched twice, as %v and as %v; keep it as one type everywhere", kind.GroupKind(), known.Type(), kind.Type())
	case known.Namespaced != kind.Namespaced:
		return fmt.Errorf("%v is watched twice, with different options: ClusterScoped is given once only; give it everywhere or nowhere", kind.GroupKind())
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

func differs(kind sources.Kind, option, known, given string) error {
	return fmt.Errorf("%v is watched twice, with different options: %s is %q elsewhere and %q here; give it the same %s everywhere, or run the controllers in two managers",
		kind.GroupKind(), option, known, given, option)
}

func functionDiffers(kind sources.Kind, option string) error {
	return fmt.Errorf("%v is watched twice, with different options: %s is not the same function value; "+
		"give it the same %s everywhere (a closure or a method value from one variable), or run the controllers in two managers",
		kind.GroupKind(), option, option)
}
