package controller

import (
	"unique"

	"github.com/bellerophon-io/bellerophon/controller/internal/managedfields"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// managed is what the managed fields of an object say about one field manager: the version of the kind that it has
// applied, and the paths of the fields, as JSON. Objects of one controller mostly have the same. So the text is
// stored once, and the cache needs no managed fields.
type managed struct{ apiVersion, fields string }

// keepingManaged returns the Transform of a watch. It records what the field managers of this process have applied
// to each object, before it changes the object as the options say. The record shows whether an [Apply] would
// change something that an earlier process has applied.
func (c *Client) keepingManaged(watched *watched) func(streams.Object) {
	transform := watched.options.Transform
	if watched.kind.HasPart() { // Apply needs the whole object.
		return transform
	}
	return func(object streams.Object) {
		c.recordManaged(watched.kind, object)
		if transform != nil {
			transform(object)
			return
		}
		sources.DropManagedFields(object)
	}
}

// recordManaged records what the field managers of this process have applied to an object of a list or a watch. Once
// this process has applied to it, the answer counts instead.
func (c *Client) recordManaged(kind sources.Kind, object streams.Object) {
	for _, entry := range object.GetManagedFields() {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil || !c.isFieldManager(entry.Manager) {
			continue
		}
		key := appliedKey{kind.GroupKind(), nameOf(object), entry.Manager, entry.Subresource}
		fields := unique.Make(managed{entry.APIVersion, entry.FieldsV1.GetRawString()})
		c.applying.Lock()
		if last, known := c.applied.Peek(key); !known || last.isManaged() {
			c.applied.Add(key, applied{uid: object.GetUID(), version: object.GetResourceVersion(), managed: fields})
		}
		c.applying.Unlock()
	}
}

// isFieldManager reports whether writes of this process have the field manager, unless a write names another one.
func (c *Client) isFieldManager(name string) bool {
	options := &c.manager.options
	if name == options.FieldManager || name == options.UserAgent {
		return true
	}
	members := c.manager.present.Load().members
	if members[name] != nil {
		return true
	}
	for _, member := range members {
		if member.fieldManager == name {
			return true
		}
	}
	return false
}

// isManaged reports whether only the managed fields tell about the apply.
func (a applied) isManaged() bool { return a.managed != unique.Handle[managed]{} }

// stillApplied reports whether an apply of a configuration would change nothing. held is the object at the version
// with these managed fields.
func (m managed) stillApplied(made application, held streams.Object) bool {
	if m.apiVersion != made.object().GetAPIVersion() {
		return false
	}
	has, err := contentOf(held)
	return err == nil && managedfields.IsApplied(m.fields, made.content, has)
}

// stillAppliedOn reports whether an apply would change nothing, as the managed fields of an object of the API server show.
func (s *sending) stillAppliedOn(live streams.Object) bool {
	entry, found := managedfields.Find(live, s.manager, s.how.subresource)
	return found && managed{entry.APIVersion, entry.FieldsV1.GetRawString()}.stillApplied(s.of, live)
}
