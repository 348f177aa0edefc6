package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/manykinds"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// horse is an object of any of the kinds.
type horse = manykinds.Object[any]

const (
	definitions = "customresourcedefinitions"
	// servedLimit is how long the API server may take until it serves one more kind.
	servedLimit = 2 * time.Second
)

// kindClient is a client of the objects of all kinds.
type kindClient struct{ rest.Interface }

// defineKinds creates the definitions of n kinds, and returns a client once the API server serves them.
func (c *Clients) defineKinds(ctx context.Context, n int) (*kindClient, error) {
	limit := time.Minute + time.Duration(n)*servedLimit
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the API server did not serve %d kinds within %v", n, limit))
	defer cancel()
	extensions := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(extensions); err != nil {
		return nil, err
	}
	client, err := c.Client(apiextensionsv1.SchemeGroupVersion, extensions)
	if err != nil {
		return nil, err
	}
	types := runtime.NewScheme()
	metav1.AddToGroupVersion(types, manykinds.GroupVersion)
	for i := range n {
		manykinds.Register[any](types, i)
		if err := client.Post().Resource(definitions).Body(definitionOf(i)).Do(ctx).Error(); err != nil {
			return nil, fmt.Errorf("creating the definition of %s: %w", manykinds.Kind(i), err)
		}
	}
	if err := awaitServed(ctx, client, n); err != nil {
		return nil, err
	}
	of, err := c.Client(manykinds.GroupVersion, types)
	return &kindClient{of}, err
}

// definitionOf returns the resource definition of the i-th kind.
func definitionOf(i int) *apiextensionsv1.CustomResourceDefinition {
	plural, kind := manykinds.Plural(i), manykinds.Kind(i)
	field := func(of apiextensionsv1.JSONSchemaProps, name string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{name: of}}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + manykinds.GroupVersion.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: manykinds.GroupVersion.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: manykinds.GroupVersion.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec":   field(apiextensionsv1.JSONSchemaProps{Type: "string"}, "colour"),
						"status": field(apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int64"}, "observedGeneration"),
					},
				}},
			}},
		},
	}
}

// awaitServed waits until n definitions of the group are established. It polls, as no single event reports that
// for all of them.
func awaitServed(ctx context.Context, client rest.Interface, n int) error {
	ticker := time.NewTicker(goneEvery)
	defer ticker.Stop()
	for {
		var listed apiextensionsv1.CustomResourceDefinitionList
		if err := client.Get().Resource(definitions).Do(ctx).Into(&listed); err != nil {
			return fmt.Errorf("listing definitions: %w", err)
		}
		served := 0
		for i := range listed.Items {
			if listed.Items[i].Spec.Group == manykinds.GroupVersion.Group && isEstablished(&listed.Items[i]) {
				served++
			}
		}
		if served >= n {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d kinds are served: %w", served, n, context.Cause(ctx))
		}
	}
}

func isEstablished(definition *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// create creates an object of the i-th kind. The encoder cannot choose the kind, as one Go type stands for all.
func (c *kindClient) create(ctx context.Context, i int, name types.NamespacedName) error {
	body, err := json.Marshal(&horse{
		TypeMeta:   metav1.TypeMeta{APIVersion: manykinds.GroupVersion.String(), Kind: manykinds.Kind(i)},
		ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: name.Namespace},
		Spec:       manykinds.Spec{Colour: colour},
	})
	if err != nil {
		return err
	}
	err = c.Post().Namespace(name.Namespace).Resource(manykinds.Plural(i)).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("creating %s: %w", name, err)
	}
	return nil
}

// horse marks an object as finished when its status has observed its generation.
func (j *Judge) horse(object runtime.Object, at time.Time) {
	if one, ok := object.(*horse); ok && one.Status.ObservedGeneration == one.Generation {
		j.finished.mark(nameOf(one), uint64(one.Generation), at)
	}
}

// followKinds watches n kinds, and returns once it has listed them.
func (j *Judge) followKinds(ctx context.Context, of *kindClient, n int) error {
	for i := range n {
		source := cache.NewListWatchFromClient(of, manykinds.Plural(i), metav1.NamespaceAll, fields.Everything())
		select {
		case <-j.follow(source, &horse{}, j.horse, j.finished.gone):
		case <-ctx.Done():
			return fmt.Errorf("listing the objects of %s: %w", manykinds.Kind(i), context.Cause(ctx))
		}
	}
	return nil
}
