// Package migrate moves the objects of custom resources to the version that their definition stores.
//
// A resource definition has one version that is stored. After an upgrade that stores another one, each object stays in its
// old version until it is written the next time. The API server refuses a definition without a version that
// status.storedVersions names, because it could not read such objects. So no old version can be removed, and no upgrade
// that added a version can be taken back, until the objects are rewritten.
package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

var definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// definition is a resource definition as the cluster has it.
type definition struct {
	apiextensionsv1.CustomResourceDefinition
}

// read returns a definition, or nil if the cluster does not have it.
func (m *migration) read(ctx context.Context, name string) (*definition, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := m.dynamic.Resource(definitionResource).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	held := &definition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &held.CustomResourceDefinition); err != nil {
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	if held.stores() == nil {
		return nil, fmt.Errorf("CustomResourceDefinition %s stores no version", name)
	}
	return held, nil
}

// stores returns the version that is stored. A definition of an API server has one.
func (d *definition) stores() *apiextensionsv1.CustomResourceDefinitionVersion {
	at := slices.IndexFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if at < 0 {
		return nil
	}
	return &d.Spec.Versions[at]
}

// resource returns the objects of the definition, in a version that is served. Whatever the version of a request, the
// object is written in the version that is stored.
func (d *definition) resource() (of schema.GroupVersionResource, err error) {
	version := d.stores()
	if !version.Served {
		at := slices.IndexFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served })
		if at < 0 {
			return of, fmt.Errorf("CustomResourceDefinition %s serves no version, so its objects cannot be rewritten; serve one", d.Name)
		}
		version = &d.Spec.Versions[at]
	}
	return schema.GroupVersionResource{Group: d.Spec.Group, Version: version.Name, Resource: d.Spec.Names.Plural}, nil
}

// subresource returns the status, if the version that is written has one. A write of it rewrites the whole object. It
// passes no webhook and no policy for objects: these could refuse what was valid in the past.
func (d *definition) subresource(version string) []string {
	at := slices.IndexFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	if status := d.Spec.Versions[at].Subresources; status != nil && status.Status != nil {
		return []string{"status"}
	}
	return nil
}

// isDone reports whether all objects are stored in the version of the definition.
func (d *definition) isDone() bool {
	return slices.Equal(d.Status.StoredVersions, []string{d.stores().Name})
}

// lag is how long an API server may go on with an old form of a definition. The API server itself waits half as long before
// it serves a new definition: genericDelay of its establishing controller.
const lag = 10 * time.Second

// since returns the time of the last change of a definition, by its managed fields. Of one without managed fields it is now.
func (d *definition) since(now time.Time) (changed time.Time) {
	for _, entry := range d.ManagedFields {
		if entry.Time == nil {
			return now
		}
		if entry.Subresource == "" && entry.Time.After(changed) {
			changed = entry.Time.Time
		}
	}
	if len(d.ManagedFields) == 0 || changed.After(now) {
		return now
	}
	return changed
}

// finish writes into the definition that all objects are stored in one version. It fails with a conflict if the definition was changed since it
// was read.
func (m *migration) finish(ctx context.Context, held *definition) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	change, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": held.UID, "resourceVersion": held.ResourceVersion},
		"status":   map[string]any{"storedVersions": []string{held.stores().Name}},
	})
	if err != nil {
		return err
	}
	_, err = m.dynamic.Resource(definitionResource).Patch(ctx, held.Name, types.MergePatchType, change, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err != nil {
		return fmt.Errorf("writing the stored versions of %s: %w", held.Name, err)
	}
	return nil
}

// names returns versions as a text.
func names(versions []string) string { return strings.Join(versions, ", ") }
