package sources

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Kind is a kind of Kubernetes objects with its place in the API and the Go type in which
// its objects are kept. Make it with [KindOf].
type Kind struct {
	schema.GroupVersionKind
	Resource   string // the plural of the URL, such as "statefulsets"
	Namespaced bool

	scheme   *runtime.Scheme
	kept     reflect.Type // with its pointer, as wire
	wire     reflect.Type // what the API server's answers are decoded into
	listKind schema.GroupVersionKind
	form     Form
	protobuf bool
	metadata metadataType // of MetadataOnly
	project  *projection  // of Projected
	failures *failures    // shared by all copies
}

// KindOption says what KindOf cannot know, or changes what it assumes.
type KindOption func(*Kind)

// Plural sets the plural of URLs, where it is not the regular one.
func Plural(resource string) KindOption { return func(k *Kind) { k.Resource = resource } }

// ClusterScoped says that the kind has no namespaces.
func ClusterScoped() KindOption { return func(k *Kind) { k.Namespaced = false } }

// OfKind names the kind of an object whose Go type no scheme knows, which is thereby a
// projection of the kind: what the API server sends is decoded, as JSON, into the fields
// that the type has, and the rest is skipped. The type needs the fields' names of the API
// and a metadata of type metav1.ObjectMeta or of less: see [KindOf].
func OfKind(kind schema.GroupVersionKind) KindOption {
	return func(k *Kind) { k.GroupVersionKind = kind }
}

// KindOf is the kind of an object, whose Go type is what is kept of the kind:
//
//   - A type that the scheme knows, such as &appsv1.StatefulSet{}, keeps whole objects.
//   - [Metadata], such as &sources.Metadata[appsv1.StatefulSet]{}, keeps metadata, and the
//     API server sends no more.
//   - Any other type keeps what it has fields for: with [Project] from the whole object,
//     with [OfKind] by the names of the fields.
//
// It assumes that the kind is namespaced and that its plural is regular.
func KindOf(scheme *runtime.Scheme, object streams.Object, options ...KindOption) (Kind, error) {
	kind := Kind{Namespaced: true, scheme: scheme, kept: reflect.TypeOf(object), failures: &failures{}}
	if kind.kept.Kind() != reflect.Pointer {
		return Kind{}, fmt.Errorf("finding the kind of %T; give a pointer to a struct", object)
	}
	kind.wire = kind.kept
	for _, option := range options {
		option(&kind)
	}
	named := kind.GroupVersionKind // by OfKind
	if named != (schema.GroupVersionKind{}) && (named.Kind == "" || named.Version == "") {
		return Kind{}, fmt.Errorf("finding the kind of %T; OfKind needs a version and a kind, and has %v", object, named)
	}
	var err error
	switch metadata, isMetadata := metadataOf(object); {
	case isMetadata:
		err = kind.asMetadata(metadata)
	case kind.project != nil:
		err = kind.asProjection()
	case named != (schema.GroupVersionKind{}) && !knows(scheme, object, named):
		err = kind.asJSON()
	default:
		err = kind.asWhole(object)
	}
	if err != nil {
		return Kind{}, err
	}
	if kind.Resource == "" {
		plural, _ := meta.UnsafeGuessKindToResource(kind.GroupVersionKind)
		kind.Resource = plural.Resource
	}
	return kind, nil
}

// knows says whether a scheme has a type under the name of a kind.
func knows(scheme *runtime.Scheme, object runtime.Object, kind schema.GroupVersionKind) bool {
	kinds, _, err := scheme.ObjectKinds(object)
	return err == nil && slices.Contains(kinds, kind)
}

// asWhole has the kind decoded into the type that the scheme has for it.
func (k *Kind) asWhole(object runtime.Object) error {
	kinds, _, err := k.scheme.ObjectKinds(object)
	if err != nil {
		return fmt.Errorf("finding the kind of %T; add its package to the scheme, or name its kind with OfKind: %w", object, err)
	}
	if k.GroupVersionKind == (schema.GroupVersionKind{}) {
		k.GroupVersionKind = kinds[0]
	}
	if !slices.Contains(kinds, k.GroupVersionKind) {
		return fmt.Errorf("finding the kind of %T: the scheme has it as %v, not as %v", object, kinds[0], k.GroupVersionKind)
	}
	k.listKind = k.GroupVersion().WithKind(k.Kind + "List")
	if !k.scheme.Recognizes(k.listKind) {
		return fmt.Errorf("finding the list of kind %v: the scheme does not know %v", k.GroupVersionKind, k.listKind)
	}
	// Only generated types of Kubernetes know protobuf; it halves the cost of decoding.
	_, k.protobuf = object.(interface{ Marshal() ([]byte, error) })
	return nil
}

// Type is the Go type in which objects of the kind are kept, such as *appsv1.StatefulSet.
func (k Kind) Type() reflect.Type { return k.kept }

// Form is how objects of the kind are kept.
func (k Kind) Form() Form { return k.form }

// New is a new, empty object of the kind, to decode an answer of the API server into. For
// what is kept of it see [Kind.Projected].
func (k Kind) New() streams.Object {
	return reflect.New(k.wire.Elem()).Interface().(streams.Object)
}

// NewList is a new, empty list of the kind, to decode an answer of the API server into.
func (k Kind) NewList() (runtime.Object, error) {
	if k.listKind.Empty() {
		return newJSONList(k.wire), nil
	}
	list, err := k.scheme.New(k.listKind)
	if err != nil {
		return nil, fmt.Errorf("making a %v: %w", k.listKind, err)
	}
	return list, nil
}

// What the API server is asked for. Of metadata it sends protobuf for any kind, as that is a
// type of Kubernetes.
const (
	acceptProtobuf     = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	acceptMetadata     = runtime.ContentTypeProtobuf + metadataAs + "," + runtime.ContentTypeJSON + metadataAs
	acceptMetadataList = runtime.ContentTypeProtobuf + metadataListAs + "," + runtime.ContentTypeJSON + metadataListAs

	metadataAs     = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataListAs = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// Client makes a REST client for the kind, over a shared HTTP client. It asks for what is
// kept of the kind, and for protobuf where the Go type knows it.
func (k Kind) Client(config *rest.Config, client *http.Client) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	version := k.GroupVersion()
	config.GroupVersion = &version
	config.APIPath = "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	encoding := encodingOf(k.scheme, k.GroupVersionKind)
	encoding.failures = k.failures
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
		return nil, fmt.Errorf("making a client for %v: %w", k.GroupVersionKind, err)
	}
	return made, nil
}

// ownScheme is a scheme that knows what every API server sends, and nothing else.
func ownScheme() *runtime.Scheme {
	made := runtime.NewScheme()
	metav1.AddToGroupVersion(made, schema.GroupVersion{Version: "v1"})
	return made
}
