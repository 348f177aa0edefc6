package sources

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Kind is a kind of Kubernetes objects, with its place in the API and the Go type in which its
// objects are kept. Create it with [KindOf].
type Kind struct {
	schema.GroupVersionKind

	at       *location // shared by all copies
	plural   string    // given by Plural
	cluster  bool      // ClusterScoped was given
	scheme   *runtime.Scheme
	kept     reflect.Type // a pointer type, as wire is
	wire     reflect.Type // what the API server's answers are decoded into
	listKind schema.GroupVersionKind
	form     Form
	protobuf bool
	metadata metadataType // for MetadataOnly
	project  *projection  // for Projected
	failures *failures    // shared by all copies
	bodies   *bodies      // of objects that watches have decoded; shared by copies of the kind
}

// KindOption gives KindOf a fact that it cannot know, or changes an assumption.
type KindOption func(*Kind)

// Plural sets the plural in URLs. The API server names an irregular plural itself: see [Kind.Locate].
// Plural spares the request.
func Plural(resource string) KindOption {
	return func(k *Kind) {
		k.plural = resource
		k.at.resource.Store(&resource)
	}
}

// ClusterScoped declares that the kind has no namespaces. It spares a request, and is needed only if the API
// server forbids discovery: see [Kind.Locate].
func ClusterScoped() KindOption {
	return func(k *Kind) {
		k.cluster = true
		k.at.unscoped.Store(true)
		k.at.scopeKnown.Store(true)
	}
}

// OfKind names the kind of an object whose Go type is in no scheme. The type is then a projection
// of the kind: the API server's JSON is decoded into the fields that the type has, and the rest is
// skipped. The type needs the API's field names, and metadata of type metav1.ObjectMeta or a
// smaller type: see [KindOf].
func OfKind(kind schema.GroupVersionKind) KindOption {
	return func(k *Kind) { k.GroupVersionKind = kind }
}

// KindOf returns the kind of an object. The Go type of the object decides what is kept:
//
//   - A type in the scheme, such as &appsv1.StatefulSet{}, keeps whole objects.
//   - [Metadata], such as &sources.Metadata[appsv1.StatefulSet]{}, keeps metadata, and the API
//     server sends nothing else.
//   - *unstructured.Unstructured keeps whole objects as maps. Its kind must be set, or named with
//     [OfKind].
//   - Any other type keeps the fields that it has. [Project] fills them from the whole object, and
//     [OfKind] by their names.
//
// KindOf makes no request. It assumes that the kind is namespaced and that its plural is regular, until
// the API server says otherwise: see [Kind.Locate].
func KindOf(scheme *runtime.Scheme, object streams.Object, options ...KindOption) (Kind, error) {
	if object == nil {
		return Kind{}, errors.New("finding the kind of nil: give an object")
	}
	kind := Kind{at: &location{}, scheme: scheme, kept: reflect.TypeOf(object), failures: &failures{}, bodies: &bodies{}}
	if kind.kept.Kind() != reflect.Pointer {
		return Kind{}, fmt.Errorf("finding the kind of %T: give a pointer to a struct", object)
	}
	kind.wire = kind.kept
	for _, option := range options {
		option(&kind)
	}
	if NamesItsKind(kind.kept) && kind.GroupVersionKind.Empty() {
		kind.GroupVersionKind = object.GetObjectKind().GroupVersionKind()
	}
	named := kind.GroupVersionKind // by OfKind, or by the object itself
	if named.Empty() && kind.kept == reflect.TypeFor[*unstructured.Unstructured]() {
		return Kind{}, fmt.Errorf("finding the kind of %T: it names none; set its apiVersion and kind, or name its kind with OfKind", object)
	}
	if named != (schema.GroupVersionKind{}) && (named.Kind == "" || named.Version == "") {
		return Kind{}, fmt.Errorf("finding the kind of %T: OfKind has %v; give a version and a kind", object, named)
	}
	var err error
	switch metadata, isMetadata := metadataOf(object); {
	case isMetadata:
		err = kind.asMetadata(metadata)
	case kind.project != nil:
		err = kind.asProjection()
	case kind.kept == reflect.TypeFor[*unstructured.Unstructured](), named != (schema.GroupVersionKind{}) && !hasType(scheme, object, named):
		err = kind.asJSON()
	default:
		err = kind.asWhole(object)
	}
	if err != nil {
		return Kind{}, err
	}
	if kind.at.resource.Load() == nil {
		plural, _ := meta.UnsafeGuessKindToResource(kind.GroupVersionKind)
		kind.at.resource.Store(&plural.Resource)
	}
	return kind, nil
}

// hasType reports whether a scheme has the object's type under the name of a kind.
func hasType(scheme *runtime.Scheme, object runtime.Object, kind schema.GroupVersionKind) bool {
	kinds, _, err := scheme.ObjectKinds(object)
	return err == nil && slices.Contains(kinds, kind)
}

// asWhole makes the kind decode objects into the type that the scheme has for it.
func (k *Kind) asWhole(object runtime.Object) error {
	kinds, _, err := k.scheme.ObjectKinds(object)
	if err != nil {
		return fmt.Errorf("finding the kind of %T; add its package to the scheme, or name its kind with OfKind: %w", object, err)
	}
	if k.GroupVersionKind == (schema.GroupVersionKind{}) {
		k.GroupVersionKind = kinds[0]
	}
	if !slices.Contains(kinds, k.GroupVersionKind) {
		return fmt.Errorf("finding the kind of %T: the scheme has it as %v, not as %v; give OfKind the kind in the scheme", object, kinds[0], k.GroupVersionKind)
	}
	k.listKind = k.GroupVersion().WithKind(k.Kind + "List")
	if !k.scheme.Recognizes(k.listKind) {
		return fmt.Errorf("finding the list of kind %v: the scheme does not have %v; add it", k.GroupVersionKind, k.listKind)
	}
	// Only Kubernetes' generated types support protobuf, which halves the cost of decoding.
	_, k.protobuf = object.(interface{ Marshal() ([]byte, error) })
	return nil
}

// Type returns the Go type in which objects of the kind are kept, such as *appsv1.StatefulSet.
func (k Kind) Type() reflect.Type { return k.kept }

// Form returns the form in which objects of the kind are kept.
func (k Kind) Form() Form { return k.form }

// New returns a new, empty object of the kind, into which an answer of the API server is decoded.
// [Kind.Projected] converts it to the form that is kept.
func (k Kind) New() streams.Object {
	return reflect.New(k.wire.Elem()).Interface().(streams.Object)
}

// NewList returns a new, empty list of the kind, into which an answer of the API server is decoded.
func (k Kind) NewList() (runtime.Object, error) {
	switch {
	case k.wire == reflect.TypeFor[*unstructured.Unstructured]():
		return &unstructured.UnstructuredList{}, nil // It knows the kind of its items, which many lists leave out.
	case k.listKind.Empty():
		return newJSONList(k.wire), nil
	}
	list, err := k.scheme.New(k.listKind)
	if err != nil {
		return nil, fmt.Errorf("creating a %v: %w", k.listKind, err)
	}
	return list, nil
}

// These are the accepted encodings. The API server sends metadata of any kind as protobuf, because
// the metadata type is one of Kubernetes' own.
const (
	acceptProtobuf     = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	acceptMetadata     = runtime.ContentTypeProtobuf + metadataAs + "," + runtime.ContentTypeJSON + metadataAs
	acceptMetadataList = runtime.ContentTypeProtobuf + metadataListAs + "," + runtime.ContentTypeJSON + metadataListAs

	metadataAs     = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataListAs = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// Client creates a REST client for the kind, over a shared HTTP client. The client requests the
// form that is kept, as protobuf if the Go type supports it.
func (k Kind) Client(config *rest.Config, client *http.Client) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	version := k.GroupVersion()
	config.GroupVersion = &version
	config.APIPath = "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	encoding := encodingOf(k.scheme, k.GroupVersionKind)
	encoding.failures, encoding.bodies = k.failures, k.bodies
	config.NegotiatedSerializer = encoding
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	switch {
	case k.form == MetadataOnly:
		config.AcceptContentTypes = acceptMetadata
	case k.protobuf:
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = acceptProtobuf
	}
	made, err := rest.RESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("creating a client for %v: %w", k.GroupVersionKind, err)
	}
	return made, nil
}

// ownScheme creates a scheme with only the types that every API server sends.
func ownScheme() *runtime.Scheme {
	made := runtime.NewScheme()
	metav1.AddToGroupVersion(made, schema.GroupVersion{Version: "v1"})
	return made
}
