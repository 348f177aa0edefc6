package loop

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/controller"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// report writes the Status, if the ConfigMap has another one.
func (l *Loop) report(ctx context.Context, specs *corev1.ConfigMap, status contract.Status) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	name := l.key()
	name.Name = contract.StatusName(name.Name)
	held, err := controller.Get[*corev1.ConfigMap](ctx, l.client, name)
	if controller.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the Status of %s: %w", l.options.Application, err)
	}
	isOurs := err == nil // The cache has only ConfigMaps with the label of the application.
	if isOurs {
		if has, err := contract.StatusOf(held); err == nil && reflect.DeepEqual(has, status) {
			return nil
		}
	}
	want, err := status.ConfigMap(name.Namespace, l.options.Application)
	if err != nil {
		return err
	}
	if err := controller.SetControllerReference(l.client, specs, want); err != nil {
		return fmt.Errorf("own the Status of %s: %w", l.options.Application, err)
	}
	options := []controller.WriteOption{controller.Force()}
	if isOurs { // Another program's ConfigMap of this name stays as it is.
		options = append(options, controller.Adopt())
	}
	if _, err := controller.Apply[*corev1.ConfigMap](ctx, l.client, controller.ApplyConfigurationOf(want), options...); err != nil {
		return fmt.Errorf("write the Status of %s: %w", l.options.Application, err)
	}
	return nil
}

// explain returns the message of an error for the user, with a way out where there is one.
func explain(err error) string {
	switch {
	case errors.Is(err, container.ErrGone):
		return "the container has ended; waiting for the next one"
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("%v; ask the administrator of the namespace for this right", err)
	}
	return err.Error()
}
