package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Client reads from the manager's cache, and reads and writes at the API server. A read of the cache
// sees the writes and deletions that returned before it. Its functions may be called from any goroutine.
//
// The client knows the kinds that the manager's controllers declare. [Get] and [List] read kinds of
// [For], [Owns] and [Watches] from the cache, and kinds of [Uses] from the API server. A kind that no
// controller declares is an error that wraps [ErrNotDeclared]. A kind that is declared as another Go type
// is an [ErrOtherType], and a namespace that the cache does not have is an [ErrNotWatched].
//
// The Go type selects the kind. If a type stands for several kinds, as *unstructured.Unstructured and
// *metav1.PartialObjectMetadata do, a read needs [OfKind], and a written object must name its kind.
//
// Objects that Get and List return from the cache belong to the cache and must not be changed: change
// a deep copy. Objects that [GetLive], [ListLive] and the writes return belong to the caller.
//
// Errors of the API server are wrapped with the verb and the object. Test them with the functions of
// k8s.io/apimachinery/pkg/api/errors. A read from the cache fails with the same NotFound error.
//
// The text of an error about a write of a Secret leaves out a message of the API server that may quote the
// Secret. errors.As finds the *apierrors.StatusError, which has the message.
type Client struct {
	manager *Manager
	forms   atomic.Pointer[forms] // The map is never changed, only replaced.

	applying sync.Mutex // held while applied changes, because a change depends on the entry before
	applied  *lru.Cache[appliedKey, applied]
	sends    int64 // the number of applies that were sent
}

// ErrNotDeclared is wrapped in the error of a read or a write of a kind that no controller declares.
var ErrNotDeclared = errors.New("no controller of the manager declares the kind; name it in For, Owns, Watches or Uses")

// ErrOtherType is wrapped in the error of a read or a write, if controllers declare the kind as another Go
// type or in another version.
var ErrOtherType = errors.New("the kind is declared as another Go type")

// ErrNotWatched is wrapped in the error of a read from the cache in a namespace that the cache does not
// have: see Options.Namespaces and [Namespaces].
var ErrNotWatched = errors.New("the namespace is not watched")

// ErrPartial is wrapped in the error of a read or a write that needs another Go type: the cache keeps
// another form of the kind, or the given type lacks fields that a write sends.
var ErrPartial = errors.New("the type holds only a part of the object")

var errNil = errors.New("the object is nil")

func newClient(manager *Manager) *Client {
	remembered, err := lru.New[appliedKey, applied](appliesRemembered)
	if err != nil {
		panic(err) // Only for a size below 1.
	}
	made := &Client{manager: manager, applied: remembered}
	made.forms.Store(&forms{})
	return made
}

// Manager returns the manager whose cache the client reads.
func (c *Client) Manager() *Manager { return c.manager }

// form returns the form of a Go type. kind selects one of several kinds with the type, and may be
// empty.
func (c *Client) form(of reflect.Type, kind schema.GroupVersionKind) (*form, error) {
	known := (*c.forms.Load())[of]
	switch {
	case len(known) == 1 && kind.Empty():
		return known[0], nil
	case len(known) > 1 && kind.Empty():
		return nil, fmt.Errorf("%v stands for several kinds; name one with OfKind", of)
	}
	for _, form := range known {
		if form.as.GroupVersionKind == kind {
			return form, nil
		}
	}
	if others := c.otherForms(of, kind); others != "" {
		return nil, fmt.Errorf("%v: %w: %s; read and write that type, or name this one too, with Uses", of, ErrOtherType, others)
	}
	if !kind.Empty() {
		return nil, fmt.Errorf("%v of %v: %w", of, kind, ErrNotDeclared)
	}
	return nil, fmt.Errorf("%v: %w", of, ErrNotDeclared)
}

// otherForms describes the forms in which the kind of a Go type is declared, or returns "" if there are none.
// kind is the kind, or empty if the type alone names it.
func (c *Client) otherForms(of reflect.Type, kind schema.GroupVersionKind) string {
	if kind.Empty() && of.Kind() == reflect.Pointer {
		if example, is := reflect.New(of.Elem()).Interface().(streams.Object); is {
			if found, err := sources.KindOf(c.manager.scheme, example); err == nil {
				kind = found.GroupVersionKind
			}
		}
	}
	var others []string
	for _, forms := range *c.forms.Load() {
		for _, form := range forms {
			if !kind.Empty() && form.as.GroupKind() == kind.GroupKind() {
				others = append(others, fmt.Sprintf("%v as %v", form.as.GroupVersionKind, form.as.Type()))
			}
		}
	}
	slices.Sort(others)
	return strings.Join(others, ", ")
}

// cachedForm returns the form of a Go type that is to be read from the cache, or live if the kind is
// not cached. It fails if the cache keeps the kind in another form.
func (c *Client) cachedForm(of reflect.Type, kind schema.GroupVersionKind) (*form, error) {
	found, err := c.form(of, kind)
	if err == nil && !found.kept() {
		err = fmt.Errorf("%w: the cache keeps %v as %v; read that type, or use GetLive or ListLive for %v",
			ErrPartial, found.as.GroupKind(), found.watched.kind.Type(), of)
	}
	return found, err
}

// written returns the form of an object for a write. whole reports whether the write sends a whole
// object, and not only a patch.
func (c *Client) written(object streams.Object, whole bool) (*form, error) {
	found, err := c.named(object)
	if err != nil {
		return nil, err
	}
	if as := found.as.Form(); as == sources.Projected || as == sources.MetadataOnly && whole {
		return nil, fmt.Errorf("%w: a %T is a part of a %v; write the API type", ErrPartial, object, found.as.GroupKind())
	}
	return found, nil
}

// isNil reports whether an object is nil, or a nil pointer.
func isNil(object streams.Object) bool {
	of := reflect.ValueOf(object)
	return !of.IsValid() || of.Kind() == reflect.Pointer && of.IsNil()
}

// named returns the form of an object that a request names.
func (c *Client) named(object streams.Object) (*form, error) {
	if isNil(object) {
		return nil, errNil
	}
	of := reflect.TypeOf(object)
	if known := (*c.forms.Load())[of]; len(known) == 1 && !sources.NamesItsKind(of) {
		return known[0], nil
	}
	return c.form(of, object.GetObjectKind().GroupVersionKind())
}

// fieldManagerOf returns the field manager of writes: see Options.FieldManager.
func (c *Client) fieldManagerOf(ctx context.Context) string {
	member := c.manager.memberOf(ctx)
	switch {
	case member != nil && member.fieldManager != "":
		return member.fieldManager
	case c.manager.options.FieldManager != "":
		return c.manager.options.FieldManager
	case member != nil:
		return member.name
	}
	return c.manager.options.UserAgent
}

// IsNamespaced reports whether the objects of an object's kind have namespaces. It asks the API server if that
// is not known yet.
func (c *Client) IsNamespaced(ctx context.Context, object streams.Object) (bool, error) {
	kind, err := c.named(object)
	if err != nil {
		return false, fmt.Errorf("cannot look up the scope of a %T: %w", object, err)
	}
	if err := kind.as.Locate(ctx, kind.requests); err != nil {
		return false, fmt.Errorf("cannot look up the scope of a %T: %w", object, err)
	}
	return kind.as.Namespaced(), nil
}
