package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Delete deletes an object. If the object has a uid, Delete deletes that object alone, and fails with a
// conflict if another object has taken its name: see also [IfUnchanged]. An object with finalizers, or a
// pod that may terminate in its own time, remains until these are done; the next read shows that it is
// being deleted. If the object does not exist, Delete fails with an error for which apierrors.IsNotFound
// is true: see [IgnoreNotFound].
//
// The next read of the cache does not find a deleted object, or finds it with a deletion timestamp.
func Delete[T streams.Object](ctx context.Context, c *Client, object T, options ...WriteOption) error {
	how, err := writingOf(options, mayDelete|mayNotValidate)
	var kind *form
	if err == nil {
		kind, err = c.named(object)
	}
	if err == nil && how.ifUnchanged && object.GetResourceVersion() == "" {
		err = fmt.Errorf("IfUnchanged is given, but the object has no resource version; give the object as it was read")
	}
	if err != nil {
		return writeError("delete", kind, object, err)
	}
	body, err := json.Marshal(how.deletion(object.GetUID(), object.GetResourceVersion()))
	if err != nil {
		return writeError("delete", kind, object, err)
	}
	answer, err := kind.to(ctx, kind.requests.Delete(), object.GetNamespace()).
		Name(object.GetName()).
		SetHeader("Content-Type", runtime.ContentTypeJSON).
		Body(body).Do(ctx).Get()
	if err != nil {
		return writeError("delete", kind, object, err)
	}
	if how.dryRun {
		return nil
	}
	return kind.recordDeletion(ctx, nameOf(object), object.GetUID(), answer, how.asked)
}

// DeleteAllOf deletes the objects of type T that options select, with one request. [InNamespace] is
// required for a kind with namespaces. The other options are [MatchingLabels], [LabelSelector],
// [FieldSelector], [OfKind] and [Like].
//
// The next read of the cache does not find the deleted objects, or finds them with a deletion timestamp.
// For a kind in the cache that takes two more requests: they list what is selected, and what remains.
func DeleteAllOf[T streams.Object](ctx context.Context, c *Client, selected []ReadOption, options ...WriteOption) error {
	wanted := reading{}.applied(selected)
	of := typeOf[T](wanted)
	how, err := writingOf(options, mayDelete|mayNotValidate)
	var kind *form
	if err == nil {
		kind, err = c.form(of, wanted.kind)
	}
	if err == nil {
		_, err = wanted.selector()
	}
	switch {
	case err != nil:
	case wanted.index != "":
		err = fmt.Errorf("InIndex names an index of the cache; select by labels or fields, or delete each object that List returns")
	case wanted.namespace == "" && kind.as.Namespaced():
		err = fmt.Errorf("the API server deletes all objects of one namespace at most; give InNamespace")
	case how.ifUnchanged:
		err = fmt.Errorf("IfUnchanged applies to the deletion of one object; leave it out")
	}
	if err != nil {
		return fmt.Errorf("cannot delete all of %v: %w", of, err)
	}
	query := metav1.ListOptions{LabelSelector: wanted.labelSelector, FieldSelector: wanted.fieldSelector}
	body, err := json.Marshal(how.deletion("", ""))
	if err != nil {
		return fmt.Errorf("cannot delete all of %v: %w", kind.as.GroupKind(), err)
	}
	store := kind.store()
	var before map[types.NamespacedName]streams.Object // on the server, because the cache may be late
	if store != nil && !how.dryRun {
		if before, err = kind.listed(ctx, wanted.namespace, query); err != nil {
			return fmt.Errorf("cannot delete all of %v: %w", kind.as.GroupKind(), err)
		}
	}
	err = kind.to(ctx, kind.requests.Delete(), wanted.namespace).
		VersionedParams(&query, metav1.ParameterCodec).
		SetHeader("Content-Type", runtime.ContentTypeJSON).
		Body(body).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("cannot delete all of %v: %w", kind.as.GroupKind(), HideSecretValues(kind.as.GroupKind(), err))
	}
	if len(before) == 0 {
		return nil
	}
	if err := kind.recordDeletions(ctx, store, before, wanted.namespace, how.asked); err != nil {
		return fmt.Errorf("the selected %v were deleted, but the cache does not show it yet: %w", kind.as.GroupKind(), err)
	}
	return nil
}

// recordDeletions records which of the given objects were deleted. The answer of the API server does not
// show which of them have finalizers or a grace period, so what remains is listed. An object that no
// longer has the selected labels remains too.
func (f *form) recordDeletions(ctx context.Context, store *cache.Store, before map[types.NamespacedName]streams.Object, namespace string, asked time.Time) error {
	rest, err := f.listed(ctx, namespace, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for name, deleted := range before {
		if remains := rest[name]; remains != nil && remains.GetUID() == deleted.GetUID() {
			if err := f.show(ctx, remains); err != nil {
				return err
			}
			continue
		}
		operators.RecordWrite(ctx, operators.Write{Verb: "delete", Key: streams.Key{GroupKind: f.as.GroupKind(), NamespacedName: name}, Asked: asked})
		f.gone(ctx, store, name, deleted.GetUID())
	}
	return nil
}

// listed returns the objects of the API server by name.
func (f *form) listed(ctx context.Context, namespace string, query metav1.ListOptions) (map[types.NamespacedName]streams.Object, error) {
	found := map[types.NamespacedName]streams.Object{}
	query.Limit = DefaultPageSize
	for {
		list, err := f.as.List(ctx, f.requests, namespace, query)
		if err != nil {
			return nil, err
		}
		head, err := meta.ListAccessor(list)
		if err != nil {
			return nil, err
		}
		err = f.as.EachItem(list, func(object streams.Object) error {
			found[nameOf(object)] = object
			return nil
		})
		if query.Continue = head.GetContinue(); err != nil || query.Continue == "" {
			return found, err
		}
	}
}

// nameOf returns the name of an object.
func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// deletion returns the options of a deletion. uid and version are conditions, or empty.
func (w *writing) deletion(uid types.UID, version string) *metav1.DeleteOptions {
	w.asked = time.Now()
	made := &metav1.DeleteOptions{
		TypeMeta:           metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		GracePeriodSeconds: w.grace,
		PropagationPolicy:  w.propagation,
	}
	if w.dryRun {
		made.DryRun = []string{metav1.DryRunAll}
	}
	if uid != "" {
		made.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	if w.ifUnchanged {
		if made.Preconditions == nil {
			made.Preconditions = &metav1.Preconditions{}
		}
		made.Preconditions.ResourceVersion = &version
	}
	return made
}

// recordDeletion records a deletion, for the attempt and for readers of the cache. uid is the one of the
// deleted object, if it is known. answer is the API server's.
func (f *form) recordDeletion(ctx context.Context, name types.NamespacedName, uid types.UID, answer runtime.Object, asked time.Time) error {
	key := streams.Key{GroupKind: f.as.GroupKind(), NamespacedName: name}
	operators.RecordWrite(ctx, operators.Write{Verb: "delete", Key: key, Asked: asked})
	store := f.store()
	if store == nil {
		return nil
	}
	if status, gone := answer.(*metav1.Status); gone {
		if uid == "" && status.Details != nil {
			uid = status.Details.UID
		}
		if uid != "" {
			f.gone(ctx, store, name, uid)
		}
		return nil
	}
	object, is := answer.(streams.Object)
	switch {
	case !is || object.GetName() == "":
		return fmt.Errorf("cannot delete %s: %w", key, errNoObject)
	case isGone(object):
		f.gone(ctx, store, name, object.GetUID())
		return nil
	}
	return f.show(ctx, object)
}

// isGone reports whether an object in the answer to its deletion no longer exists. Otherwise it has a
// deletion timestamp and remains until its finalizers or its grace period are done.
func isGone(object streams.Object) bool { return object.GetDeletionTimestamp() == nil }
