package sourcestest

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// media returns the type of the request's body.
func (r *request) media() string {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return media
}

// patch answers a PATCH. Only an apply creates an object.
func (s *Server) patch(place *served, made *request) (*unstructured.Unstructured, int, error) {
	kind := types.PatchType(made.media())
	switch {
	case kind == types.StrategicMergePatchType && place.builtIn:
	case kind != types.JSONPatchType && kind != types.MergePatchType && kind != types.ApplyYAMLPatchType:
		return nil, 0, unsupportedPatch(place)
	}
	if kind == types.ApplyYAMLPatchType {
		return s.apply(place, made)
	}
	before, err := s.get(place, made)
	if err != nil {
		return nil, 0, err
	}
	to, err := s.patched(place, kind, before, made.body)
	if err != nil {
		return nil, 0, err
	}
	after := &unstructured.Unstructured{}
	if err := json.Unmarshal(to, &after.Object); err != nil {
		return nil, 0, apierrors.NewBadRequest(fmt.Sprintf("decoding the patched object: %v", err))
	}
	if kind == types.StrategicMergePatchType {
		after.SetGroupVersionKind(place.kind) // Such a patch cannot change it.
	}
	if err = s.fits(place, after); err == nil && after.GetKind() == "" {
		err = errors.New("the kind is missing")
	}
	if err != nil {
		wrong := field.Invalid(field.NewPath("patch"), string(made.body), err.Error())
		return nil, 0, apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{wrong})
	}
	if after.GroupVersionKind() != place.kind {
		wrong := field.Invalid(field.NewPath("apiVersion"), after.GetAPIVersion(), fmt.Sprintf("must be %v of kind %s", place.GroupVersion(), place.kind.Kind))
		return nil, 0, apierrors.NewInvalid(place.kind.GroupKind(), made.key.Name, field.ErrorList{wrong})
	}
	if keyOf(after) != made.key {
		return nil, 0, otherName(keyOf(after), made.key)
	}
	if err := sameUID(place, before, after); err != nil {
		return nil, 0, err
	}
	after, err = s.update(place, made.key, after, made.writing())
	return after, http.StatusOK, err
}

// patched returns an object after a patch, as JSON.
func (s *Server) patched(place *served, kind types.PatchType, before *unstructured.Unstructured, patch []byte) ([]byte, error) {
	from := encoded(before)
	switch kind {
	case types.JSONPatchType:
		steps, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		to, err := steps.Apply(from)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return to, nil
	case types.MergePatchType:
		to, err := jsonpatch.MergePatch(from, patch)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return to, nil
	}
	typed, err := s.options.Scheme.New(place.kind)
	if err != nil {
		return nil, fmt.Errorf("patching a %v: %w", place.kind, err)
	}
	to, err := strategicpatch.StrategicMergePatch(from, patch, typed)
	switch {
	case errors.Is(err, mergepatch.ErrNoListOfLists), errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys):
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return to, err
}

func unsupportedPatch(place *served) error {
	accepted := []types.PatchType{types.JSONPatchType, types.MergePatchType}
	if place.builtIn {
		accepted = append(accepted, types.StrategicMergePatchType)
	}
	accepted = append(accepted, types.ApplyYAMLPatchType)
	names := make([]string, len(accepted))
	for i, one := range accepted {
		names[i] = string(one)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + strings.Join(names, ", "),
	}}
}

// apply answers a server-side apply.
func (s *Server) apply(place *served, made *request) (*unstructured.Unstructured, int, error) {
	patch := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal(made.body, &patch.Object); err != nil {
		return nil, 0, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	before := place.objects[made.key]
	how := made.writing()
	from := empty(place.kind)
	switch {
	case before != nil:
		from = before.DeepCopy() // The result of an apply shares its maps.
	case how.part == onlyStatus:
		return nil, 0, apierrors.NewNotFound(place.GroupResource(), made.key.Name)
	}
	how.part.restrict(patch)
	manager, err := s.fieldManager(place, made.subresource)
	if err != nil {
		return nil, 0, err
	}
	merged, err := manager.Apply(from, patch, made.options.FieldManager, made.options.Force != nil && *made.options.Force)
	if err != nil {
		return nil, 0, err
	}
	after, is := merged.(*unstructured.Unstructured)
	if !is {
		return nil, 0, fmt.Errorf("applying to a %v: the result is a %T", place.kind, merged)
	}
	if after.GetNamespace() == "" {
		after.SetNamespace(made.key.Namespace)
	}
	switch {
	case before == nil && after.GetUID() != "":
		return nil, 0, apierrors.NewConflict(place.GroupResource(), made.key.Name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", after.GetUID()))
	case keyOf(after) != made.key:
		return nil, 0, otherName(keyOf(after), made.key)
	}
	how.applied = true
	if before == nil {
		after.SetResourceVersion("")
		after, err = s.create(place, after, how)
		return after, http.StatusCreated, err
	}
	if err := sameUID(place, before, after); err != nil {
		return nil, 0, err
	}
	after, err = s.update(place, made.key, after, how)
	return after, http.StatusOK, err
}

// sameUID fails if a patch changes the uid of an object. An update that does so fails with a conflict.
func sameUID(place *served, before, after *unstructured.Unstructured) error {
	if uid := after.GetUID(); uid != "" && uid != before.GetUID() {
		wrong := field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable")
		return apierrors.NewInvalid(place.kind.GroupKind(), before.GetName(), field.ErrorList{wrong})
	}
	return nil
}

// restrict removes from a patch what a write to the part does not change.
func (p part) restrict(patch *unstructured.Unstructured) {
	if p == allButStatus {
		delete(patch.Object, "status")
		return
	}
	kept := map[string]any{}
	for _, name := range []string{"apiVersion", "kind", "status"} {
		if value, has := patch.Object[name]; has {
			kept[name] = value
		}
	}
	for _, name := range []string{"name", "namespace", "uid", "resourceVersion", "managedFields"} {
		if value, has, _ := unstructured.NestedFieldNoCopy(patch.Object, "metadata", name); has {
			_ = unstructured.SetNestedField(kept, value, "metadata", name)
		}
	}
	patch.Object = kept
}

// otherName returns the refusal of an object whose namespace or name differs from the URL.
func otherName(object, wanted types.NamespacedName) error {
	if object.Namespace != wanted.Namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", object.Name, wanted.Name))
}

// fits fails if the fields of an object do not have the types of its kind. Of kinds without a Go type, only the
// metadata is checked.
func (s *Server) fits(place *served, object *unstructured.Unstructured) error {
	typed := runtime.Object(&metav1.PartialObjectMetadata{})
	if place.typed {
		var err error
		if typed, err = s.options.Scheme.New(place.kind); err != nil {
			return err
		}
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed)
}

// strictly fails if a client asks for a strict check, and the body has fields that the type of the kind does not
// have. Kinds without a type are not checked.
func (s *Server) strictly(place *served, made *request) error {
	if made.options.FieldValidation != metav1.FieldValidationStrict || !place.typed {
		return nil
	}
	strict := serializer.NewCodecFactory(s.options.Scheme, serializer.EnableStrict).UniversalDeserializer()
	if _, _, err := strict.Decode(made.body, &place.kind, nil); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}
