package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// GetSubresource returns a subresource of an object of type T, such as the scale of a Deployment, as type B.
// It asks the API server. Of the options, only [OfKind] and [Like] apply.
//
//	scale, err := controller.GetSubresource[*appsv1.Deployment, *autoscalingv1.Scale](ctx, client, name, "scale")
func GetSubresource[T streams.Object, B runtime.Object](ctx context.Context, c *Client, name types.NamespacedName, subresource string, options ...ReadOption) (B, error) {
	fail := func(err error) (B, error) {
		return *new(B), fmt.Errorf("cannot get the subresource %q of %s: %w", subresource, name, err)
	}
	wanted := reading{}.applied(options)
	kind, err := c.form(typeOf[T](wanted), wanted.kind)
	if err == nil {
		err = errors.Join(wanted.ofOne(), validSubresource(subresource), validBody(reflect.TypeFor[B]()))
	}
	if err != nil {
		return fail(err)
	}
	encoded, err := kind.to(ctx, kind.requests.Get(), name.Namespace).
		Name(name.Name).SubResource(subresource).
		SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return fail(err)
	}
	body := reflect.New(reflect.TypeFor[B]().Elem()).Interface().(B)
	if err := json.Unmarshal(encoded, body); err != nil {
		return fail(errNoObject)
	}
	return body, nil
}

// CreateSubresource sends a body to a subresource of an object: a TokenRequest to the token of a
// ServiceAccount, or a Binding to the binding of a Pod. It returns the API server's answer, or a copy of
// the body if the answer is only that it succeeded. It takes the options of [Create].
//
//	token, err := controller.CreateSubresource(ctx, client, account, "token", &authenticationv1.TokenRequest{})
//
// The write is recorded as one of the object, unless it is a token, which does not change the object. For a
// kind in the cache, another request reads the object, so that the next read sees it.
func CreateSubresource[B runtime.Object](ctx context.Context, c *Client, object streams.Object, subresource string, body B, options ...WriteOption) (B, error) {
	return writeSubresource(ctx, c, http.MethodPost, "create", object, subresource, body, options)
}

// UpdateSubresource replaces a subresource of an object by a body of another type than the object's: see
// [CreateSubresource]. For a subresource whose body is the object itself, such as the status, use [Update]
// with [Subresource].
func UpdateSubresource[B runtime.Object](ctx context.Context, c *Client, object streams.Object, subresource string, body B, options ...WriteOption) (B, error) {
	return writeSubresource(ctx, c, http.MethodPut, "update", object, subresource, body, options)
}

// changesNothing are the subresources whose creation leaves the object as it is.
var changesNothing = []string{"token"}

func writeSubresource[B runtime.Object](ctx context.Context, c *Client, method, verb string, object streams.Object, subresource string, body B, options []WriteOption) (B, error) {
	how, err := writingOf(options, 0)
	var kind *form
	fail := func(err error) (B, error) {
		return *new(B), writeError(verb+" the subresource "+subresource+" of", kind, object, err)
	}
	if err == nil {
		kind, err = c.named(object)
	}
	if err == nil {
		err = errors.Join(validSubresource(subresource), validBody(reflect.TypeFor[B]()))
	}
	var sent []byte
	if err == nil {
		sent, err = c.encodeBody(body)
	}
	if err != nil {
		return fail(err)
	}
	request := kind.requests.Verb(method)
	if subresource == "eviction" {
		request.MaxRetries(0) // The answer 429 means that a budget forbids it, not that the server is busy.
	}
	answer, err := kind.to(ctx, how.params(request, c.fieldManagerOf(ctx)), object.GetNamespace()).
		Name(object.GetName()).SubResource(subresource).
		SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON).
		Body(sent).Do(ctx).Raw()
	if err != nil {
		return fail(err)
	}
	made, version, err := decodeBody(body, answer)
	if err != nil {
		return fail(err)
	}
	if how.dryRun || slices.Contains(changesNothing, subresource) {
		return made, nil
	}
	key := streams.KeyOf(kind.as.GroupKind(), object)
	operators.RecordWrite(ctx, operators.Write{Verb: verb, Key: key, ResourceVersion: version, Asked: how.asked})
	if err := kind.refresh(ctx, nameOf(object), object.GetUID()); err != nil {
		return made, fmt.Errorf("the subresource %s of %s was written, but the cache does not show it yet: %w", subresource, key, err)
	}
	return made, nil
}

// validSubresource returns an error for a name that is no subresource of one request and one answer.
func validSubresource(name string) error {
	switch name {
	case "exec", "attach", "portforward", "proxy", "log":
		return fmt.Errorf("the subresource %s is a connection or a text; use a client of client-go", name)
	}
	if name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("the subresource is %q; give its name, such as scale", name)
	}
	return nil
}

// validBody returns an error for a type into which no answer can be decoded.
func validBody(of reflect.Type) error {
	if of.Kind() != reflect.Pointer {
		return fmt.Errorf("the body is a %v; give a pointer to a type of the API", of)
	}
	return nil
}

// encodeBody encodes the body of a subresource, with its kind.
func (c *Client) encodeBody(body runtime.Object) ([]byte, error) {
	if of := reflect.ValueOf(body); of.IsNil() {
		return nil, errors.New("the body is nil")
	}
	if body.GetObjectKind().GroupVersionKind().Empty() {
		kinds, _, err := c.manager.scheme.ObjectKinds(body)
		if err != nil {
			return nil, fmt.Errorf("finding the kind of the body; set its apiVersion and kind, or add its package to the scheme: %w", err)
		}
		body = body.DeepCopyObject()
		body.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	return json.Marshal(body)
}

// decodeBody returns the answer to a write of a subresource, and the resource version in it. An answer that
// is a Status only says that the write succeeded; the result is then a copy of the body.
func decodeBody[B runtime.Object](body B, answer []byte) (made B, version string, err error) {
	head := metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(answer, &head); err != nil {
		return made, "", errNoObject
	}
	_, wantsStatus := any(body).(*metav1.Status)
	if head.Kind == "Status" && !wantsStatus {
		return body.DeepCopyObject().(B), "", nil
	}
	made = reflect.New(reflect.TypeFor[B]().Elem()).Interface().(B)
	if err := json.Unmarshal(answer, made); err != nil {
		return made, "", errNoObject
	}
	return made, head.ResourceVersion, nil
}

// RecordWrite records a write that another client has sent and the API server has answered, such as one of
// client-go: the next read of the cache sees it, and it is a write of the reconcile that ctx belongs to. So
// [IgnoreEchoes] knows its event. answer is the object that the API server returned.
//
// before is the resource version on which the write was conditional: "" for a creation. For a write without
// such a condition, give the version of the answer: the write may have changed nothing then, and the version
// may be another client's, so the event counts as a foreign one.
func RecordWrite(ctx context.Context, c *Client, verb string, answer streams.Object, before string) error {
	kind, err := c.written(answer, true)
	if err == nil && (answer.GetName() == "" || answer.GetUID() == "") {
		err = errors.New("it has no name or no uid; give the object that the API server returned")
	}
	if err != nil {
		return fmt.Errorf("cannot record a write of a %T: %w", answer, err)
	}
	// What is recorded belongs to the cache.
	_, err = kind.record(ctx, verb, answer.GetResourceVersion() != before, answer.DeepCopyObject().(streams.Object), time.Time{})
	return err
}
