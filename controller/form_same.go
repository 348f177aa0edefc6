package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/sources"
)

// same returns an error unless the given kind and options agree with the watch that exists.
func (w *watched) same(kind sources.Kind, options sources.WatchOptions, project identity) error {
	known := w.kind
	knownPlural, knownUnscoped := known.Given()
	plural, unscoped := kind.Given()
	switch {
	case known.GroupVersionKind != kind.GroupVersionKind || knownPlural != plural:
		return fmt.Errorf("%v is watched twice, as %s of version %s and as %s of version %s; use the same version and plural everywhere",
			kind.GroupKind(), known.Resource(), known.Version, kind.Resource(), kind.Version)
	case known.Type() != kind.Type():
		return fmt.Errorf("%v is watched twice, as %v and as %v; use one type everywhere", kind.GroupKind(), known.Type(), kind.Type())
	case knownUnscoped != unscoped:
		return fmt.Errorf("%v is watched twice, with different options: ClusterScoped is given in one place only; give it everywhere or nowhere", kind.GroupKind())
	case !slices.Equal(w.options.Namespaces, options.Namespaces):
		return differs(kind, "Namespaces", strings.Join(w.options.Namespaces, ","), strings.Join(options.Namespaces, ","))
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
