package controller

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ErrUncontrolled is wrapped in the error of an [Apply] with a controller reference. The object exists, no
// object controls it, and the field manager has not applied it before.
var ErrUncontrolled = errors.New("the object exists, no object controls it, and this field manager did not make it; rename or delete it, or take it over with Adopt")

// neverStored is a resource version that no object has: an empty etcd has it, and each write a later one. An
// apply with it creates an object, and conflicts with one that exists.
const neverStored = "1"

// sending is an apply that is about to be sent.
type sending struct {
	client  *Client
	kind    *form
	of      application
	body    []byte
	how     *writing
	manager string
	key     appliedKey
	sum     [sha256.Size]byte
}

// send sends the apply, unless the object belongs to another owner. created reports whether it certainly
// created the object.
func (s *sending) send(ctx context.Context) (answer streams.Object, created bool, err error) {
	create, err := s.mustCreate(ctx)
	if err != nil {
		return nil, false, err
	}
	answer, err = s.request(ctx, create)
	switch {
	case err == nil || !create || !s.saysExists(err):
	case s.how.createOnly:
		err = apierrors.NewAlreadyExists(schema.GroupResource{Group: s.kind.as.Group, Resource: s.kind.as.Resource()}, s.of.name().Name)
	default: // The cache was late.
		gone, refused := s.checkLive(ctx)
		switch {
		case refused != nil:
			err = refused
		case !gone:
			create = false
			answer, err = s.request(ctx, false)
		}
	}
	return answer, create && err == nil, err
}

// mustCreate reports whether the apply must create the object, as far as the cache shows it. It returns an
// error for an object that the owner in the configuration must not take over.
func (s *sending) mustCreate(ctx context.Context) (bool, error) {
	conditional := s.of.object().GetResourceVersion() != "" || s.of.object().GetUID() != ""
	owner := metav1.GetControllerOfNoCopy(s.of.object())
	switch {
	case s.how.createOnly && conditional:
		return false, errors.New("CreateOnly is given, and the configuration has a uid or a resource version; leave these out")
	case s.how.createOnly:
		return true, nil
	case owner == nil || s.of.subresource != "":
		return false, nil
	}
	held, cached := s.cached()
	if held != nil {
		if err := controlledBy(held.GetOwnerReferences(), owner); err != nil || isControlledBy(held, owner) {
			return false, err
		}
	}
	switch {
	case s.how.adopt || conditional:
		return false, nil
	case held == nil && cached:
		return true, nil
	}
	return s.checkLive(ctx) // The cache does not have the managed fields.
}

// cached returns the object as the cache has it, or nil. has reports whether the cache has the kind and the
// namespace.
func (s *sending) cached() (held streams.Object, has bool) {
	by := s.kind.cachedBy()
	if by == nil || by.covers(s.of.name().Namespace) != nil {
		return nil, false
	}
	store := by.store()
	if store == nil {
		return nil, false
	}
	held, _ = store.Get(s.of.name())
	return held, true
}

// checkLive returns an error if the object on the API server must not be taken over. absent reports that there
// is none.
func (s *sending) checkLive(ctx context.Context) (absent bool, err error) {
	live, err := s.kind.get(ctx, s.of.name())
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking whether the object exists: %w", err)
	}
	owner := metav1.GetControllerOfNoCopy(s.of.object())
	if err := controlledBy(live.GetOwnerReferences(), owner); err != nil {
		return false, err
	}
	if isControlledBy(live, owner) {
		return false, nil
	}
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == s.manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" {
			return false, nil
		}
	}
	return false, ErrUncontrolled
}

// isControlledBy reports whether an object has a controller reference.
func isControlledBy(object streams.Object, owner *metav1.OwnerReference) bool {
	by := metav1.GetControllerOfNoCopy(object)
	return by != nil && refersTo(*by, owner)
}

// saysExists reports whether an error of a creation says that the object exists: its version, or its fields,
// conflict. A conflict about another object, such as a quota, does not say so.
func (s *sending) saysExists(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || !apierrors.IsConflict(err) {
		return apierrors.IsAlreadyExists(err)
	}
	details := answer.Status().Details
	return details != nil && (details.Name == s.of.name().Name && details.Kind == s.kind.as.Resource() ||
		apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict))
}

// request sends the apply. With create, it fails if the object exists.
func (s *sending) request(ctx context.Context, create bool) (streams.Object, error) {
	body := s.body
	if create {
		content := s.of.object().DeepCopy()
		if err := unstructured.SetNestedField(content.Object, neverStored, "metadata", "resourceVersion"); err != nil {
			return nil, err
		}
		var err error
		if body, err = json.Marshal(content.Object); err != nil {
			return nil, err
		}
	}
	number := s.client.begin(s.key)
	request := s.kind.to(ctx, s.how.params(s.kind.requests.Patch(types.ApplyPatchType), s.manager), s.of.name().Namespace).
		Name(s.of.name().Name).SubResource(s.how.subresources()...)
	answer := s.kind.as.New()
	err := request.Body(body).Do(ctx).Into(answer)
	switch {
	case err != nil:
		return nil, err
	case answer.GetName() == "":
		return nil, errNoObject
	case !s.how.dryRun:
		s.client.remember(s.key, number, s.kind, s.of, s.sum, answer)
	}
	return answer, nil
}
