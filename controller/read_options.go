package controller

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// ReadOption configures a read of the client.
type ReadOption interface{ read(wanted *reading) }

type readOption func(*reading)

func (o readOption) read(wanted *reading) { o(wanted) }

// InNamespace selects the objects of one namespace. An empty namespace stands for all namespaces.
func InNamespace(namespace string) ReadOption {
	return readOption(func(wanted *reading) { wanted.namespace = namespace })
}

// MatchingLabels selects the objects that have all the given labels.
func MatchingLabels(labelled map[string]string) ReadOption {
	return readOption(func(wanted *reading) {
		wanted.labelSelector = both(wanted.labelSelector, labels.Set(labelled).String())
	})
}

// InIndex selects the objects that have a value in an index of the cache: see [Indexed]. Each kind that
// is watched has the index [cache.OwnerIndex].
func InIndex(index, value string) ReadOption {
	return readOption(func(wanted *reading) { wanted.index, wanted.value, wanted.indexed = index, value, true })
}

// Like names the Go type of a read whose type parameter is an interface, for programs that learn types
// while they run. The read takes the type of the example. If the example names its kind, the read takes
// that kind too.
//
//	object, err := controller.Get[streams.Object](ctx, client, name, controller.Like(example))
func Like(example streams.Object) ReadOption {
	return readOption(func(wanted *reading) {
		wanted.of = reflect.TypeOf(example)
		if sources.NamesItsKind(wanted.of) {
			wanted.kind = example.GetObjectKind().GroupVersionKind()
		}
	})
}

// both returns a selector that requires two selectors.
func both(one, other string) string {
	if one == "" || other == "" {
		return one + other
	}
	return one + "," + other
}

// reading collects the options of a read.
type reading struct {
	of                           reflect.Type // nil for the type parameter
	kind                         schema.GroupVersionKind
	namespace                    string
	labelSelector, fieldSelector string
	index, value                 string
	indexed                      bool // InIndex was given
}

// applied returns a reading with the given options.
func (r reading) applied(options []ReadOption) reading {
	for _, option := range options {
		if option != nil {
			option.read(&r)
		}
	}
	return r
}

// typeOf returns the Go type that is read, where T is the type parameter of the read.
func typeOf[T any](wanted reading) reflect.Type {
	if wanted.of != nil {
		return wanted.of
	}
	return reflect.TypeFor[T]()
}

// namespaces returns the namespaces to which the options restrict the reading.
func (r reading) namespaces() (named []string) {
	if r.namespace != "" {
		named = append(named, r.namespace)
	}
	if r.fieldSelector == "" {
		return named
	}
	selected, err := fields.ParseSelector(r.fieldSelector)
	if err != nil {
		return named // The reading fails with a better error.
	}
	if namespace, restricts := selected.RequiresExactMatch(fieldNamespace); restricts {
		named = append(named, namespace)
	}
	return named
}

// ofOne returns an error if the options select objects, for the read of one object.
func (r reading) ofOne() error {
	if r != (reading{of: r.of, kind: r.kind}) {
		return fmt.Errorf("only OfKind and Like apply to the read of one object; use List to select objects")
	}
	return nil
}

// selector selects objects by labels and fields.
type selector struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

// selector parses the selectors.
func (r reading) selector() (selector, error) {
	if r.indexed && r.index == "" {
		return selector{}, errors.New("InIndex names no index; give the name of one that Indexed declares")
	}
	labelled, err := labels.Parse(r.labelSelector)
	if err != nil {
		return selector{}, fmt.Errorf("LabelSelector is %q, which is not a selector: %w", r.labelSelector, err)
	}
	selected, err := fields.ParseSelector(r.fieldSelector)
	if err != nil {
		return selector{}, fmt.Errorf("FieldSelector is %q, which is not a field selector: %w", r.fieldSelector, err)
	}
	return selector{r.namespace, labelled, selected}, nil
}

// from returns the selected objects of a store, by namespace and name.
func (r reading) from(store *cache.Store) ([]streams.Object, error) {
	if r == (reading{of: r.of, kind: r.kind, namespace: r.namespace}) {
		return store.List(r.namespace), nil
	}
	by, err := r.selector()
	if err != nil {
		return nil, err
	}
	if r.index != "" && !slices.Contains(store.Indexes(), r.index) {
		return nil, fmt.Errorf("InIndex names %q, and the indexes of %v are %s; give the index to the kind with Indexed",
			r.index, store.Kind(), strings.Join(store.Indexes(), ", "))
	}
	for _, required := range by.fields.Requirements() {
		switch indexed := slices.Contains(store.Indexes(), required.Field); {
		case required.Field == fieldName || required.Field == fieldNamespace:
		case !indexed:
			return nil, fmt.Errorf("FieldSelector names %s, which the cache does not know; give the kind an index of that name with Indexed, or use ListLive", required.Field)
		case r.index == "" && required.Operator != selection.NotEquals:
			r.index, r.value = required.Field, required.Value // The other requirements are checked below.
		}
	}
	var candidates []streams.Object
	if r.index == "" {
		candidates = store.List(r.namespace)
	} else {
		candidates = store.ByIndex(r.index, r.value)
	}
	return slices.DeleteFunc(candidates, func(object streams.Object) bool { return !by.selects(store, object) }), nil
}

// The fields that each kind has.
const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// selects reports whether the selector selects an object of a store.
func (s selector) selects(store *cache.Store, object streams.Object) bool {
	if s.namespace != "" && object.GetNamespace() != s.namespace || !s.labels.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	for _, required := range s.fields.Requirements() {
		var values []string
		switch required.Field {
		case fieldName:
			values = []string{object.GetName()}
		case fieldNamespace:
			values = []string{object.GetNamespace()}
		default:
			values = store.ValuesOf(required.Field, object)
		}
		if slices.Contains(values, required.Value) == (required.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}
