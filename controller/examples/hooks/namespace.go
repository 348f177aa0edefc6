package main

import (
	"context"
	"slices"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// namespaces returns the namespaces that the binding names, or nil if it names none.
func (w *watching) namespaces() []string {
	if w.Namespace == nil || w.Namespace.NameSelector == nil {
		return nil
	}
	return w.Namespace.NameSelector.MatchNames
}

// inEveryNamespace reports whether an object of any namespace can match the binding.
func (w *watching) inEveryNamespace() bool { return w.namespaces() == nil || w.namespaceLabels != nil }

// selectsNamespace reports whether the binding selects a namespace now.
func (w *watching) selectsNamespace(name string) bool {
	names := w.namespaces()
	if w.namespaceLabels == nil && names == nil || slices.Contains(names, name) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.labelledIn[name]
}

// label notes the labels of a namespace, or its deletion. It reports whether they begin or cease to match.
func (w *watching) label(name string, now streams.Object) (changed bool) {
	matches := now != nil && w.namespaceLabels.Matches(labels.Set(now.GetLabels()))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.labelledIn[name] == matches {
		return false
	}
	if w.labelledIn == nil {
		w.labelledIn = map[string]bool{}
	}
	w.labelledIn[name] = matches
	if !matches {
		delete(w.labelledIn, name)
	}
	return true
}

// namespaceKind is the kind whose labels namespace.labelSelector selects.
var namespaceKind = schema.GroupKind{Kind: "Namespace"}

// queuesOfLabels returns the queues of the bindings with namespace.labelSelector.
func (e *engine) queuesOfLabels() (queues []types.NamespacedName) {
	for _, of := range e.watches {
		for _, watch := range of {
			if watch.namespaceLabels != nil {
				queues = append(queues, types.NamespacedName{Name: watch.Queue})
			}
		}
	}
	return queues
}

// watchNamespaces returns the watch of Namespaces for namespace.labelSelector, if a binding has it and no binding is
// for Namespaces. Otherwise the watch of that binding serves both.
func (e *engine) watchNamespaces() []controller.Option {
	queues := e.queuesOfLabels()
	if queues == nil || e.watches[namespaceKind] != nil {
		return nil
	}
	mapFunc := func(streams.Object) []types.NamespacedName { return queues }
	return []controller.Option{controller.Watches(&metav1.PartialObjectMetadata{}, mapFunc,
		controller.OfKind(namespaceKind.WithVersion("v1")), controller.ClusterScoped(), controller.When(e.observeNamespace))}
}

// observeNamespace queues a namespace for each binding that selects it from now on, or no longer does. It reports
// whether there is one.
func (e *engine) observeNamespace(change streams.Change) (concerns bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, of := range e.watches {
		for _, watch := range of {
			// A binding that has not synchronized yet reads the namespaces afterwards.
			if watch.namespaceLabels == nil || !watch.label(change.Key.Name, change.New) || !watch.executesOnAny() || !watch.follows() {
				continue
			}
			e.push(watch.Queue, item{hook: watch.hook, watch: watch, name: types.NamespacedName{Namespace: change.Key.Name}})
			concerns = true
		}
	}
	return concerns
}

// eventsOf returns what the labels of a namespace mean for the hook: its objects appear, or they go.
func (w *watching) eventsOf(ctx context.Context, client *controller.Client, namespace string) (events []event, err error) {
	held, err := controller.List[*unstructured.Unstructured](ctx, client, controller.OfKind(w.kind.GroupVersionKind), controller.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	for _, object := range held { // An object that is no longer in the cache has an item of its own.
		events = append(events, w.events(ctx, nameOf(object), &pendingChange{now: object})...)
	}
	return events, nil
}
