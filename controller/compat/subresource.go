package compat

import (
	"context"
	"reflect"
	"slices"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Status implements client.Client.
func (c *both) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.Client.
func (c *both) SubResource(name string) client.SubResourceClient {
	return &subresource{both: c, name: name, live: c.live.SubResource(name)}
}

// subresource is the client of a subresource.
type subresource struct {
	both *both
	name string
	live client.SubResourceClient
}

// otherBodies are subresources whose bodies and answers are no objects of the kind itself.
var otherBodies = []string{"scale", "eviction", "binding", "token", "log", "exec", "proxy"}

// whole returns the object that a write of the subresource sends, and whether the answer is an object of
// the same kind. body is the body of the options, or nil.
func (s *subresource) whole(object, body client.Object) (client.Object, bool) {
	if slices.Contains(otherBodies, s.name) {
		return object, false
	}
	if body == nil || reflect.ValueOf(body).IsNil() {
		return object, true
	}
	if body.GetName() == "" {
		body.SetName(object.GetName())
	}
	if body.GetNamespace() == "" {
		body.SetNamespace(object.GetNamespace())
	}
	return body, reflect.TypeOf(body) == reflect.TypeOf(object)
}

// Get implements client.SubResourceReader.
func (s *subresource) Get(ctx context.Context, object, into client.Object, options ...client.SubResourceGetOption) error {
	return s.live.Get(ctx, object, into, options...)
}

// Create implements client.SubResourceWriter.
func (s *subresource) Create(ctx context.Context, object, body client.Object, options ...client.SubResourceCreateOption) error {
	given := client.SubResourceCreateOptions{}
	given.ApplyOptions(options)
	return s.both.recorded(ctx, "create", object, given.AsCreateOptions().DryRun, s.live.Create(ctx, object, body, options...))
}

// Update implements client.SubResourceWriter.
func (s *subresource) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	given := client.SubResourceUpdateOptions{}
	given.ApplyOptions(options)
	as := given.AsUpdateOptions()
	sent, whole := s.whole(object, given.SubResourceBody)
	if whole {
		made, err := controller.Update[streams.Object](ctx, s.both.ours, sent,
			append(written(as.DryRun, as.FieldManager, as.FieldValidation), controller.Subresource(s.name))...)
		if !undeclared(err) {
			return answered(sent, made, err)
		}
	}
	return s.both.recorded(ctx, "update", object, as.DryRun, s.live.Update(ctx, object, options...))
}

// Patch implements client.SubResourceWriter.
func (s *subresource) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	given := client.SubResourcePatchOptions{}
	given.ApplyOptions(options)
	as := given.AsPatchOptions()
	sent, whole := s.whole(object, given.SubResourceBody)
	if whole {
		made, err := s.both.patched(ctx, sent, patch, as, controller.Subresource(s.name))
		if !undeclared(err) {
			return answered(sent, made, err)
		}
	}
	return s.both.recorded(ctx, "patch", object, as.DryRun, s.live.Patch(ctx, object, patch, options...))
}

// Apply implements client.SubResourceWriter.
func (s *subresource) Apply(ctx context.Context, configuration runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	given := client.SubResourceApplyOptions{}
	given.ApplyOpts(options)
	as := given.AsPatchOptions()
	if given.SubResourceBody == nil && !slices.Contains(otherBodies, s.name) {
		if err := s.both.applied(ctx, configuration, as, controller.Subresource(s.name)); !undeclared(err) {
			return plain(err)
		}
	}
	return s.both.recordedApply(ctx, configuration, as.DryRun, s.live.Apply(ctx, configuration, options...))
}
