package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// history holds every version of the objects of a namespace and of their StatefulSets.
type history struct {
	mu              sync.Mutex
	heroes, servers []*unstructured.Unstructured
	changed         chan struct{} // closed and replaced with each version
}

// record collects the versions until the returned function is called. That function returns an
// error if the versions violate the contract.
func (t *trial) record(ctx context.Context) (stop func() error, err error) {
	h := &history{changed: make(chan struct{})}
	group := lifecycle.New(ctx)
	err = errors.Join(h.follow(t, group, sheroes, &h.heroes), h.follow(t, group, statefulSets, &h.servers))
	stop = func() error {
		err := errors.Join(h.complete(ctx, t, sheroes, &h.heroes), h.complete(ctx, t, statefulSets, &h.servers))
		group.Stop()
		if err := errors.Join(err, group.Wait()); err != nil {
			return err
		}
		return h.check()
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// recorded wraps a check, so that it also fails if the recorded history violates the contract.
func recorded(run func(context.Context, *trial) error) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		stop, err := t.record(ctx)
		if err != nil {
			return err
		}
		return errors.Join(run(ctx, t), stop())
	}
}

func (h *history) follow(t *trial, group *lifecycle.Group, resource schema.GroupVersionResource, into *[]*unstructured.Unstructured) error {
	watcher, err := t.any.Resource(resource).Namespace(t.namespace).Watch(group.Context(), metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch %s: %w", resource.Resource, err)
	}
	group.Go(resource.Resource, func(context.Context) error {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok {
				h.mu.Lock()
				*into = append(*into, object)
				close(h.changed)
				h.changed = make(chan struct{})
				h.mu.Unlock()
			}
		}
		return nil
	})
	return nil
}

// complete waits until the history holds the current version of every object.
func (h *history) complete(ctx context.Context, t *trial, resource schema.GroupVersionResource, seen *[]*unstructured.Unstructured) error {
	list, err := t.any.Resource(resource).Namespace(t.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("read %s: %w", resource.Resource, err)
	}
	for {
		h.mu.Lock()
		missing := slices.ContainsFunc(list.Items, func(item unstructured.Unstructured) bool {
			return !slices.ContainsFunc(*seen, func(version *unstructured.Unstructured) bool {
				return version.GetUID() == item.GetUID() && version.GetResourceVersion() == item.GetResourceVersion()
			})
		})
		changed := h.changed
		h.mu.Unlock()
		if !missing {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the last version of %s: %w", resource.Resource, context.Cause(ctx))
		}
	}
}

// check finds statuses that claim too much, and wrong transition times.
func (h *history) check() error {
	before := map[string]*v1.BellerophonSimple{}
	statuses := 0
	for _, object := range h.heroes {
		hero, err := typed(object)
		if err != nil {
			return err
		}
		if len(hero.Finalizers) > 0 && hero.DeletionTimestamp == nil {
			return fmt.Errorf("%s has the finalizers %v, want none", hero.Name, hero.Finalizers)
		}
		if err := h.isEarned(hero); err != nil {
			return err
		}
		if last := before[string(hero.UID)]; last != nil {
			if err := transitions(last, hero); err != nil {
				return err
			}
		}
		before[string(hero.UID)] = hero
		if hero.Status.ObservedGeneration > 0 { // Otherwise it has the default of its definition.
			statuses++
		}
	}
	if statuses == 0 {
		return errors.New("no version has a status")
	}
	return nil
}

// transitions compares the transition times of two consecutive versions.
func transitions(from, to *v1.BellerophonSimple) error {
	for _, is := range to.Status.Conditions {
		was := meta.FindStatusCondition(from.Status.Conditions, is.Type)
		if was == nil {
			continue
		}
		switch {
		case was.Status == is.Status && !was.LastTransitionTime.Equal(&is.LastTransitionTime):
			return fmt.Errorf("%s: lastTransitionTime of %s changed from %v to %v, but the status stayed %s (reason %s, then %s)",
				to.Name, is.Type, was.LastTransitionTime, is.LastTransitionTime, is.Status, was.Reason, is.Reason)
		case was.Status != is.Status && is.LastTransitionTime.Before(&was.LastTransitionTime):
			return fmt.Errorf("%s: the status of %s changed, but lastTransitionTime went back from %v to %v",
				to.Name, is.Type, was.LastTransitionTime, is.LastTransitionTime)
		}
	}
	return nil
}

// isEarned returns an error if an object claims to be finished, but its servers were never
// finished at or before its resource version. Resource versions of one etcd follow the order of
// writes.
func (h *history) isEarned(hero *v1.BellerophonSimple) error {
	ready := meta.FindStatusCondition(hero.Status.Conditions, v1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != hero.Generation {
		return nil
	}
	want, at := *hero.Spec.Replicas, version(hero)
	for _, object := range h.servers {
		if version(object) > at || object.GetName() != hero.Name {
			continue
		}
		servers := &appsv1.StatefulSet{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, servers); err != nil {
			return fmt.Errorf("read a StatefulSet: %w", err)
		}
		is := &servers.Status
		if is.ObservedGeneration >= servers.Generation && is.Replicas == want && is.ReadyReplicas == want && is.UpdatedReplicas == want &&
			(want == 0 || is.CurrentRevision == is.UpdateRevision) && servers.Spec.Template.Spec.Containers[0].Image == hero.Spec.Image {
			return nil
		}
	}
	return fmt.Errorf("%s is Ready in generation %d, but its servers were never finished before", hero.Name, hero.Generation)
}

func version(object metav1.Object) int64 {
	number, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return number
}
