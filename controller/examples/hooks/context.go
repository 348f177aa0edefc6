package main

import (
	"context"
	"fmt"

	"github.com/bellerophon-io/bellerophon/controller"
)

// bindingContext is one element of the array in BINDING_CONTEXT_PATH, before it is rendered. The objects of a
// Synchronization and the snapshots are rendered at each run, as they are then.
type bindingContext struct {
	common   *CommonBinding // nil for onStartup
	schedule bool
	of       *watching // for a kubernetes binding
	event    *event    // nil for a Synchronization
}

// rendered returns the contexts for a run of the hook. Contexts of one group that follow each other become
// one.
func rendered(ctx context.Context, client *controller.Client, hook *Hook, contexts []bindingContext) ([]map[string]any, error) {
	all := []map[string]any{}
	for i, each := range contexts {
		if next := i + 1; each.group() != "" && next < len(contexts) && contexts[next].group() == each.group() {
			continue
		}
		one, err := each.render(ctx, client, hook)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func (c bindingContext) group() string {
	if c.common == nil {
		return ""
	}
	return c.common.Group
}

func (c bindingContext) render(ctx context.Context, client *controller.Client, hook *Hook) (map[string]any, error) {
	if c.common == nil {
		return map[string]any{"binding": "onStartup"}, nil
	}
	made := map[string]any{"binding": c.common.Name}
	switch {
	case c.group() != "":
		made["type"], made["groupName"] = "Group", c.group()
	case c.schedule:
		made["type"] = "Schedule"
	case c.event != nil:
		made["type"], made["watchEvent"] = "Event", c.event.watchEvent
		c.of.show(c.event.seen, made)
	default:
		objects, err := c.of.list(ctx, client)
		if err != nil {
			return nil, err
		}
		made["type"], made["objects"] = "Synchronization", objects
	}
	return made, addSnapshots(ctx, client, hook, &c.common.NamedBinding, made)
}

// addSnapshots adds the snapshots of a binding to a context, if it has any.
func addSnapshots(ctx context.Context, client *controller.Client, hook *Hook, binding *NamedBinding, to map[string]any) error {
	snapshots := map[string]any{}
	for _, of := range hook.watches {
		if !includes(binding, of) {
			continue
		}
		objects, err := of.list(ctx, client)
		if err != nil {
			return fmt.Errorf("snapshot %q: %w", of.Name, err)
		}
		snapshots[of.Name] = objects
	}
	if len(snapshots) > 0 {
		to["snapshots"] = snapshots
	}
	return nil
}

// includes reports whether the context of a binding has the snapshot of another one.
func includes(binding *NamedBinding, of *watching) bool {
	if binding.Group != "" && binding.Group == of.Group {
		return true
	}
	for _, name := range binding.IncludeSnapshotsFrom {
		if name == of.Name {
			return true
		}
	}
	return false
}

// list renders the objects of the binding as they are now.
func (w *watching) list(ctx context.Context, client *controller.Client) ([]map[string]any, error) {
	found, err := w.snapshot(ctx, client)
	objects := make([]map[string]any, 0, len(found))
	for _, each := range found {
		shown := map[string]any{}
		w.show(each, shown)
		objects = append(objects, shown)
	}
	return objects, err
}

// show sets the fields object and filterResult.
func (w *watching) show(each seen, in map[string]any) {
	if w.KeepFullObjectsInMemory == nil || *w.KeepFullObjectsInMemory {
		in["object"] = each.object.Object
	}
	if w.filter != nil {
		in["filterResult"] = each.filtered
	}
}
