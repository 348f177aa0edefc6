package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

var drift = Scenario{
	Name: "drift", about: "another client changes the ConfigMap, the Service or the StatefulSet of each of n finished objects",
	parts: []part{partN}, run: runDrift,
	sizes: map[Size][]Variant{Short: {{N: 20}}, Full: {{N: 1000}}, Small: {{N: 20}}, Medium: {{N: 100}}, Tiny: {{N: 5}}},
}

// drifted and driftedReplicas are the values that a foreign client writes into children.
// driftedReplicas is more than any object of a load has.
const (
	drifted         = "drifted"
	driftedReplicas = 2
)

// child is a kind of child, with the change that makes it drift.
type child struct {
	resource string
	client   func(*Clients) rest.Interface
	empty    runtime.Object
	patch    string                    // a merge patch of an owned field
	is       func(runtime.Object) bool // reports whether the object still has the patched value
}

// children lists the kinds, which drift in turn. Each patch is a change that people make in
// practice. No patch changes a label: contenders may select children by label, and would see a
// child without it as deleted. No patch changes the pod template either: a rollout would add the
// work of its pods to the measurement.
var children = []child{
	{
		resource: "configmaps", client: coreClient, empty: &corev1.ConfigMap{},
		patch: `{"data":{"winged_horse_name":"` + drifted + `"}}`,
		is: func(object runtime.Object) bool {
			config, is := object.(*corev1.ConfigMap)
			return is && config.Data["winged_horse_name"] == drifted
		},
	},
	{
		resource: "services", client: coreClient, empty: &corev1.Service{},
		patch: `{"spec":{"publishNotReadyAddresses":false}}`,
		is: func(object runtime.Object) bool {
			service, is := object.(*corev1.Service)
			return is && !service.Spec.PublishNotReadyAddresses
		},
	},
	{
		resource: "statefulsets", client: func(c *Clients) rest.Interface { return c.Core().AppsV1().RESTClient() }, empty: &appsv1.StatefulSet{},
		patch: fmt.Sprintf(`{"spec":{"replicas":%d}}`, driftedReplicas),
		is: func(object runtime.Object) bool {
			servers, is := object.(*appsv1.StatefulSet)
			return is && servers.Spec.Replicas != nil && *servers.Spec.Replicas == driftedReplicas
		},
	},
}

func coreClient(c *Clients) rest.Interface { return c.Core().CoreV1().RESTClient() }

// of returns the name of an object's child on a board. It contains the resource, because all
// children of an object have the same name.
func (c child) of(object types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: object.Namespace, Name: c.resource + "/" + object.Name}
}

// repairs returns a function that marks the versions of children without drift on a board.
func (c child) repairs(b *board) func(runtime.Object, time.Time) {
	return func(object runtime.Object, at time.Time) {
		if access, err := meta.Accessor(object); err == nil && !c.is(object) {
			b.mark(c.of(nameOf(access)), versionOf(access), at)
		}
	}
}

// openRepairs opens a window in which children drift, after the contender has finished all objects.
func (w *World) openRepairs(ctx context.Context, v Variant) (context.Context, *window, error) {
	ctx, err := w.finish(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	w.Judge.followChildren()
	win, err := w.open()
	return ctx, win, err
}

func runDrift(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	ctx, win, err := w.openRepairs(ctx, v)
	if err != nil {
		return nil, err
	}
	answered, sent := newTimes(), counter{}
	var mu sync.Mutex
	versions := map[uint64]string{}
	err = asFastAsPossible(ctx, v.N, func(ctx context.Context, i int) error {
		child, name := children[i%len(children)], object("hero", i)
		version, err := w.Clients.drift(ctx, child, name)
		if err != nil {
			return err
		}
		answered.set(child.of(name), time.Now())
		mu.Lock()
		versions[version] = child.resource
		mu.Unlock()
		w.Judge.repaired.want(child.of(name), version+1)
		w.Progress("changing children", sent.next(), v.N)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return win.closeLoad(ctx, w.Judge.repaired, "repaired", v.N, answered.of, writtenVersions(versions))
}
