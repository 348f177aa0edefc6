package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
)

// These are the values of watchEvent.
const (
	added    = "Added"
	modified = "Modified"
	deleted  = "Deleted"
)

var allEvents = []string{added, modified, deleted}

// watching is a kubernetes binding with its state.
type watching struct {
	*KubernetesBinding
	hook   *Hook
	kind   kind
	logger *slog.Logger

	mu         sync.Mutex                    // guards known and labelledIn
	known      map[types.NamespacedName]seen // the objects that the hook was shown; nil before the Synchronization
	labelledIn map[string]bool               // the namespaces that namespace.labelSelector matches

	pending map[types.NamespacedName]*pendingChange // The engine's mu guards it.
}

// seen is an object as the hook was shown it.
type seen struct {
	object   *unstructured.Unstructured
	filtered json.RawMessage // nil without a filter
}

// pendingChange is what happened to a name since the hook was shown it. An object that changes often while a
// hook hangs is kept once.
type pendingChange struct {
	gone map[types.UID]*unstructured.Unstructured // the last states of deleted objects
	now  *unstructured.Unstructured               // nil if it does not exist
}

// event is a watch event for the hook.
type event struct {
	watchEvent string
	seen
}

// note adds a change of the cache to the pending change of its name.
func (c *pendingChange) note(old, now *unstructured.Unstructured) {
	if old != nil && (now == nil || now.GetUID() != old.GetUID()) {
		if c.gone == nil {
			c.gone = map[types.UID]*unstructured.Unstructured{}
		}
		c.gone[old.GetUID()] = old
	}
	c.now = now
}

// executesOn reports whether the hook is run for a watch event.
func (w *watching) executesOn(watchEvent string) bool {
	return w.ExecuteHookOnEvent == nil || slices.Contains(*w.ExecuteHookOnEvent, watchEvent)
}

// executesOnAny reports whether the hook is run for changes.
func (w *watching) executesOnAny() bool {
	return slices.ContainsFunc(allEvents, w.executesOn)
}

// selects reports whether the selectors of the binding match an object. The API server has matched fields
// other than the name and the namespace.
func (w *watching) selects(object *unstructured.Unstructured) bool {
	if object == nil || !w.labels.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	if w.NameSelector != nil && !slices.Contains(w.NameSelector.MatchNames, object.GetName()) {
		return false
	}
	if !w.selectsNamespace(object.GetNamespace()) {
		return false
	}
	at := fields.Set{metav1.ObjectNameField: object.GetName(), "metadata.namespace": object.GetNamespace()}
	for _, term := range w.fields.Requirements() {
		if at.Has(term.Field) && (at.Get(term.Field) == term.Value) != isEqual(term) {
			return false
		}
	}
	return true
}

// filtered returns the result of the filter. An object on which the filter fails has the result null: one odd
// object must not block the queue.
func (w *watching) filtered(ctx context.Context, object *unstructured.Unstructured) json.RawMessage {
	if w.filter == nil {
		return nil
	}
	result, err := runJQ(ctx, w.filter, object.Object)
	var text json.RawMessage
	if err == nil {
		text, err = encoded(result)
	}
	if err != nil {
		w.logger.Error("jqFilter failed; its result is null", "hook", w.hook.Name, "binding", w.Name,
			"object", streams.KeyOf(w.kind.GroupKind(), object).String(), "error", err)
		return json.RawMessage("null")
	}
	return text
}

// snapshot returns the objects of the cache that the binding selects.
func (w *watching) snapshot(ctx context.Context, client *controller.Client) ([]seen, error) {
	held, err := controller.List[*unstructured.Unstructured](ctx, client, controller.OfKind(w.kind.GroupVersionKind))
	if err != nil {
		return nil, err
	}
	var found []seen
	for _, object := range held {
		if !w.selects(object) {
			continue
		}
		w.mu.Lock()
		before := w.known[nameOf(object)]
		w.mu.Unlock()
		if before.object == nil || before.object.GetResourceVersion() != object.GetResourceVersion() {
			before = seen{object, w.filtered(ctx, object)}
		}
		found = append(found, before)
	}
	return found, nil
}

// synchronize begins to follow the objects, from the state in the cache. Changes that the state contains make
// no events.
func (w *watching) synchronize(ctx context.Context, client *controller.Client) error {
	w.mu.Lock()
	if w.known == nil {
		w.known = map[types.NamespacedName]seen{} // First, so that no later change is missed.
	}
	w.mu.Unlock()
	found, err := w.snapshot(ctx, client)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, each := range found {
		w.known[nameOf(each.object)] = each
	}
	return err
}

// follows reports whether the binding has synchronized, so that changes make events.
func (w *watching) follows() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known != nil
}

// showed reports whether the hook was shown an object of a name that has not gone since. Its namespace may have
// ceased to match meanwhile.
func (w *watching) showed(name types.NamespacedName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.known[name]
	return known
}

// events returns what a pending change means for the hook.
func (w *watching) events(ctx context.Context, name types.NamespacedName, change *pendingChange) (events []event) {
	w.mu.Lock()
	was, known := w.known[name]
	w.mu.Unlock()
	now := change.now
	if known && now != nil && now.GetUID() == was.object.GetUID() && !streams.IsOlderVersion(was.object.GetResourceVersion(), now.GetResourceVersion()) &&
		w.selectsNamespace(name.Namespace) {
		return nil // The hook has seen this state, or a later one.
	}
	selected := w.selects(now)
	emit := func(watchEvent string, shown seen) {
		if w.executesOn(watchEvent) {
			events = append(events, event{watchEvent, shown})
		}
	}
	if known {
		last, gone := change.gone[was.object.GetUID()]
		switch {
		case gone:
			was.object = last
		case now == nil:
			return nil // An earlier object of the name is gone.
		case !selected:
			gone = true
		case now.GetUID() != was.object.GetUID():
			gone = true
		}
		if gone {
			emit(deleted, was)
			w.remember(name, nil)
			known = false
		}
	}
	if !selected {
		return events
	}
	shown := seen{now, w.filtered(ctx, now)}
	w.remember(name, &shown)
	switch {
	case !known:
		emit(added, shown)
	case w.filter == nil || string(shown.filtered) != string(was.filtered):
		emit(modified, shown)
	}
	return events
}

// remember sets what the hook was shown of a name, or nil if that is gone.
func (w *watching) remember(name types.NamespacedName, shown *seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if shown == nil {
		delete(w.known, name)
		return
	}
	w.known[name] = *shown
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func isEqual(term fields.Requirement) bool {
	return term.Operator == selection.Equals || term.Operator == selection.DoubleEquals
}
