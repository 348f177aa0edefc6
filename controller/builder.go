package controller

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Option configures a controller.
type Option interface{ define(made *definition) }

type option func(*definition)

func (o option) define(made *definition) { o(made) }

// definition collects the options of a controller that is being added.
type definition struct {
	reconciles   *input
	inputs       []*input
	uses         []*input
	ignoreEchoes bool
	feeds        []feed
	fieldManager string
	finalizers   []finalizer
	limits       operators.Controller // MaxConcurrent, Timeout and Backoff
	resync       time.Duration
	ifServed     bool
	everyReplica bool
	pausedBy     []string
	unsharded    bool
	release      func(keeps func(types.NamespacedName) bool)
}

// input is a kind whose changes make requests for the controller.
type input struct {
	object   streams.Object
	kind     []sources.KindOption
	options  sources.WatchOptions
	project  identity // of the function given to Project
	indexers []cache.Indexer
	mapFunc  func(streams.Object) []types.NamespacedName          // nil for the owner, or for the object itself with For
	changes  func(*Client, streams.Change) []types.NamespacedName // in place of mapFunc
	when     func(streams.Change) bool
	early    func(streams.Object) bool
	onDemand bool
	wrong    error // an option that does not fit the kind
}

// InputOption configures how a controller watches a kind.
type InputOption interface{ watch(of *input) }

type inputOption func(*input)

func (o inputOption) watch(of *input) { o(of) }

// SelectOption is an [InputOption] and a [ReadOption]: it restricts a watch, or a read.
type SelectOption struct {
	input inputOption
	reads readOption
}

func (o SelectOption) watch(of *input)      { o.input(of) }
func (o SelectOption) read(wanted *reading) { o.reads(wanted) }

// LabelSelector selects objects by a label selector, such as "app=web,tier!=cache". If several are given
// to a read, an object must match all of them.
func LabelSelector(selector string) SelectOption {
	return SelectOption{
		func(i *input) { i.options.LabelSelector = selector },
		func(wanted *reading) { wanted.labelSelector = both(wanted.labelSelector, selector) },
	}
}

// FieldSelector selects objects by a field selector, such as "spec.nodeName=worker-1". The API server
// supports few fields of each kind; for reads of the cache see [List].
func FieldSelector(selector string) SelectOption {
	return SelectOption{
		func(i *input) { i.options.FieldSelector = selector },
		func(wanted *reading) { wanted.fieldSelector = both(wanted.fieldSelector, selector) },
	}
}

// Namespaces limits the watch of the kind to the given namespaces, instead of Options.Namespaces. All
// controllers of a manager that name the kind must give the same namespaces: see [For]. A kind without
// namespaces is watched in the whole cluster.
func Namespaces(names ...string) InputOption {
	return inputOption(func(i *input) {
		if i.options.Namespaces = slices.Clone(names); len(names) == 0 {
			i.wrong = errors.New("Namespaces has no names; give at least one")
		}
	})
}

// Transform sets a function that changes objects before they enter the cache, so that the cache keeps
// only the fields that are read. See [sources.WatchOptions]. All controllers of a manager that name
// the kind must give the same function: see [For].
func Transform(transform func(streams.Object)) InputOption {
	return inputOption(func(i *input) { i.options.Transform = transform })
}

// Indexed adds indexes to the cache of the kind, in addition to names and owners: see [InIndex]. The
// first controller that names the kind must give all indexes. A later controller may only give
// indexes that exist.
func Indexed(indexers ...cache.Indexer) InputOption {
	return inputOption(func(i *input) { i.indexers = append(i.indexers, indexers...) })
}

// When sets a predicate: a change makes requests only if predicate returns true. If When is given
// several times, all predicates must return true. [GenerationChanged] and others are ready-made, and
// [AnyOf], [NoneOf] and [PredicateOf] make others. predicate must be fast, and safe for use by many
// goroutines.
func When(predicate Predicate) InputOption {
	return inputOption(func(i *input) {
		before := i.when
		i.when = func(change streams.Change) bool {
			return (before == nil || before(change)) && predicate(change)
		}
	})
}

// ReconcileBeforeSync makes the controller reconcile some objects as soon as the cache has them, before
// all kinds of the controller are [cache.Current]. predicate selects these objects: it should select
// objects that no reconcile has handled so far. So at a start among many objects, new objects need not
// wait for the lists of old ones. It is an option of [For].
//
// fields is a field selector for such objects, or empty if the API server supports none. One page of
// the objects that it selects is requested before the list of all objects. For a custom resource, the
// supported fields are the selectableFields of its definition. If several controllers watch the kind,
// the selector of the first one applies.
//
// At the start of a manager, the lists of all kinds wait until these objects are reconciled, 3 s at most.
// The lists keep the API server busy, and would delay them. An object counts as reconciled when its
// reconciler returns an error, or asks for no other attempt within 5 s.
//
// If the controller is added while the manager runs, no object is reconciled early. The same holds while
// leader election is on, because a replica that does not lead reconciles nothing.
//
// The reconciler of such an object may not find in the cache what exists on the server. It must rely
// on the server's answers: if an object already exists, Create fails with AlreadyExists. predicate
// must be fast, and safe for use by many goroutines.
func ReconcileBeforeSync[T streams.Object](predicate func(object T) bool, fields string) InputOption {
	return inputOption(func(i *input) {
		if _, fits := i.object.(T); !fits {
			i.wrong = fmt.Errorf("ReconcileBeforeSync has a predicate for %v, but the kind is kept as %T; give a predicate for that type", reflect.TypeFor[T](), i.object)
		}
		i.options.First = fields
		i.early = func(object streams.Object) bool {
			typed, ok := object.(T)
			return ok && predicate(typed)
		}
	})
}

// Plural sets the plural of the kind in URLs. The API server names an irregular plural itself, so the
// option only spares a request: see [sources.Kind.Locate].
func Plural(resource string) InputOption {
	return inputOption(func(i *input) { i.kind = append(i.kind, sources.Plural(resource)) })
}

// ClusterScoped marks the kind as cluster-scoped: its objects have no namespaces. The API server shows the
// scope itself, so the option only spares requests. It is needed if the API server forbids discovery and
// Options.Namespaces is set.
func ClusterScoped() InputOption {
	return inputOption(func(i *input) { i.kind = append(i.kind, sources.ClusterScoped()) })
}

// OfKind names the kind of an object whose Go type is not in the scheme, or stands for several kinds. See
// [sources.OfKind]. A write takes the kind from its object, except for [RetryOnConflict].
func OfKind(kind schema.GroupVersionKind) KindOption { return KindOption(kind) }

// KindOption is an [InputOption], a [ReadOption] and a [WriteOption]: see [OfKind].
type KindOption schema.GroupVersionKind

func (o KindOption) watch(of *input) {
	of.kind = append(of.kind, sources.OfKind(schema.GroupVersionKind(o)))
}
func (o KindOption) read(wanted *reading) { wanted.kind = schema.GroupVersionKind(o) }
func (o KindOption) write(how *writing)   { how.kind = schema.GroupVersionKind(o) }

// Project sets a function that turns a whole object into the smaller object that the cache keeps. See
// [sources.Project]. All controllers of a manager that name the kind must give the same function: see
// [For].
func Project[From, To streams.Object](project func(whole From) To) InputOption {
	return inputOption(func(i *input) {
		i.kind = append(i.kind, sources.Project(project))
		i.project = identityOf(project)
	})
}

// Metadata is the metadata of an object, for a controller that reads nothing else of the kind:
// Owns(&Metadata[appsv1.StatefulSet]{}). See [sources.Metadata].
type Metadata[T any] = sources.Metadata[T]

// For sets the kind of the objects that the controller reconciles. A controller without it gets requests of
// [Watches] with a map function and of [From], and its reconciler interprets their names. It has no
// [Owns], [Finalizer], [PausedBy] and [Resync].
//
// The cache keeps objects of the kind as the Go type of object, and [Get] and [List] read
// that type: see [sources.KindOf]. This also holds for Owns and Watches.
//
// The controllers of a manager share one watch and one cache of a kind. So For, Owns and Watches of
// one kind must give the same type. Their options ClusterScoped, Plural, Namespaces, LabelSelector,
// FieldSelector, Transform and Project must be the same, too. Otherwise Add fails. Two functions are the same
// if they are one value: a function of a package, or a closure or method value from one variable.
func For(object streams.Object, options ...InputOption) Option {
	return option(func(d *definition) { d.reconciles = newInput(object, nil, options) })
}

// Owns adds a kind of objects whose controller owner reference names a reconciled object. A change of
// such an object makes a request for its owner.
func Owns(object streams.Object, options ...InputOption) Option {
	return option(func(d *definition) { d.inputs = append(d.inputs, newInput(object, nil, options)) })
}

// Watches adds a kind of objects that concern reconciled objects in another way. mapFunc returns the
// names of the reconciled objects: see [operators.Rule].
func Watches(object streams.Object, mapFunc func(streams.Object) []types.NamespacedName, options ...InputOption) Option {
	return option(func(d *definition) { d.inputs = append(d.inputs, newInput(object, mapFunc, options)) })
}

// Uses adds a kind that the reconciler reads and writes, and whose changes make no requests. Reads go to
// the API server, and nothing is cached, unless another controller of the manager watches the kind.
// object is of the API type, or an *unstructured.Unstructured; of the options, [OfKind] applies.
func Uses(object streams.Object, options ...InputOption) Option {
	return option(func(d *definition) { d.uses = append(d.uses, newInput(object, nil, options)) })
}

// FieldManager sets the field manager of writes: the name under which the API server records who set
// which fields. It is an option of a controller and of a single write. The default is
// [Options].FieldManager, or else the name of the controller that writes.
func FieldManager(name string) FieldManagerOption { return FieldManagerOption(name) }

// FieldManagerOption is an [Option] and a [WriteOption]: see [FieldManager].
type FieldManagerOption string

func (o FieldManagerOption) define(made *definition) { made.fieldManager = string(o) }
func (o FieldManagerOption) write(how *writing)      { how.fieldManager = string(o) }

// Resync requests all objects of the controller again each time the given duration has passed: 1 s to
// 8760 h. Watches miss nothing, so a controller needs this only for state outside of the cluster.
func Resync(every time.Duration) Option {
	return option(func(d *definition) {
		if d.resync = every; every == 0 {
			d.resync = -1 // It is out of the range, and 0 stands for none below.
		}
	})
}

// MaxConcurrentReconciles bounds the reconciles of the controller that run at once: 1 to 1024. By default
// it shares all workers with the other controllers: see Options.Workers.
func MaxConcurrentReconciles(most int) Option {
	return option(func(d *definition) {
		if d.limits.MaxConcurrent = most; most == 0 {
			d.limits.MaxConcurrent = -1 // 0 is no number of the range, and stands for no limit below.
		}
	})
}

// ReconcileTimeout bounds the time of one reconcile of the controller: 1 ms to 24 h. The default is
// Options.Timeout.
func ReconcileTimeout(timeout time.Duration) Option {
	return option(func(d *definition) {
		if d.limits.Timeout = timeout; timeout == 0 {
			d.limits.Timeout = -1
		}
	})
}

// RetryBackoff sets how long the controller waits between reconciles that fail. The default is
// Options.Backoff.
func RetryBackoff(backoff operators.Backoff) Option {
	return option(func(d *definition) { d.limits.Backoff = backoff })
}

// RetryDelay sets a function that returns how long an object waits after a number of failures in a row, which
// is 1 or more. It takes the place of [RetryBackoff], for example for a rate limiter that all objects share.
// Below 0 counts as 0, and more than 24 h as 24 h. A change of the object's generation still gets one
// attempt at once. delay must be fast; it is called from one goroutine at a time. If it panics, the backoff
// applies.
func RetryDelay(delay func(object types.NamespacedName, failures int) time.Duration) Option {
	return option(func(d *definition) { d.limits.Delay = delay })
}

// IgnoreEchoes drops the requests that the controller's own writes cause. Use it if one call of the
// reconciler does everything that it can do. See [operators.Controller].
func IgnoreEchoes() Option { return option(func(d *definition) { d.ignoreEchoes = true }) }

// namesOnlyItsKind reports whether all given options name the kind.
func (i *input) namesOnlyItsKind() bool {
	plain := i.project == nil && i.indexers == nil && i.changes == nil && i.when == nil && i.early == nil && !i.onDemand
	return plain && reflect.DeepEqual(i.options, sources.WatchOptions{})
}

func newInput(object streams.Object, mapFunc func(streams.Object) []types.NamespacedName, options []InputOption) *input {
	made := &input{object: object, mapFunc: mapFunc}
	for i, option := range options {
		if option == nil {
			made.wrong = fmt.Errorf("option %d of a %T is nil; leave it out", i+1, object)
			continue
		}
		option.watch(made)
	}
	return made
}
