package controller

import (
	"fmt"
	"reflect"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Option is a part of a controller.
type Option func(*definition)

// definition is a controller in the making.
type definition struct {
	reconciles   *input
	inputs       []*input
	ignoreEchoes bool
	feeds        []feed
}

// input is a kind whose changes concern the controller.
type input struct {
	object   streams.Object
	kind     []sources.KindOption
	watch    sources.WatchOptions
	project  identity // of the function of Project
	indexers []cache.Indexer
	concerns func(streams.Object) []types.NamespacedName // nil: by owner, and of reconciles itself
	when     func(streams.Change) bool
	early    func(streams.Object) bool
	onDemand bool
	wrong    error // what does not fit the kind
}

// InputOption narrows what a controller watches of a kind.
type InputOption func(*input)

// LabelSelector watches only objects that a label selector selects.
func LabelSelector(selector string) InputOption {
	return func(i *input) { i.watch.LabelSelector = selector }
}

// FieldSelector watches only objects that a field selector selects, such as
// "spec.nodeName=worker-1". The API server knows few fields of each kind.
func FieldSelector(selector string) InputOption {
	return func(i *input) { i.watch.FieldSelector = selector }
}

// Transform changes objects before they enter the cache, to keep only what is read of them.
// See [sources.WatchOptions]. All controllers of a manager that name the kind must give the same
// function: see [For].
func Transform(keep func(streams.Object)) InputOption {
	return func(i *input) { i.watch.Transform = keep }
}

// Indexed has the cache find objects of the kind by more than their names and owners: see
// [ByIndex]. All that index a kind must do so before anybody watches it.
func Indexed(indexers ...cache.Indexer) InputOption {
	return func(i *input) { i.indexers = append(i.indexers, indexers...) }
}

// When lets only those changes make requests for which predicate is true. Given several times,
// all of the predicates must be true. predicate must be fast, and safe for use by many goroutines.
func When(predicate func(streams.Change) bool) InputOption {
	return func(i *input) {
		before := i.when
		i.when = func(change streams.Change) bool {
			return (before == nil || before(change)) && predicate(change)
		}
	}
}

// ReconcileBeforeSync says of objects that they are reconciled as soon as they are known, and do not wait until
// all kinds are [cache.Current]: those for which nothing was done yet. At a start among many
// objects, what is new need not wait for lists of what is old. It is an option of [For].
//
// A field selector that selects such objects, if there is one that the API server knows, has them
// known first: a page of them is asked for before the list of all. Of a custom resource those
// fields can be selected that its definition names as selectableFields. It is that of the
// controller that is the first to watch the kind.
//
// Of a controller that is added while the manager runs, nothing is early.
//
// The reconciler may then not find in the cache what is on the server. It must find that out by
// the server's answers: a creation of what is there fails with AlreadyExists. is must be fast, and
// safe for use by many goroutines.
func ReconcileBeforeSync[T streams.Object](is func(object T) bool, fields string) InputOption {
	return func(i *input) {
		if _, fits := i.object.(T); !fits {
			i.wrong = fmt.Errorf("ReconcileBeforeSync is for a %v, and the controller keeps a %T; let its function take that", reflect.TypeFor[T](), i.object)
		}
		i.watch.First = fields
		i.early = func(object streams.Object) bool {
			typed, ok := object.(T)
			return ok && is(typed)
		}
	}
}

// Plural names the kind in URLs, where its plural is not the regular one.
func Plural(resource string) InputOption {
	return func(i *input) { i.kind = append(i.kind, sources.Plural(resource)) }
}

// ClusterScoped says that the kind has no namespaces.
func ClusterScoped() InputOption {
	return func(i *input) { i.kind = append(i.kind, sources.ClusterScoped()) }
}

// OfKind names the kind of an object whose Go type the scheme does not know. See
// [sources.OfKind].
func OfKind(kind schema.GroupVersionKind) InputOption {
	return func(i *input) { i.kind = append(i.kind, sources.OfKind(kind)) }
}

// Project keeps of each object what a function makes of the whole one. See
// [sources.Project]. All controllers of a manager that name the kind must give the same function:
// see [For].
func Project[From, To streams.Object](project func(whole From) To) InputOption {
	return func(i *input) {
		i.kind = append(i.kind, sources.Project(project))
		i.project = identityOf(project)
	}
}

// Metadata stands for the metadata of the kind of a Go type, where that is all that is read:
// Owns(&Metadata[appsv1.StatefulSet]{}). See [sources.Metadata].
type Metadata[T any] = sources.Metadata[T]

// For names the kind of the objects that the controller reconciles. Required.
//
// The Go type of the object, here as in Owns and Watches, is what is kept of the kind in the
// cache, and what [Get], [List] and [ByIndex] read: see [sources.KindOf].
//
// The controllers of a manager share one watch and one cache of a kind. So all that name a kind, in
// For, Owns or Watches, must name it with the same type and the same options LabelSelector, FieldSelector, Transform
// and Project: otherwise Add fails. Functions are the same if they are one value: a function of the
// package, or a closure or a method value that a variable holds for all of them.
func For(object streams.Object, options ...InputOption) Option {
	return func(d *definition) { d.reconciles = newInput(object, nil, options) }
}

// Owns names a kind of objects that the reconciled ones control, by owner reference.
func Owns(object streams.Object, options ...InputOption) Option {
	return func(d *definition) { d.inputs = append(d.inputs, newInput(object, nil, options)) }
}

// Watches names a kind of objects that concern reconciled ones otherwise; concerns names
// those. See [operators.Rule].
func Watches(object streams.Object, concerns func(streams.Object) []types.NamespacedName, options ...InputOption) Option {
	return func(d *definition) { d.inputs = append(d.inputs, newInput(object, concerns, options)) }
}

// IgnoreEchoes tells that one call of the reconciler does all that it can do, so that
// its own writes need not cause another. See [operators.Controller].
func IgnoreEchoes() Option { return func(d *definition) { d.ignoreEchoes = true } }

func newInput(object streams.Object, concerns func(streams.Object) []types.NamespacedName, options []InputOption) *input {
	made := &input{object: object, concerns: concerns}
	for _, option := range options {
		option(made)
	}
	return made
}
