package controller

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unique"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Apply applies a configuration server-side and returns the object as the API server stored it. The
// configuration is one of client-go's apply configurations, or one that [ApplyConfigurationOf] makes:
//
//	_, err := controller.Apply[*corev1.ConfigMap](ctx, client,
//		applycorev1.ConfigMap("pegasus", "default").WithData(data))
//
// The API server creates an object that does not exist. Fields that the configuration leaves out stay as
// they are, except for fields that only an earlier Apply of the same field manager set: the API server
// removes these. If another field manager owns a field with another value, Apply fails with a conflict
// that names both: see [Force]. The status is applied with Subresource("status") only.
//
// With [CreateOnly], Apply fails if the object exists. If the configuration has a controller reference, as
// [SetControllerReference] sets it, Apply writes an object that exists only if
//
//   - that owner controls the object, or
//   - no object controls it, and the field manager has applied it before: it has lost its owner, for
//     example after a restore from a backup. [Adopt] takes over any object that no object controls.
//
// Otherwise it fails with an [ErrOtherController] or [ErrUncontrolled], and changes nothing. This costs a read
// of the API server for a kind that is not cached, and for an object without a controller.
//
// Apply sends nothing if it has applied the same configuration before, and since then nothing but the
// status and other labels and annotations has changed. It then returns a copy of the cached object. This takes a kind whose
// whole objects are in the cache. An admission webhook that overrides a field therefore causes no endless writes.
//
// After a restart, the managed fields show whether an earlier process has applied the same configuration. The first
// Apply is sent if fields differ, if only the API server can compare them, or if a write names its own field manager:
// see [FieldManager]. [ReadFirst] does the same for a kind whose whole objects are not in the cache.
//
// If T is an interface, such as streams.Object, the configuration alone names the kind.
func Apply[T streams.Object](ctx context.Context, c *Client, configuration runtime.ApplyConfiguration, options ...WriteOption) (T, error) {
	none := *new(T)
	fail := func(err error) (T, error) { return none, fmt.Errorf("cannot apply %T: %w", configuration, err) }
	how, err := writingOf(options, mayApply|mayNameSubresource)
	if err != nil {
		return fail(err)
	}
	if from, is := configuration.(setOf); configuration == nil || is && isNil(from.object) {
		return fail(errNil)
	}
	made, err := newApplication(configuration, how.subresource)
	if err != nil {
		return fail(err)
	}
	kind, err := formOf[T](c, made.kind())
	if err != nil {
		return fail(err)
	}
	if err := made.complete(kind.as); err != nil {
		return fail(err)
	}
	body, err := json.Marshal(made.content)
	if err != nil {
		return fail(err)
	}
	manager := how.fieldManager
	if manager == "" {
		manager = c.fieldManagerOf(ctx)
	}
	to := sending{
		client: c, kind: kind, of: made, body: body, how: &how, manager: manager,
		key: appliedKey{kind.as.GroupKind(), made.name(), manager, how.subresource}, sum: sha256.Sum256(body),
	}
	if !how.dryRun && !how.createOnly {
		if held, same := c.stands(to.key, kind, made, to.sum); same {
			return held.DeepCopyObject().(T), nil
		}
	}
	if how.readFirst && !how.dryRun {
		switch live, err := kind.get(ctx, made.name()); {
		case err == nil && to.stillAppliedOn(live):
			return live.(T), nil
		case err != nil && !apierrors.IsNotFound(err):
			return fail(fmt.Errorf("reading the object first: %w", err))
		}
	}
	answer, created, err := to.send(ctx)
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: made.name().Namespace, Name: made.name().Name}}
	if err != nil {
		return none, writeError("apply", kind, object, err)
	}
	return wrote(ctx, kind, &how, "apply", created, answer.(T), answer, nil)
}

// formOf returns the form of T that Apply writes.
func formOf[T streams.Object](c *Client, kind schema.GroupVersionKind) (*form, error) {
	of := reflect.TypeFor[T]()
	if of.Kind() == reflect.Interface {
		if of = c.wholeType(kind); of == nil {
			return nil, fmt.Errorf("%v: %w", kind, ErrNotDeclared)
		}
	}
	found, err := c.form(of, kind)
	if err == nil && found.as.Form() != sources.Whole {
		return nil, fmt.Errorf("%w: a %v is a part of a %v; give Apply the API type", ErrPartial, of, found.as.GroupKind())
	}
	return found, err
}

// wholeType returns the Go type in which a declared kind is written, or nil.
func (c *Client) wholeType(kind schema.GroupVersionKind) (found reflect.Type) {
	for of, known := range *c.forms.Load() {
		for _, form := range known {
			if form.as.GroupVersionKind == kind && form.as.Form() == sources.Whole && (found == nil || form.isCached()) {
				found = of
			}
		}
	}
	return found
}

// ApplyConfigurationOf returns an apply configuration of the fields that an object sets, for kinds
// without generated apply configurations. A field is set unless it holds the zero value of its type, an
// empty map or an empty slice: see [StrategicMerge]. Fields that only the API server sets, such as the
// creation time, are left out. The object may be an *unstructured.Unstructured, all of whose fields are
// set. It must not be changed before the configuration was applied.
func ApplyConfigurationOf(object streams.Object) runtime.ApplyConfiguration { return setOf{object} }

// setOf is the apply configuration of the fields that an object sets.
type setOf struct{ object streams.Object }

// IsApplyConfiguration implements runtime.ApplyConfiguration.
func (setOf) IsApplyConfiguration() {}

// MarshalJSON encodes the fields that are set.
func (f setOf) MarshalJSON() ([]byte, error) { return encodeAllSet(f.object) }

// application is a configuration that is about to be applied.
type application struct {
	content     map[string]any
	subresource string
}

// serverFields are the fields of metadata that only the API server sets.
var serverFields = []string{"managedFields", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"}

// newApplication decodes a configuration, and keeps the parts that are applied with a subresource.
func newApplication(configuration runtime.ApplyConfiguration, subresource string) (application, error) {
	encoded, err := json.Marshal(configuration)
	if err != nil {
		return application{}, err
	}
	made := application{subresource: subresource}
	if err := utiljson.Unmarshal(encoded, &made.content); err != nil { // It keeps large integers.
		return application{}, err
	}
	if made.content == nil {
		return application{}, errors.New("it is nil")
	}
	selected := selectsPart(subresource)
	for part := range made.content {
		switch part {
		case "apiVersion", "kind", "metadata":
		default:
			if !selected(part) {
				delete(made.content, part)
			}
		}
	}
	if metadata, has := made.content["metadata"].(map[string]any); has {
		for _, field := range serverFields {
			delete(metadata, field)
		}
	}
	return made, nil
}

func (a application) object() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: a.content}
}

func (a application) kind() schema.GroupVersionKind { return a.object().GroupVersionKind() }

func (a application) name() types.NamespacedName {
	return types.NamespacedName{Namespace: a.object().GetNamespace(), Name: a.object().GetName()}
}

// complete sets the kind if the configuration has none, and checks the kind and the name.
func (a application) complete(as sources.Kind) error {
	switch kind := a.kind(); {
	case kind.Empty():
		a.object().SetGroupVersionKind(as.GroupVersionKind)
	case kind != as.GroupVersionKind:
		return fmt.Errorf("it is for %v, and the type for %v; give Apply the type of the configuration", kind, as.GroupVersionKind)
	}
	if a.name().Name == "" {
		return errors.New("it has no name; server-side apply cannot generate names")
	}
	return nil
}

// appliesRemembered bounds the applies that are remembered. An apply that is forgotten is sent once more.
const appliesRemembered = 1 << 16

// appliedKey identifies what a field manager applied to an object.
type appliedKey struct {
	kind         schema.GroupKind
	name         types.NamespacedName
	fieldManager string
	subresource  string
}

// applied is the answer to the last apply of a configuration, or what the managed fields say about an apply of an earlier process.
type applied struct {
	uid     types.UID
	version string
	body    [sha256.Size]byte
	print   [sha256.Size]byte // see printOf
	pending int64             // the send whose answer has not come, or 0
	managed unique.Handle[managed]
}

// begin forgets the last apply of a key, because another one is about to be sent: its answer may be lost.
// It returns a number that remember needs.
func (c *Client) begin(key appliedKey) (send int64) {
	c.applying.Lock()
	defer c.applying.Unlock()
	c.sends++
	c.applied.Add(key, applied{pending: c.sends})
	return c.sends
}

// stands reports whether the last apply of a configuration still stands, and returns the cached object.
func (c *Client) stands(key appliedKey, kind *form, made application, body [sha256.Size]byte) (streams.Object, bool) {
	store := kind.store()
	last, known := c.applied.Get(key)
	if store == nil || !kind.isCached() || !known || last.pending != 0 {
		return nil, false
	}
	held, found := store.Get(key.name)
	switch {
	case !found || held.GetUID() != last.uid:
		return nil, false
	case last.isManaged():
		same := held.GetResourceVersion() == last.version && !kind.as.HasPart() && last.managed.Value().stillApplied(made, held)
		if same {
			c.rememberManaged(key, last, made, body, held)
		}
		return held, same
	case last.body != body:
		return nil, false
	case held.GetResourceVersion() == last.version:
		return held, true
	case kind.as.HasPart(): // The rest of the object may have changed.
		return nil, false
	}
	now, err := printOf(made, held)
	return held, err == nil && now == last.print
}

// rememberManaged records that the apply of an earlier process stands, as if this process had sent it.
func (c *Client) rememberManaged(key appliedKey, earlier applied, made application, body [sha256.Size]byte, held streams.Object) {
	now, err := printOf(made, held)
	if err != nil {
		return
	}
	c.applying.Lock()
	defer c.applying.Unlock()
	if last, known := c.applied.Peek(key); known && last == earlier {
		c.applied.Add(key, applied{uid: held.GetUID(), version: held.GetResourceVersion(), body: body, print: now})
	}
}

// remember records the answer to an apply.
func (c *Client) remember(key appliedKey, send int64, kind *form, made application, body [sha256.Size]byte, answer streams.Object) {
	now, err := printOf(made, answer)
	c.applying.Lock()
	defer c.applying.Unlock()
	if last, known := c.applied.Peek(key); !known || last.pending != send {
		return // Another apply was sent meanwhile, and may have come later or earlier.
	}
	if err != nil || kind.store() == nil || !kind.isCached() {
		c.applied.Remove(key)
		return
	}
	c.applied.Add(key, applied{uid: answer.GetUID(), version: answer.GetResourceVersion(), body: body, print: now})
}
