package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/manykinds"
	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var kinds = Scenario{
	Name: "kinds", about: "a program for n kinds starts among one object of each, gets m new objects, and is idle for some seconds",
	ManyKinds: true, parts: []part{{partN.name, partN.of, 1, manykinds.Most}, partM, partSeconds}, run: runKinds,
	sizes: map[Size][]Variant{
		Short: {{N: 10, M: 50, Seconds: 10}}, Full: {{N: 1, M: 500, Seconds: 60}, {N: 10, M: 500, Seconds: 60}, {N: 50, M: 500, Seconds: 60}},
		Tiny: {{N: 3, M: 6, Seconds: 2}},
	},
}

// colour is spec.colour of all objects of the kinds, which the contender copies into their ConfigMaps.
const colour = "white"

// runKinds measures the start of the contender, then the load, and then an idle time. Measures that are not named
// for the start or for the idle time are of the load. The settled memory is the memory after the idle time.
func runKinds(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	of, err := w.Clients.defineKinds(ctx, v.N)
	if err != nil {
		return nil, err
	}
	if err := w.Judge.followKinds(ctx, of, v.N); err != nil {
		return nil, err
	}
	found, err := w.createKinds(ctx, of, "found", v.N, v.N)
	if err != nil {
		return nil, err
	}
	if err := w.Calm(ctx); err != nil { // Other controllers of the cluster begin to watch the new kinds, too.
		return nil, err
	}
	measured := rundir.Measured{}
	w.Samples = rundir.Samples{}
	ctx, err = w.startKinds(ctx, measured, v.N, found.names())
	if err != nil {
		return nil, err
	}
	win, err := w.open()
	if err != nil {
		return nil, err
	}
	answered, err := w.createKinds(ctx, of, "new", v.N, v.M)
	if err != nil {
		return nil, err
	}
	if err := w.convergeAndSettle(ctx, w.Judge.finished, "finished", v.M); err != nil {
		return nil, err
	}
	addLatencies(measured, w.Samples, w.Judge.finished, win.from, answered.of)
	if err := win.close(measured); err != nil {
		return nil, err
	}
	if err := w.Clients.checkConfigs(ctx, append(found.names(), answered.names()...)); err != nil {
		return nil, err
	}
	return measured, w.idleKinds(ctx, measured, v.Seconds)
}

// startKinds starts the contender and waits until it watches all kinds, has finished the objects that it finds,
// and is quiet. It adds the measurements of the start.
func (w *World) startKinds(ctx context.Context, measured rundir.Measured, n int, found []types.NamespacedName) (context.Context, error) {
	w.resources = []string{"configmaps"}
	for i := range n {
		w.resources = append(w.resources, manykinds.Plural(i))
	}
	ctx, err := w.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.convergeAndSettle(ctx, w.Judge.finished, "finished", n); err != nil {
		return nil, err
	}
	used, err := UsageOf(w.process.PID())
	if err != nil {
		return nil, &Failure{err}
	}
	record := w.Proxy.Record()
	addStart(measured, record, w.Exec)
	addExecReady(measured, w.Samples, w.Judge.finished, w.Exec, found)
	addWatches(measured, record, w.Exec)
	measured[rundir.StartCPU] = used.CPU.Seconds()
	measured[rundir.Connections] = float64(w.Proxy.Connections())
	return ctx, nil
}

// addWatches adds when the last resource was listed and watched, how many watches are open, and how many requests
// the contender has sent. All are since started.
func addWatches(measured rundir.Measured, record proxy.Record, started time.Time) {
	last := started
	for resource, at := range firstWatches(record, started) {
		if streamed := endOfList(record, resource, at); streamed.After(at) {
			at = streamed
		}
		if at.After(last) {
			last = at
		}
	}
	measured[rundir.Watched] = last.Sub(started).Seconds()
	measured[rundir.OpenWatches] = float64(len(record.Open))
	measured[rundir.StartCalls] = float64(requestsIn(record, started, time.Now()))
}

// endOfList returns when the list ended that a watch began with: at its first bookmark. Without such a list, the
// contender has listed before, and endOfList returns the zero time.
func endOfList(record proxy.Record, resource schema.GroupResource, opened time.Time) time.Time {
	begins := func(call proxy.Call) bool {
		return call.IsWatch() && call.Lists && resourceOf(call) == resource && call.At.Equal(opened)
	}
	if !slices.ContainsFunc(record.Calls, begins) && !slices.ContainsFunc(record.Open, begins) {
		return time.Time{}
	}
	at := slices.IndexFunc(record.Events, func(event proxy.Event) bool {
		return event.Type == "BOOKMARK" && event.Resource == resource.Resource && event.Group == resource.Group && !event.At.Before(opened)
	})
	if at < 0 {
		return time.Time{}
	}
	return record.Events[at].At
}

// idleKinds measures an idle time, and the memory after it.
func (w *World) idleKinds(ctx context.Context, measured rundir.Measured, seconds int) error {
	win, err := w.open()
	if err != nil {
		return err
	}
	if err := w.wait(ctx, "idle", win.from, seconds); err != nil {
		return err
	}
	settled, err := UsageOf(w.process.PID())
	if err != nil {
		return &Failure{err}
	}
	measured[rundir.SettledMemory] = float64(settled.Resident)
	return win.addRates(measured, rundir.IdleCPU, rundir.IdleCalls)
}

// createKinds creates count objects as fast as possible, spread over n kinds, and sets them as wanted. It returns
// the times at which the creations were answered. No two kinds have an object of one name.
func (w *World) createKinds(ctx context.Context, of *kindClient, prefix string, n, count int) (*times, error) {
	answered, done := newTimes(), counter{}
	err := asFastAsPossible(ctx, count, func(ctx context.Context, i int) error {
		name := object(prefix, i)
		w.Judge.finished.want(name, 1)
		if err := of.create(ctx, i%n, name); err != nil {
			return err
		}
		answered.set(name, time.Now())
		w.Progress("creating objects", done.next(), count)
		return nil
	})
	return answered, err
}

// checkConfigs returns a Failure if an object has no ConfigMap of its own, or one with wrong data. Nothing else
// checks the programs with many kinds.
func (c *Clients) checkConfigs(ctx context.Context, of []types.NamespacedName) error {
	listed, err := c.Core().CoreV1().ConfigMaps(Namespace).List(ctx, metav1.ListOptions{LabelSelector: managedBy})
	if err != nil {
		return fmt.Errorf("listing ConfigMaps: %w", err)
	}
	right := map[types.NamespacedName]bool{}
	for i := range listed.Items {
		right[nameOf(&listed.Items[i])] = isConfigOfKinds(&listed.Items[i])
	}
	for _, name := range of {
		if !right[name] {
			return &Failure{fmt.Errorf("%s is finished, but has no ConfigMap with its owner and its colour", name)}
		}
	}
	return nil
}

// isConfigOfKinds reports whether a ConfigMap has the data and the owner of an object of its name.
func isConfigOfKinds(config *corev1.ConfigMap) bool {
	owner := metav1.GetControllerOfNoCopy(config)
	if owner == nil || owner.Name != config.Name || owner.BlockOwnerDeletion == nil || !*owner.BlockOwnerDeletion {
		return false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version == manykinds.GroupVersion && config.Data["colour"] == colour
}
