package simple

import (
	"context"
	"errors"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/streams"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// AddWebhooks adds a validation that the schema cannot express: an object is denied if one of its children
// would need a name that another owner's object has. Without it, only the status of the object says so. It
// takes the client of the manager to which [AddTo] added the operator.
func AddWebhooks(server *webhook.Server, client *controller.Client, options ...webhook.Option) error {
	options = append(options, webhook.On(admissionv1.Create))
	return webhook.Validate(server, func(ctx context.Context, request webhook.Request[*v1.BellerophonSimple]) error {
		return namesAreFree(ctx, client, request.New)
	}, options...)
}

// namesAreFree returns an error for a hero whose children would have names that are taken.
func namesAreFree(ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple) error {
	if hero.Name == "" {
		return nil // The API server generates a name afterwards.
	}
	var problems field.ErrorList
	for _, check := range []func() error{
		func() error { return isFree[*owned.ConfigMap](ctx, client, hero, "ConfigMap") },
		func() error { return isFree[*owned.Service](ctx, client, hero, "Service") },
		func() error { return isFree[*owned.StatefulSet](ctx, client, hero, "StatefulSet") },
	} {
		switch err := check(); {
		case errors.Is(err, errNameTaken):
			problems = append(problems, field.Invalid(field.NewPath("metadata", "name"), hero.Name, err.Error()))
		case err != nil:
			return err
		}
	}
	return problems.ToAggregate()
}

// isFree returns an error that wraps errNameTaken if the operator could not use a child of the hero's name.
func isFree[T interface {
	streams.Object
	IsLabelled(app string) bool
}](ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple, what string) error {
	seen, err := controller.GetLive[T](ctx, client, nameOf(hero))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return apierrors.NewServiceUnavailable("cannot check whether the name is free: " + err.Error())
	case metav1.GetControllerOfNoCopy(seen) == nil && seen.IsLabelled(appName):
		return nil // The operator adopts it.
	}
	if err := notOurs(hero, seen, what); errors.Is(err, errNameTaken) {
		return err
	}
	return nil // A child of a former object, which the garbage collector deletes.
}
