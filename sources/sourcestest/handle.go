package sourcestest

import (
	"cmp"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// handle executes a request.
func (s *Server) handle(made *request) (code int, body io.ReadCloser, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collect()
	place := s.kinds[made.resource]
	switch {
	case place == nil || place.gone:
		return 0, nil, errNoPage
	case made.key.Namespace != "" && place.isUnscoped():
		if place.builtIn { // As API servers answer a path that they do not know below a version that they do.
			return 0, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "404: Page Not Found", 0, false)
		}
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
		answer, code, err = s.patch(place, made)
	case "delete":
		answer, err = s.deleted(place, made)
	case "deletecollection":
		answer, err = s.deletedAll(place, made)
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
	return s.create(place, object, made.writing())
}

func (s *Server) put(place *served, made *request) (*unstructured.Unstructured, error) {
	object, err := s.decode(place, made)
	if err != nil {
		return nil, err
	}
	return s.update(place, made.key, object, made.writing())
}

// writing returns how the request writes.
func (r *request) writing() writing {
	how := writing{
		part: allButStatus, manager: managerOf(r.options.FieldManager, r.UserAgent()), dryRun: len(r.options.DryRun) > 0,
	}
	if r.subresource == "status" {
		how.part = onlyStatus
	}
	return how
}

// decode reads the object in a body, and checks it against the path.
func (s *Server) decode(place *served, made *request) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if made.media() != runtime.ContentTypeProtobuf {
		if err := object.UnmarshalJSON(made.body); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("decoding the body as JSON: %v", err))
		}
		if err := s.strictly(place, made); err != nil {
			return nil, err
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
	case key.Namespace != "" && key.Namespace != made.key.Namespace, made.key.Name != "" && key.Name != made.key.Name:
		return nil, otherName(types.NamespacedName{Namespace: cmp.Or(key.Namespace, made.key.Namespace), Name: key.Name}, made.key)
	}
	object.SetNamespace(made.key.Namespace)
	return object, nil
}
