package webhook

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// readOwner returns the reference to the owner of the webhook configurations as a field of their metadata, or
// nil without one.
//
// It reads the ClusterRole in each sync. Otherwise a configuration that is deleted before its owner would be
// created again, and stay.
func (k *keeper) readOwner(ctx context.Context) ([]any, error) {
	if k.options.ClusterRole == "" {
		return nil, nil
	}
	role := &metav1.PartialObjectMetadata{}
	err := k.api.roles.get(ctx, types.NamespacedName{Name: k.options.ClusterRole}, role)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the owner of the webhook configurations does not exist, so they are left as they are: %w", err)
	case err != nil:
		return nil, err
	}
	kind := k.api.roles.kind.GroupVersionKind
	return []any{map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "name": role.Name, "uid": string(role.UID),
	}}, nil
}
