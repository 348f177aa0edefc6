package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Create creates an object and returns it as the API server stored it. T must be the API type, or
// *unstructured.Unstructured. The answer enters the cache in the form in which the kind is kept: whole,
// as a projection or as metadata. This holds for all writes.
func Create[T streams.Object](ctx context.Context, c *Client, object T, options ...WriteOption) (T, error) {
	kind, how, err := c.toWrite(object, true, options, 0)
	if err != nil {
		return *new(T), writeError("create", kind, object, err)
	}
	created := kind.as.New()
	err = kind.to(ctx, how.params(kind.requests.Post(), c.fieldManagerOf(ctx)), object.GetNamespace()).
		Body(object).Do(ctx).Into(created)
	return wrote(ctx, kind, &how, "create", true, object, created, err)
}

// Update replaces an object, except for its status, and returns it as the API server stored it. If the
// object has a resource version other than the stored object's, Update fails with a conflict and changes
// nothing. T must be the API type, or *unstructured.Unstructured. Fields that T does not have are lost:
// [Patch] keeps them.
func Update[T streams.Object](ctx context.Context, c *Client, object T, options ...WriteOption) (T, error) {
	kind, how, err := c.toWrite(object, true, options, mayNameSubresource)
	if err != nil {
		return *new(T), writeError("update", kind, object, err)
	}
	updated := kind.as.New()
	err = kind.to(ctx, how.params(kind.requests.Put(), c.fieldManagerOf(ctx)), object.GetNamespace()).
		Name(object.GetName()).SubResource(how.subresources()...).
		Body(object).Do(ctx).Into(updated)
	conditional := object.GetResourceVersion() != "" && updated.GetResourceVersion() != object.GetResourceVersion()
	return wrote(ctx, kind, &how, "update", conditional, object, updated, err)
}

// UpdateStatus replaces the status of an object, and nothing else. It is an [Update] of the subresource
// status.
func UpdateStatus[T streams.Object](ctx context.Context, c *Client, object T, options ...WriteOption) (T, error) {
	return Update(ctx, c, object, slices.Concat(options, []WriteOption{Subresource("status")})...)
}

// subresources returns the subresource as rest.Request takes it.
func (w *writing) subresources() []string {
	if w.subresource == "" {
		return nil
	}
	return []string{w.subresource}
}

// toWrite returns the form of an object that is to be written, and the options of the write.
func (c *Client) toWrite(object streams.Object, whole bool, options []WriteOption, may allowed) (kind *form, how writing, err error) {
	if kind, err = c.written(object, whole); err == nil && len(options) > 0 {
		how, err = writingOf(options, may)
	}
	switch how.subresource {
	case "scale":
		err = errors.New("the answer to a write of the subresource scale is not the object; use Scale")
	case "eviction":
		err = errors.New("the answer to a write of the subresource eviction is not the object; use Evict")
	}
	return kind, how, err
}

// writeError returns the error of a write. kind may be nil.
func writeError(verb string, kind *form, object streams.Object, err error) error {
	if kind == nil {
		return fmt.Errorf("cannot %s a %T: %w", verb, object, err)
	}
	of := kind.as.GroupKind()
	return fmt.Errorf("cannot %s %s: %w", verb, streams.KeyOf(of, object), HideSecretValues(of, err))
}

// errNoObject is wrapped in the error of a request whose answer is not the object.
var errNoObject = errors.New("the answer is not the object; is there a proxy before the API server?")

// wrote handles the answer to a write: it records the write for the attempt, and makes the answer
// visible to readers. sole is Write.Exclusive.
func wrote[T streams.Object](ctx context.Context, kind *form, how *writing, verb string, sole bool, object T, answer streams.Object, err error) (T, error) {
	if err != nil {
		return *new(T), writeError(verb, kind, object, err)
	}
	// client-go leaves the object empty where the answer is a Status of success, or nothing.
	if answer.GetName() == "" {
		return *new(T), writeError(verb, kind, object, errNoObject)
	}
	var made streams.Object
	if how.dryRun {
		made, err = kind.as.Projected(answer)
	} else {
		made, err = kind.record(ctx, verb, sole, answer, how.asked)
	}
	if err != nil {
		return *new(T), err
	}
	return made.(T), nil
}

// record records a write whose answer is the object, for the attempt and for readers of the cache. It
// returns the object for the caller of the write.
func (f *form) record(ctx context.Context, verb string, sole bool, answer streams.Object, asked time.Time) (streams.Object, error) {
	key := streams.KeyOf(f.as.GroupKind(), answer) // The server may have generated the name.
	operators.RecordWrite(ctx, operators.Write{Verb: verb, Key: key, ResourceVersion: answer.GetResourceVersion(), Exclusive: sole, Asked: asked})
	by := f.cachedBy()
	if by == nil {
		return f.as.Projected(answer)
	}
	if isFinished(answer) {
		if store := by.store(); store != nil {
			f.gone(ctx, store, nameOf(answer), answer.GetUID())
		}
		return f.as.Projected(answer)
	}
	reported := f.reported(ctx, by, key, answer, asked) // This comes before AsWatched, which may remove the labels.
	whole := answer
	if by.options.Transform != nil && !f.keptBy(by) {
		whole = answer.DeepCopyObject().(streams.Object) // Transform may change parts that the two share.
	}
	kept, err := sources.AsWatched(by.kind, by.options, whole)
	if err != nil {
		return nil, fmt.Errorf("%s was written, but cannot enter the cache: %w", key, err)
	}
	made := f.recordAnswer(ctx, by, answer, kept, reported)
	if f.watched == nil {
		return f.as.Projected(made)
	}
	return made, nil
}

// isFinished reports whether the API server has deleted an object with the write whose answer this is: the
// write has removed the last finalizer of an object that was being deleted.
func isFinished(answer streams.Object) bool {
	grace := answer.GetDeletionGracePeriodSeconds()
	return answer.GetDeletionTimestamp() != nil && len(answer.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// causedAt returns when the oldest cause of the request was received that ctx belongs to, or zero.
func causedAt(ctx context.Context) time.Time {
	if request, ok := operators.RequestOf(ctx); ok && len(request.Causes) > 0 {
		return request.Received
	}
	return time.Time{}
}

// reported has facts about an answer that are lost when it is converted to the form that the cache keeps.
type reported struct {
	asked   time.Time // zero if it is not known
	watched bool      // by the watch
	outside *recording.Pending
}

// reported returns what recordAnswer needs of an answer.
func (f *form) reported(ctx context.Context, by *watched, key streams.Key, answer streams.Object, asked time.Time) reported {
	of := reported{asked: asked, watched: by.reports(answer)}
	if of.watched {
		of.outside = f.client.manager.tape.outside(ctx, key, answer, "")
	}
	return of
}

// recordAnswer adds kept, the form of an answer that the cache keeps, to the cache. It returns the object for the caller
// of the write. The two objects share nothing, because the caller may change its object. The smaller one is copied. An
// object that the watch does not report stays out of the cache.
func (f *form) recordAnswer(ctx context.Context, by *watched, answer, kept streams.Object, of reported) streams.Object {
	store, whole := by.store(), f.keptBy(by)
	if whole {
		answer = kept
	}
	if store == nil {
		return answer
	}
	if !whole { // A projection may share parts with the object that it was made of.
		kept = kept.DeepCopyObject().(streams.Object)
	}
	by.options.Status.RecordWrite(kept.GetNamespace(), kept.GetResourceVersion())
	passed := true
	if of.watched {
		f.client.manager.tape.write(ctx, of.outside, func() { passed = store.RecordWrite(kept, causedAt(ctx), of.asked) })
	}
	if whole && !passed {
		return answer.DeepCopyObject().(streams.Object)
	}
	return answer
}

// gone records in the cache that an object is deleted.
func (f *form) gone(ctx context.Context, store *cache.Store, name types.NamespacedName, uid types.UID) {
	outside := f.client.manager.tape.outside(ctx, streams.Key{GroupKind: f.as.GroupKind(), NamespacedName: name}, nil, uid)
	f.client.manager.tape.write(ctx, outside, func() { store.RecordDeletion(name, uid, causedAt(ctx)) })
}

// refresh reads an object from the API server into the cache, after a write whose answer was not the
// object. It does nothing for a kind that is not cached.
func (f *form) refresh(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	store := f.store()
	if store == nil {
		return nil
	}
	object, err := f.get(ctx, name)
	if apierrors.IsNotFound(err) || err == nil && uid != "" && object.GetUID() != uid {
		f.gone(ctx, store, name, uid)
	}
	if err != nil {
		return IgnoreNotFound(err)
	}
	return f.show(ctx, object)
}

// show makes the state of an object visible to readers of the cache, as the API server has answered it.
func (f *form) show(ctx context.Context, object streams.Object) error {
	by := f.cachedBy()
	if by == nil {
		return nil
	}
	reported := f.reported(ctx, by, streams.KeyOf(f.as.GroupKind(), object), object, time.Time{})
	kept, err := sources.AsWatched(by.kind, by.options, object)
	if err != nil {
		return err
	}
	f.recordAnswer(ctx, by, object, kept, reported)
	return nil
}
