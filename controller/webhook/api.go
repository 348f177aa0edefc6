package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/bellerophon-io/bellerophon/controller/internal/secrets"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// fieldManager is the field manager of configurations.
const fieldManager = "bellerophon-webhook"

// The kinds of configurations.
var (
	validations = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}
	defaults    = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"}
	roles       = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	definitions = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
)

// api reads and writes the objects of the server.
type api struct {
	config  *rest.Config
	http    *http.Client
	scheme  *runtime.Scheme
	secrets place
	roles   place // of metadata
	places  map[schema.GroupVersionKind]place
}

// place is a kind with a client for its requests.
type place struct {
	kind   sources.Kind
	client *rest.RESTClient
}

func newAPI(config *rest.Config) (*api, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // The keeper sends few requests, one after the other.
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	made := &api{config: config, http: client, scheme: runtime.NewScheme(), places: map[schema.GroupVersionKind]place{}}
	if err := corev1.AddToScheme(made.scheme); err != nil {
		return nil, err
	}
	if made.secrets, err = made.place(&corev1.Secret{}); err != nil {
		return nil, err
	}
	if made.roles, err = made.place(&metav1.PartialObjectMetadata{}, sources.OfKind(roles), sources.ClusterScoped()); err != nil {
		return nil, err
	}
	for _, kind := range []schema.GroupVersionKind{validations, defaults, definitions} {
		if made.places[kind], err = made.place(&unstructured.Unstructured{}, sources.OfKind(kind), sources.ClusterScoped()); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (a *api) place(object streams.Object, options ...sources.KindOption) (place, error) {
	kind, err := sources.KindOf(a.scheme, object, options...)
	if err != nil {
		return place{}, err
	}
	client, err := kind.Client(secrets.DropWarnings(kind.GroupKind(), a.config), a.http)
	return place{kind, client}, err
}

// watch returns a stream of changes of one object. It requests metadata only, so that no key is received.
func (a *api) watch(of place, name types.NamespacedName) (streams.Stream[streams.Event], error) {
	options := []sources.KindOption{sources.OfKind(of.kind.GroupVersionKind), sources.Plural(of.kind.Resource())}
	selected := sources.WatchOptions{FieldSelector: "metadata.name=" + name.Name, MaxStaleness: sources.DefaultMaxStaleness}
	if name.Namespace == "" {
		options = append(options, sources.ClusterScoped())
	} else {
		selected.Namespaces = []string{name.Namespace}
	}
	metadata, err := a.place(&metav1.PartialObjectMetadata{}, options...)
	if err != nil {
		return streams.Stream[streams.Event]{}, err
	}
	return sources.Watch(metadata.client, metadata.kind, selected), nil
}

func (p place) get(ctx context.Context, name types.NamespacedName, into streams.Object) error {
	err := p.client.Get().NamespaceIfScoped(name.Namespace, p.kind.Namespaced()).Resource(p.kind.Resource()).Name(name.Name).Do(ctx).Into(into)
	return p.wrap("get", name, err)
}

func (p place) create(ctx context.Context, object, into streams.Object) error {
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	err := p.client.Post().NamespaceIfScoped(name.Namespace, p.kind.Namespaced()).Resource(p.kind.Resource()).
		Param("fieldManager", fieldManager).Body(object).Do(ctx).Into(into)
	return p.wrap("create", name, err)
}

func (p place) update(ctx context.Context, object, into streams.Object) error {
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	err := p.client.Put().NamespaceIfScoped(name.Namespace, p.kind.Namespaced()).Resource(p.kind.Resource()).Name(name.Name).
		Param("fieldManager", fieldManager).Body(object).Do(ctx).Into(into)
	return p.wrap("update", name, err)
}

// apply applies fields server-side. The object belongs to the server, so fields of others are overwritten.
func (p place) apply(ctx context.Context, fields *unstructured.Unstructured) error {
	body, err := fields.MarshalJSON()
	if err != nil {
		return err
	}
	err = p.client.Patch(types.ApplyPatchType).Resource(p.kind.Resource()).Name(fields.GetName()).
		Param("fieldManager", fieldManager).Param("force", "true").Body(body).Do(ctx).Error()
	return p.wrap("apply", types.NamespacedName{Name: fields.GetName()}, err)
}

// merge applies a JSON merge patch, and returns the resource version afterwards.
func (p place) merge(ctx context.Context, name string, patch map[string]any) (version string, err error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return "", err
	}
	answer, err := p.client.Patch(types.MergePatchType).Resource(p.kind.Resource()).Name(name).
		Param("fieldManager", fieldManager).Body(body).Do(ctx).Raw()
	if err != nil {
		return "", p.wrap("patch", types.NamespacedName{Name: name}, err)
	}
	var after metav1.PartialObjectMetadata
	if err := json.Unmarshal(answer, &after); err != nil {
		return "", p.wrap("patch", types.NamespacedName{Name: name}, err)
	}
	return after.ResourceVersion, nil
}

func (p place) wrap(verb string, name types.NamespacedName, err error) error {
	if err == nil {
		return nil
	}
	shown := name.Name
	if name.Namespace != "" {
		shown = name.String()
	}
	return fmt.Errorf("cannot %s %s %s: %w", verb, p.kind.Resource(), shown, secrets.HideValues(p.kind.GroupKind(), err))
}
