package sources

import (
	"fmt"
	"net/http"
	"reflect"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Kind is a kind of Kubernetes objects with its Go type and its place in the API. Make
// it with [KindOf].
type Kind struct {
	schema.GroupVersionKind
	Resource   string // the plural of the URL, such as "statefulsets"
	Namespaced bool

	scheme   *runtime.Scheme
	object   reflect.Type // of a single object, without the pointer
	listKind schema.GroupVersionKind
	protobuf bool
}

// KindOption changes what KindOf assumes.
type KindOption func(*Kind)

// Plural sets the plural of URLs, where it is not the regular one.
func Plural(resource string) KindOption { return func(k *Kind) { k.Resource = resource } }

// ClusterScoped says that the kind has no namespaces.
func ClusterScoped() KindOption { return func(k *Kind) { k.Namespaced = false } }

// KindOf is the kind of an object, such as &appsv1.StatefulSet{}, whose type a scheme
// knows. It assumes that the kind is namespaced and that its plural is regular.
func KindOf(scheme *runtime.Scheme, object streams.Object, options ...KindOption) (Kind, error) {
	kinds, _, err := scheme.ObjectKinds(object)
	if err != nil {
		return Kind{}, fmt.Errorf("finding the kind of %T; add its package to the scheme: %w", object, err)
	}
	plural, _ := meta.UnsafeGuessKindToResource(kinds[0])
	kind := Kind{
		GroupVersionKind: kinds[0],
		Resource:         plural.Resource,
		Namespaced:       true,
		scheme:           scheme,
		object:           reflect.TypeOf(object).Elem(),
		listKind:         kinds[0].GroupVersion().WithKind(kinds[0].Kind + "List"),
	}
	if !scheme.Recognizes(kind.listKind) {
		return Kind{}, fmt.Errorf("finding the list of kind %v: the scheme does not know %v", kind.GroupVersionKind, kind.listKind)
	}
	// Only generated types of Kubernetes know protobuf; it halves the cost of decoding.
	_, kind.protobuf = object.(interface{ Marshal() ([]byte, error) })
	for _, option := range options {
		option(&kind)
	}
	return kind, nil
}

// New is a new, empty object of the kind.
func (k Kind) New() streams.Object {
	return reflect.New(k.object).Interface().(streams.Object)
}

// NewList is a new, empty list of the kind.
func (k Kind) NewList() (runtime.Object, error) {
	list, err := k.scheme.New(k.listKind)
	if err != nil {
		return nil, fmt.Errorf("making a %v: %w", k.listKind, err)
	}
	return list, nil
}

// Client makes a REST client for the kind, over a shared HTTP client.
func (k Kind) Client(config *rest.Config, client *http.Client) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	version := k.GroupVersion()
	config.GroupVersion = &version
	config.APIPath = "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(k.scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	if k.protobuf {
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	made, err := rest.RESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("making a client for %v: %w", k.GroupVersionKind, err)
	}
	return made, nil
}
