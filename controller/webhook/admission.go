package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/bellerophon-io/bellerophon/streams"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Request is a write that the API server asks about. Its objects belong to the function.
type Request[T streams.Object] struct {
	Operation admissionv1.Operation
	Old       T // the object before the write; nil for Create
	New       T // the object after the write; nil for Delete

	// NamespacedName names the object. Name is empty if the API server is about to generate it.
	types.NamespacedName
	User   authenticationv1.UserInfo // the user of the write
	DryRun bool                      // the write will not be stored, so the function must have no effects
	UID    types.UID                 // of the request

	warnings *[]string
}

// Warn adds a warning, which kubectl and other clients show to the user, whether or not the write is
// allowed. Long warnings are cut by the API server.
func (r Request[T]) Warn(format string, arguments ...any) {
	*r.warnings = append(*r.warnings, fmt.Sprintf(format, arguments...))
}

// Validate adds a function that decides about writes of a kind. An error denies the write, and its message
// is shown to the user.
//
//   - An error of k8s.io/apimachinery/pkg/api/errors keeps its code, reason and details.
//   - One or several *field.Error, as field.ErrorList.ToAggregate returns, become an Invalid error.
//   - Any other error becomes a Forbidden error.
//
// If the function panics or takes too long, [FailurePolicy] decides. The function must have no effects.
// It is not called for an update that changes only the metadata of an object that is being deleted.
func Validate[T streams.Object](s *Server, validate func(ctx context.Context, request Request[T]) error, options ...Option) error {
	made, err := newHook(s, newOf[T](), false, options)
	if err != nil {
		return fmt.Errorf("cannot add a validation of %v: %w", reflect.TypeFor[T](), err)
	}
	made.handle = func(ctx context.Context, review *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		answer := &admissionv1.AdmissionResponse{Allowed: true}
		request, err := requestOf[T](s, review)
		if err != nil {
			return nil, err
		}
		if leaves, err := onlyLeaves(request, review); leaves || err != nil {
			return answer, err
		}
		err = validate(ctx, request)
		answer.Warnings = *request.warnings
		if ctx.Err() != nil {
			return nil, ctx.Err() // The error may only say that the function was too slow.
		}
		if err != nil {
			answer.Allowed, answer.Result = false, made.denial(request.Name, err)
		}
		return answer, nil
	}
	if err := s.add(made); err != nil {
		return fmt.Errorf("cannot add a validation of %v: %w", reflect.TypeFor[T](), err)
	}
	return nil
}

// Default adds a function that sets defaults in objects of a kind before they are validated and stored.
// The answer is a patch with what the function changed, and empty if it changed nothing. Fields that T does
// not have stay as they are. An error denies the write, as with [Validate].
//
// The API server calls the function again if another webhook changed the object. So the function must
// leave alone what is set already. It must not change the kind, the name or the namespace. Its request is
// in the context: see [RequestOf]. An object that is being deleted is not changed.
func Default[T streams.Object](s *Server, setDefaults func(ctx context.Context, object T) error, options ...Option) error {
	made, err := newHook(s, newOf[T](), true, options)
	if err != nil {
		return fmt.Errorf("cannot add defaults of %v: %w", reflect.TypeFor[T](), err)
	}
	made.handle = func(ctx context.Context, review *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		answer := &admissionv1.AdmissionResponse{Allowed: true}
		request, err := requestOf[T](s, review)
		if err != nil {
			return nil, err
		}
		if isNil(request.New) {
			return nil, errors.New("the request has no object")
		}
		if request.New.GetDeletionTimestamp() != nil {
			return answer, nil
		}
		before, err := json.Marshal(request.New)
		if err != nil {
			return nil, err
		}
		err = setDefaults(context.WithValue(ctx, requestKey[T]{}, request), request.New)
		answer.Warnings = *request.warnings
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			answer.Allowed, answer.Result = false, made.denial(request.Name, err)
			return answer, nil
		}
		after, err := json.Marshal(request.New)
		if err != nil {
			return nil, err
		}
		patch, err := patchOf(review.Object.Raw, before, after)
		if err != nil || patch == nil {
			return answer, err
		}
		jsonPatch := admissionv1.PatchTypeJSONPatch
		answer.Patch, answer.PatchType = patch, &jsonPatch
		return answer, nil
	}
	if err := s.add(made); err != nil {
		return fmt.Errorf("cannot add defaults of %v: %w", reflect.TypeFor[T](), err)
	}
	return nil
}

// requestKey is the key of a request in the context of a function of Default.
type requestKey[T streams.Object] struct{}

// RequestOf returns the request for which a function of [Default] is called. Its New is the object that the
// function got.
func RequestOf[T streams.Object](ctx context.Context) (request Request[T], found bool) {
	request, found = ctx.Value(requestKey[T]{}).(Request[T])
	return request, found
}

// newOf returns an empty object of a pointer type.
func newOf[T streams.Object]() streams.Object {
	if of := reflect.TypeFor[T](); of.Kind() == reflect.Pointer {
		return reflect.New(of.Elem()).Interface().(streams.Object)
	}
	return *new(T)
}

func isNil(object streams.Object) bool { return reflect.ValueOf(object).IsNil() }

// requestOf decodes the objects of a request.
func requestOf[T streams.Object](s *Server, review *admissionv1.AdmissionRequest) (Request[T], error) {
	request := Request[T]{
		Operation:      review.Operation,
		NamespacedName: types.NamespacedName{Namespace: review.Namespace, Name: review.Name},
		User:           review.UserInfo,
		DryRun:         review.DryRun != nil && *review.DryRun,
		UID:            review.UID,
		warnings:       &[]string{},
	}
	for _, each := range []struct {
		raw  []byte
		into *T
	}{{review.Object.Raw, &request.New}, {review.OldObject.Raw, &request.Old}} {
		if len(each.raw) == 0 || string(each.raw) == "null" {
			continue
		}
		decoded := newOf[T]()
		if err := s.decode(each.raw, decoded); err != nil {
			return request, err
		}
		*each.into = decoded.(T)
	}
	if request.Name == "" && !isNil(request.New) {
		request.Name = request.New.GetName()
	}
	return request, nil
}

// onlyLeaves reports whether a request changes only the metadata of an object that is being deleted.
func onlyLeaves[T streams.Object](request Request[T], review *admissionv1.AdmissionRequest) (bool, error) {
	if request.Operation != admissionv1.Update || isNil(request.New) || isNil(request.Old) || request.Old.GetDeletionTimestamp() == nil {
		return false, nil
	}
	var before, after map[string]any
	if err := utiljson.Unmarshal(review.OldObject.Raw, &before); err != nil {
		return false, err
	}
	if err := utiljson.Unmarshal(review.Object.Raw, &after); err != nil {
		return false, err
	}
	delete(before, "metadata")
	delete(after, "metadata")
	return equality.Semantic.DeepEqual(before, after), nil
}

// denial returns the answer to a write that a function denied.
func (h *hook) denial(name string, err error) *metav1.Status {
	var status apierrors.APIStatus
	if fields := fieldErrorsOf(err); len(fields) > 0 {
		status = apierrors.NewInvalid(h.kind.GroupKind(), name, fields)
	} else if !errors.As(err, &status) {
		return &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: err.Error(),
		}
	}
	denied := status.Status()
	denied.Status = metav1.StatusFailure
	if denied.Message == "" {
		denied.Message = err.Error()
	}
	return &denied
}

// fieldErrorsOf returns the errors of fields that an error consists of, or none if it has another part.
func fieldErrorsOf(err error) (fields field.ErrorList) {
	var aggregate utilerrors.Aggregate
	var one *field.Error
	switch {
	case errors.As(err, &aggregate):
		for _, part := range aggregate.Errors() {
			if !errors.As(part, &one) {
				return nil
			}
			fields = append(fields, one)
		}
	case errors.As(err, &one):
		fields = append(fields, one)
	}
	return fields
}
