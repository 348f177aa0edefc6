package compat

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// written returns the options of a write.
func written(dryRun []string, fieldManager, validation string) (options []controller.WriteOption) {
	if len(dryRun) > 0 {
		options = append(options, controller.DryRun())
	}
	if fieldManager != "" {
		options = append(options, controller.FieldManager(fieldManager))
	}
	if validation != "" {
		options = append(options, controller.FieldValidation(validation))
	}
	return options
}

// Create implements client.Client.
func (c *both) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	given := client.CreateOptions{}
	given.ApplyOptions(options)
	as := given.AsCreateOptions()
	made, err := controller.Create[streams.Object](ctx, c.ours, object, written(as.DryRun, as.FieldManager, as.FieldValidation)...)
	if undeclared(err) {
		return c.recorded(ctx, "create", object, as.DryRun, c.live.Create(ctx, object, options...))
	}
	return answered(object, made, err)
}

// Update implements client.Client.
func (c *both) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	given := client.UpdateOptions{}
	given.ApplyOptions(options)
	as := given.AsUpdateOptions()
	made, err := controller.Update[streams.Object](ctx, c.ours, object, written(as.DryRun, as.FieldManager, as.FieldValidation)...)
	if undeclared(err) {
		return c.recorded(ctx, "update", object, as.DryRun, c.live.Update(ctx, object, options...))
	}
	return answered(object, made, err)
}

// Patch implements client.Client.
func (c *both) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	given := client.PatchOptions{}
	given.ApplyOptions(options)
	as := given.AsPatchOptions()
	made, err := c.patched(ctx, object, patch, as)
	if undeclared(err) {
		return c.recorded(ctx, "patch", object, as.DryRun, c.live.Patch(ctx, object, patch, options...))
	}
	return answered(object, made, err)
}

// patched sends a patch with the manager's client.
func (c *both) patched(ctx context.Context, object client.Object, patch client.Patch, as *metav1.PatchOptions, more ...controller.WriteOption) (streams.Object, error) {
	body, err := patch.Data(object)
	if err != nil {
		return nil, err
	}
	options := append(written(as.DryRun, as.FieldManager, as.FieldValidation), more...)
	if patch.Type() != types.ApplyPatchType {
		return controller.Patch[streams.Object](ctx, c.ours, object, controller.RawPatch(patch.Type(), body), options...)
	}
	if as.Force != nil && *as.Force {
		options = append(options, controller.Force())
	}
	return controller.Apply[streams.Object](ctx, c.ours, encoded(body), adopting(options, more)...)
}

// adopting adds the option that lets an apply take over an object that no other object controls, as
// controller-runtime does. It does not apply to subresources.
func adopting(options, subresource []controller.WriteOption) []controller.WriteOption {
	if len(subresource) > 0 {
		return options
	}
	return append(options, controller.Adopt())
}

// encoded is an apply configuration that is encoded already.
type encoded json.RawMessage

// IsApplyConfiguration implements runtime.ApplyConfiguration.
func (encoded) IsApplyConfiguration() {}

// MarshalJSON implements json.Marshaler.
func (e encoded) MarshalJSON() ([]byte, error) { return e, nil }

// Apply implements client.Client.
func (c *both) Apply(ctx context.Context, configuration runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	given := client.ApplyOptions{}
	given.ApplyOptions(options)
	as := given.AsPatchOptions()
	err := c.applied(ctx, configuration, as)
	if undeclared(err) {
		return c.recordedApply(ctx, configuration, as.DryRun, c.live.Apply(ctx, configuration, options...))
	}
	return plain(err)
}

// recordedApply records an apply of controller-runtime's client. The configuration has the answer.
func (c *both) recordedApply(ctx context.Context, configuration runtime.ApplyConfiguration, dryRun []string, sent error) error {
	body, err := json.Marshal(configuration)
	object := &metav1.PartialObjectMetadata{}
	if err == nil {
		err = json.Unmarshal(body, object)
	}
	if sent == nil {
		sent = err
	}
	return c.recorded(ctx, "apply", object, dryRun, sent)
}

// applied applies a configuration with the manager's client, and decodes the answer into it.
func (c *both) applied(ctx context.Context, configuration runtime.ApplyConfiguration, as *metav1.PatchOptions, more ...controller.WriteOption) error {
	options := append(written(as.DryRun, as.FieldManager, ""), more...)
	if as.Force != nil && *as.Force {
		options = append(options, controller.Force())
	}
	answer, err := controller.Apply[streams.Object](ctx, c.ours, configuration, adopting(options, more)...)
	if err != nil {
		return err
	}
	kind, err := apiutil.GVKForObject(answer, c.Scheme())
	if err != nil {
		return err
	}
	answer.GetObjectKind().SetGroupVersionKind(kind)
	body, err := json.Marshal(answer)
	if err == nil {
		err = json.Unmarshal(body, configuration)
	}
	if err != nil {
		return fmt.Errorf("%v was applied, but its answer does not fit the configuration: %w", kind, err)
	}
	return nil
}

// deleted returns the options of a deletion.
func deleted(as *metav1.DeleteOptions) (options []controller.WriteOption) {
	if len(as.DryRun) > 0 {
		options = append(options, controller.DryRun())
	}
	if as.PropagationPolicy != nil {
		options = append(options, controller.Propagation(*as.PropagationPolicy))
	}
	if as.GracePeriodSeconds != nil {
		options = append(options, controller.GracePeriod(time.Duration(*as.GracePeriodSeconds)*time.Second))
	}
	return options
}

// Delete implements client.Client. As in controller-runtime, the uid and the version of the object are
// conditions only if client.Preconditions gives them.
func (c *both) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	given := client.DeleteOptions{}
	given.ApplyOptions(options)
	as := given.AsDeleteOptions()
	ours := deleted(as)
	if as.Preconditions != nil && as.Preconditions.ResourceVersion != nil {
		ours = append(ours, controller.IfUnchanged())
	}
	err := controller.Delete[streams.Object](ctx, c.ours, bare(object, as.Preconditions), ours...)
	if undeclared(err) {
		return c.recorded(ctx, "delete", object, as.DryRun, c.live.Delete(ctx, object, options...))
	}
	return plain(err)
}

// DeleteAllOf implements client.Client.
func (c *both) DeleteAllOf(ctx context.Context, object client.Object, options ...client.DeleteAllOfOption) error {
	given := client.DeleteAllOfOptions{}
	given.ApplyOptions(options)
	if selectsNothing(given.LabelSelector) || selectsNothing(given.FieldSelector) {
		return nil // The API server would take an empty selector for one that selects everything.
	}
	if given.ListOptions.Raw != nil || given.Limit != 0 || given.Continue != "" {
		return c.hidden(object, c.live.DeleteAllOf(ctx, object, options...))
	}
	as := given.AsListOptions()
	selected := []controller.ReadOption{controller.Like(object), controller.InNamespace(given.Namespace)}
	if as.LabelSelector != "" {
		selected = append(selected, controller.LabelSelector(as.LabelSelector))
	}
	if as.FieldSelector != "" {
		selected = append(selected, controller.FieldSelector(as.FieldSelector))
	}
	err := controller.DeleteAllOf[streams.Object](ctx, c.ours, selected, deleted(given.AsDeleteOptions())...)
	if undeclared(err) {
		return c.hidden(object, c.live.DeleteAllOf(ctx, object, options...))
	}
	return plain(err)
}
