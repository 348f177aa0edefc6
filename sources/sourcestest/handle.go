package sourcestest

import (
	"fmt"
	"io"
	"mime"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// handle executes a request.
func (s *Server) handle(made *request) (code int, body io.ReadCloser, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	place := s.kinds[made.resource]
	if place == nil || place.gone {
		return 0, nil, errNoPage
	}
	made.form.unversioned = place.unversioned
	if made.verb == "watch" {
		opened, err := s.open(place, made)
		return http.StatusOK, opened, err
	}
	var answer any
	code = http.StatusOK
	switch made.verb {
	case "get":
		answer, err = s.get(place, made)
	case "list":
		answer, err = s.list(place, made)
	case "create":
		code = http.StatusCreated
		answer, err = s.post(place, made)
	case "update":
		answer, err = s.put(place, made)
	case "patch":
		answer, err = s.patch(place, made)
	case "delete":
		answer, err = s.deleted(place, made)
	}
	if err != nil {
		return 0, nil, err
	}
	if object, is := answer.(*unstructured.Unstructured); is {
		answer = made.form.of(object)
	}
	return code, jsonBody(answer), nil
}

func (s *Server) get(place *served, made *request) (*unstructured.Unstructured, error) {
	if found := place.objects[made.key]; found != nil {
		return found, nil
	}
	return nil, apierrors.NewNotFound(place.GroupResource(), made.key.Name)
}

func (s *Server) post(place *served, made *request) (*unstructured.Unstructured, error) {
	object, err := s.decode(place, made)
	if err != nil {
		return nil, err
	}
	delete(object.Object, "status")
	return s.create(place, object)
}

func (s *Server) put(place *served, made *request) (*unstructured.Unstructured, error) {
	object, err := s.decode(place, made)
	if err != nil {
		return nil, err
	}
	return s.update(place, made.key, object, made.part())
}

func (r *request) part() part {
	if r.subresource == "status" {
		return onlyStatus
	}
	return allButStatus
}

// decode reads the object in a body, and checks it against the path.
func (s *Server) decode(place *served, made *request) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if media, _, _ := mime.ParseMediaType(made.Header.Get("Content-Type")); media != runtime.ContentTypeProtobuf {
		if err := object.UnmarshalJSON(made.body); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("decoding the body as JSON: %v", err))
		}
	} else {
		typed, _, err := s.codecs.UniversalDeserializer().Decode(made.body, &place.kind, nil)
		if err == nil {
			object.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("decoding the body as protobuf: %v", err))
		}
		object.SetGroupVersionKind(typed.GetObjectKind().GroupVersionKind())
	}
	key := keyOf(object)
	switch {
	case object.GroupVersionKind() != place.kind:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %v; %s are of kind %v", object.GroupVersionKind(), place.Resource, place.kind))
	case key.Namespace != "" && key.Namespace != made.key.Namespace:
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	case made.key.Name != "" && key.Name != made.key.Name:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", key.Name, made.key.Name))
	}
	object.SetNamespace(made.key.Namespace)
	return object, nil
}

func (s *Server) patch(place *served, made *request) (*unstructured.Unstructured, error) {
	before, err := s.get(place, made)
	if err != nil {
		return nil, err
	}
	from := encoded(before)
	var to []byte
	media, _, _ := mime.ParseMediaType(made.Header.Get("Content-Type"))
	switch types.PatchType(media) {
	case types.MergePatchType:
		to, err = jsonpatch.MergePatch(from, made.body)
	case types.JSONPatchType:
		var steps jsonpatch.Patch
		if steps, err = jsonpatch.DecodePatch(made.body); err == nil {
			to, err = steps.Apply(from)
		}
	default:
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, made.verb, place.GroupResource(), made.key.Name,
			fmt.Sprintf("the fake API server does not support patches of type %s; use a merge patch or a JSON patch, or test with a real API server", media), 0, true)
	}
	after := &unstructured.Unstructured{}
	if err == nil {
		err = after.UnmarshalJSON(to)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("applying the patch: %v", err))
	}
	return s.update(place, made.key, after, made.part())
}

func (s *Server) deleted(place *served, made *request) (any, error) {
	var options metav1.DeleteOptions
	if len(made.body) > 0 {
		kind := place.kind.GroupVersion().WithKind("DeleteOptions")
		if _, _, err := s.codecs.UniversalDeserializer().Decode(made.body, &kind, &options); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("decoding the options of the deletion: %v", err))
		}
	}
	var conditions metav1.Preconditions
	if options.Preconditions != nil {
		conditions = *options.Preconditions
	}
	last, err := s.remove(place, made.key, conditions)
	if err != nil || place.objects[made.key] != nil {
		return last, err
	}
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: last.GetName(), Group: place.Group, Kind: place.Resource, UID: last.GetUID()},
	}, nil
}
