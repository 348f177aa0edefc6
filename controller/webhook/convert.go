package webhook

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// conversionPath is the path of conversion, for all kinds with Go types.
const conversionPath = "/convert"

// Convert adds functions that convert a custom resource between two of its versions, in both directions.
// With hub and spokes, Convert is called once for each spoke. Versions that no function connects directly
// are converted through others, on a path as short as possible.
//
// A function gets an object that has the new version's type, and the metadata of the old object. It sets
// the spec and the status, and may change labels and annotations. The server keeps the rest of the metadata
// as it was. Converting back must restore the object: a value without a place in the other version can be
// kept in an annotation.
//
// The server sets spec.conversion of the resource definition. It does so only if functions connect all
// versions of the definition.
func Convert[A, B streams.Object](s *Server, toB func(ctx context.Context, from A, to B) error, toA func(ctx context.Context, from B, to A) error) error {
	fail := func(err error) error {
		return fmt.Errorf("cannot add a conversion between %v and %v: %w", reflect.TypeFor[A](), reflect.TypeFor[B](), err)
	}
	a, err := wholeKindOf(s.scheme, newOf[A]())
	if err != nil {
		return fail(err)
	}
	b, err := wholeKindOf(s.scheme, newOf[B]())
	if err != nil {
		return fail(err)
	}
	if a.GroupKind() != b.GroupKind() || a.Version == b.Version {
		return fail(fmt.Errorf("they are %v and %v; give two versions of one kind", a.GroupVersionKind, b.GroupVersionKind))
	}
	if err := s.mayAdd(); err != nil {
		return fail(err)
	}
	known := s.conversions[a.GroupKind()]
	if known == nil {
		known = &conversion{path: conversionPath, kind: a.GroupKind(), versions: map[string]*version{}}
		s.conversions[a.GroupKind()] = known
	}
	err = known.add(
		step{a.Version, b.Version, func(ctx context.Context, from, to streams.Object) error { return toB(ctx, from.(A), to.(B)) }},
		step{b.Version, a.Version, func(ctx context.Context, from, to streams.Object) error { return toA(ctx, from.(B), to.(A)) }},
	)
	if err != nil {
		return fail(err)
	}
	known.versions[a.Version], known.versions[b.Version] = &version{a, newOf[A]}, &version{b, newOf[B]}
	return nil
}

// conversion holds the functions between the versions of a kind, or the function of a resource definition.
type conversion struct {
	path     string
	kind     schema.GroupKind
	versions map[string]*version
	steps    []step
	review   ReviewConversionFunc // by ReviewConversion; nil for a kind
}

// version is a version of a kind that is converted.
type version struct {
	kind  sources.Kind
	empty func() streams.Object
}

// step is a function that converts from one version to another.
type step struct {
	from, to string
	run      func(ctx context.Context, from, to streams.Object) error
}

func (c *conversion) add(steps ...step) error {
	for _, added := range steps {
		if slices.ContainsFunc(c.steps, func(known step) bool { return known.from == added.from && known.to == added.to }) {
			return fmt.Errorf("there is one from %s to %s already", added.from, added.to)
		}
	}
	c.steps = append(c.steps, steps...)
	return nil
}

// pathBetween returns the steps from one version to another, as few as possible.
func (c *conversion) pathBetween(from, to string) ([]step, error) {
	type reached struct {
		version string
		steps   []step
	}
	seen := map[string]bool{from: true}
	for queue := []reached{{version: from}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at.version == to {
			return at.steps, nil
		}
		for _, step := range c.steps {
			if step.from == at.version && !seen[step.to] {
				seen[step.to] = true
				queue = append(queue, reached{step.to, append(slices.Clone(at.steps), step)})
			}
		}
	}
	return nil, fmt.Errorf("no functions lead from version %s to version %s", from, to)
}

// covers returns an error if functions do not connect all given versions. One function for all cannot be asked.
func (c *conversion) covers(versions []string) error {
	if c.review != nil {
		return nil
	}
	for _, to := range versions {
		if _, err := c.pathBetween(versions[0], to); err != nil {
			return fmt.Errorf("%w; add them with Convert", err)
		}
	}
	return nil
}

// convert answers a request for conversion. All objects are converted, or none.
func (s *Server) convert(ctx context.Context, request *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse {
	answer := &apiextensionsv1.ConversionResponse{UID: request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for i, object := range request.Objects {
		converted, err := s.convertObject(ctx, object.Raw, request.DesiredAPIVersion)
		if err != nil {
			return &apiextensionsv1.ConversionResponse{UID: request.UID, Result: metav1.Status{
				Status: metav1.StatusFailure, Message: fmt.Sprintf("converting object %d of %d to %s: %v", i+1, len(request.Objects), request.DesiredAPIVersion, err),
			}}
		}
		answer.ConvertedObjects = append(answer.ConvertedObjects, runtime.RawExtension{Raw: converted})
	}
	return answer
}

// convertObject returns one object in another version of its kind.
func (s *Server) convertObject(ctx context.Context, raw []byte, desired string) ([]byte, error) {
	given := &unstructured.Unstructured{}
	if err := given.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	as, err := schema.ParseGroupVersion(desired)
	if err != nil {
		return nil, err
	}
	kind := given.GroupVersionKind()
	if kind.GroupVersion() == as {
		return raw, nil
	}
	known := s.conversions[kind.GroupKind()]
	if known == nil || as.Group != kind.Group {
		return nil, fmt.Errorf("there is no conversion from %v", kind)
	}
	path, err := known.pathBetween(kind.Version, as.Version)
	if err != nil {
		return nil, err
	}
	from := known.versions[kind.Version].empty()
	if err := s.decode(raw, from); err != nil {
		return nil, err
	}
	for _, step := range path {
		to := known.versions[step.to].empty()
		inherit(to, from)
		to.GetObjectKind().SetGroupVersionKind(kind.GroupKind().WithVersion(step.to))
		if err := step.run(ctx, from, to); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimPrefix(given.GetNamespace()+"/"+given.GetName(), "/"), err)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("it took too long: %w", ctx.Err())
		}
		from = to
	}
	return finish(given, from, as.WithKind(kind.Kind))
}

// inherit gives an object the metadata of another one.
func inherit(to, from streams.Object) {
	to.SetNamespace(from.GetNamespace())
	to.SetName(from.GetName())
	to.SetGenerateName(from.GetGenerateName())
	to.SetUID(from.GetUID())
	to.SetResourceVersion(from.GetResourceVersion())
	to.SetGeneration(from.GetGeneration())
	to.SetCreationTimestamp(from.GetCreationTimestamp())
	to.SetDeletionTimestamp(from.GetDeletionTimestamp())
	to.SetDeletionGracePeriodSeconds(from.GetDeletionGracePeriodSeconds())
	to.SetLabels(copied(from.GetLabels()))
	to.SetAnnotations(copied(from.GetAnnotations()))
	to.SetOwnerReferences(slices.Clone(from.GetOwnerReferences()))
	to.SetFinalizers(slices.Clone(from.GetFinalizers()))
}

// copied returns a copy that a function may write to, and that is empty for none.
func copied(values map[string]string) map[string]string {
	made := make(map[string]string, len(values))
	for name, value := range values {
		made[name] = value
	}
	return made
}

// finish encodes a converted object with the metadata of the given one, except for labels and annotations.
// The API server refuses an object whose other metadata has changed.
func finish(given *unstructured.Unstructured, converted streams.Object, as schema.GroupVersionKind) ([]byte, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(converted)
	if err != nil {
		return nil, err
	}
	made := &unstructured.Unstructured{Object: content}
	metadata, isMap := given.Object["metadata"].(map[string]any)
	if !isMap {
		return nil, errors.New("the object has no metadata")
	}
	labels, annotations := converted.GetLabels(), converted.GetAnnotations()
	if converted.GetName() == "" && given.GetName() != "" { // The function overwrote the whole object.
		labels, annotations = given.GetLabels(), given.GetAnnotations()
	}
	made.Object["metadata"] = metadata
	made.SetGroupVersionKind(as)
	made.SetLabels(labels)
	made.SetAnnotations(annotations)
	if len(labels) == 0 {
		delete(metadata, "labels")
	}
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return made.MarshalJSON()
}
