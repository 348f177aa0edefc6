package compat

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/internal/secrets"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Client returns a client of controller-runtime over the client of a manager.
//
// Get and List read a kind that a controller watches from the manager's cache. The object must have the
// Go type in which the cache keeps the kind. They see the client's own writes. Everything else is read
// from the API server: other kinds, other forms of a watched kind, other namespaces, kinds whose first
// list is not complete, and lists with a limit. A list by an index waits for the first list. Objects that they return belong to the caller.
//
// Writes take the options of controller-runtime and have its effects. Two things are better: the next
// read of the cache sees the write, and the attempt that ctx belongs to records it. The
// controller's field manager applies, unless an option names another one. A write in a form that no controller
// declares is seen when the watch reports it. So is a write of a subresource with a body of its own.
func Client(c *controller.Client) (client.Client, error) {
	made, err := newClient(c, nil)
	if err != nil {
		return nil, err
	}
	return made, nil
}

// newClient creates a client. mapper may be nil.
func newClient(c *controller.Client, mapper meta.RESTMapper) (*both, error) {
	config, requests := c.Manager().Connection()
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		config = rest.CopyConfig(config)
		config.WarningHandler = rest.NoWarnings{} // A handler does not know the kind, and a warning may quote a Secret.
	}
	live, err := client.New(config, client.Options{HTTPClient: requests, Scheme: c.Manager().Scheme(), Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client of controller-runtime for %s: %w", config.Host, err)
	}
	return &both{ours: c, live: live}, nil
}

// both is a client that works with the manager's client where it can, and with controller-runtime's own
// elsewhere.
type both struct {
	ours     *controller.Client
	live     client.Client
	uncached []schema.GroupKind // kinds that are read live though they are watched
}

// Scheme implements client.Client.
func (c *both) Scheme() *runtime.Scheme { return c.live.Scheme() }

// RESTMapper implements client.Client.
func (c *both) RESTMapper() meta.RESTMapper { return c.live.RESTMapper() }

// GroupVersionKindFor implements client.Client.
func (c *both) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	return c.live.GroupVersionKindFor(object)
}

// IsObjectNamespaced implements client.Client.
func (c *both) IsObjectNamespaced(object runtime.Object) (bool, error) {
	return c.live.IsObjectNamespaced(object)
}

// undeclared reports whether the manager's client refused a request because of the form of the object,
// before it sent anything.
func undeclared(err error) bool {
	return errors.Is(err, controller.ErrNotDeclared) || errors.Is(err, controller.ErrOtherType) ||
		errors.Is(err, controller.ErrPartial) || errors.Is(err, controller.ErrNotWatched)
}

// plain returns the error of the API server alone, as controller-runtime does. Some programs look at its
// type instead of using errors.As.
//
// The manager's client leaves a message out of the text of an error if it may quote values of a Secret. Then
// plain leaves it out too.
func plain(err error) error {
	status := (*apierrors.StatusError)(nil)
	if !errors.As(err, &status) {
		return err
	}
	text := err.Error()
	if strings.Contains(text, status.ErrStatus.Message) {
		return status
	}
	hiding := &apierrors.StatusError{ErrStatus: *status.ErrStatus.DeepCopy()}
	hiding.ErrStatus.Message, hiding.ErrStatus.Reason = text, metav1.StatusReason(secrets.ReasonOf(status)) // A webhook may set any reason.
	if details := hiding.ErrStatus.Details; details != nil {
		for i := range details.Causes {
			details.Causes[i].Message = ""
			details.Causes[i].Field, _, _ = strings.Cut(details.Causes[i].Field, "[") // It may name an item by its values.
		}
	}
	return hiding
}

// assign copies an object into the object of the caller.
func assign(to, from streams.Object) error {
	target, source := reflect.ValueOf(to), reflect.ValueOf(from)
	if target.Kind() != reflect.Pointer || target.IsNil() || target.Type() != source.Type() {
		return fmt.Errorf("cannot copy a %T into a %T; give a pointer of that type", from, to)
	}
	target.Elem().Set(source.Elem())
	return nil
}

// answered copies the answer to a write into the object of the caller, which keeps its kind.
func answered(object, answer streams.Object, err error) error {
	if err != nil {
		return plain(err)
	}
	named := object.GetObjectKind().GroupVersionKind()
	if made, is := object.(*unstructured.Unstructured); is && reflect.TypeOf(answer) != reflect.TypeOf(object) {
		if made.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(answer); err != nil { // An apply is answered in the form of the cache.
			return err
		}
	} else if err := assign(object, answer); err != nil {
		return err
	}
	if !named.Empty() {
		object.GetObjectKind().SetGroupVersionKind(named)
	}
	return nil
}

// hidden returns an error of controller-runtime's client, for a Secret without what may quote its values.
func (c *both) hidden(object client.Object, err error) error {
	kind, unknown := apiutil.GVKForObject(object, c.Scheme())
	if err == nil || unknown != nil || kind.GroupKind() != (schema.GroupKind{Kind: "Secret"}) {
		return err
	}
	return plain(controller.HideSecretValues(kind.GroupKind(), err))
}

// recorded records a write of controller-runtime's client for the attempt that ctx belongs to.
func (c *both) recorded(ctx context.Context, verb string, object client.Object, dryRun []string, err error) error {
	if err != nil || len(dryRun) > 0 {
		return c.hidden(object, err)
	}
	kind, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return err
	}
	write := operators.Write{Verb: verb, Key: streams.KeyOf(kind.GroupKind(), object), ResourceVersion: object.GetResourceVersion()}
	if verb == "delete" {
		write.ResourceVersion = ""
	}
	operators.RecordWrite(ctx, write)
	return nil
}

// bare returns an object of the same type and kind as the given one, with its name, and a uid and version
// as conditions.
func bare(object client.Object, conditions *metav1.Preconditions) client.Object {
	made := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
	made.GetObjectKind().SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	made.SetNamespace(object.GetNamespace())
	made.SetName(object.GetName())
	if conditions != nil && conditions.UID != nil {
		made.SetUID(*conditions.UID)
	}
	if conditions != nil && conditions.ResourceVersion != nil {
		made.SetResourceVersion(*conditions.ResourceVersion)
	}
	return made
}
