package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

var creationChecks = []check{
	{"1.1", "An object gets its children, field by field, and its finished status", ofAll, recorded(createsChildren)},
	{"1.2", "At most one write for each child, one or two of the status, no others", ofAll, createsWithFewWrites},
	{"1.3", "Zero servers have their own finished status", ofAll, createsZero},
	{"1.4", "The API server's defaults count", ofAll, createsDefaults},
	{"1.5", "Twenty objects at once: still one write for each child", ofAll, createsBurst},
	{"1.6", "A progressing status that lasts is written", ofOperators, recorded(writesProgress)},
	{"1.7", "Sixty objects at once: each gets its progressing status", ofOperators, writesProgressOfEach},
}

// createsChildren waits for the last write, so that the history also has what follows the finished
// status.
func createsChildren(ctx context.Context, t *trial) error {
	_, err := t.settled(ctx, "pegasus", 3)
	return err
}

func createsWithFewWrites(ctx context.Context, t *trial) error {
	mark := t.proxy.mark()
	if _, err := t.settled(ctx, "pegasus", 2); err != nil {
		return err
	}
	writes, refused := t.accepted(mark)
	counted := counts(writes)
	var wrong []error
	for _, child := range children {
		if counted[child.Resource] != 1 {
			wrong = append(wrong, fmt.Errorf("%d writes of %s, want 1", counted[child.Resource], child.Resource))
		}
	}
	if status := counted["sheroes/status"]; status < 1 || status > 2 {
		wrong = append(wrong, fmt.Errorf("%d writes of the status, want 1 or 2", status))
	}
	if len(wrong) == 0 && len(writes) != len(children)+counted["sheroes/status"] {
		wrong = append(wrong, errors.New("there are writes to other resources"))
	}
	if len(wrong) > 0 {
		for i := range writes {
			wrong = append(wrong, errors.New(writes[i].String()))
		}
	}
	t.noteEvents(mark)
	t.note("%d writes of the status, and %d writes that were refused", counted["sheroes/status"], refused)
	return errors.Join(wrong...)
}

func createsZero(ctx context.Context, t *trial) error {
	_, err := t.finished(ctx, "pegasus", 0)
	return err
}

func createsDefaults(ctx context.Context, t *trial) error {
	hero := t.hero("pegasus", 1)
	hero.Spec = v1.BellerophonSimpleSpec{}
	hero, err := t.create(ctx, hero)
	if err != nil {
		return err
	}
	_, err = t.awaitAll(ctx, hero)
	return err
}

func createsBurst(ctx context.Context, t *trial) error {
	const objects = 20
	mark, began := t.proxy.mark(), time.Now()
	heroes, err := t.createAll(ctx, slices.Repeat([]int32{1}, objects)...)
	if err != nil {
		return err
	}
	for _, hero := range heroes {
		if _, err := t.awaitFinished(ctx, hero); err != nil {
			return err
		}
	}
	took := time.Since(began)
	for _, hero := range heroes {
		if err := t.awaitChildren(ctx, hero); err != nil {
			return err
		}
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	writes, refused := t.accepted(mark)
	counted := counts(writes)
	t.note("%d objects in %.1f s, with %.2f status writes each, and %d writes that were refused", objects, took.Seconds(),
		float64(counted["sheroes/status"])/objects, refused)
	var wrong []error
	for _, child := range children {
		if counted[child.Resource] != objects {
			wrong = append(wrong, fmt.Errorf("%d writes of %s for %d objects, want one each", counted[child.Resource], child.Resource, objects))
		}
	}
	return errors.Join(wrong...)
}

// writesProgress holds servers back by a quota. For the first seconds that does not count as a
// failure of the servers.
func writesProgress(ctx context.Context, t *trial) error {
	if err := t.limitPods(ctx, 1); err != nil {
		return err
	}
	hero, err := t.create(ctx, t.hero("pegasus", 3))
	if err != nil {
		return err
	}
	_, err = t.await(ctx, sheroes, t.namespace, "pegasus", func(object *unstructured.Unstructured) error {
		is, err := typed(object)
		if err != nil {
			return err
		}
		found, err := t.get(ctx, statefulSets, "pegasus")
		if err != nil {
			return err
		}
		servers := &appsv1.StatefulSet{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, servers); err != nil {
			return err
		}
		return progressing.check(is, servers.Status.Replicas, servers.Status.ReadyReplicas)
	})
	if err != nil {
		return fmt.Errorf("with one of three servers: %w", err)
	}
	if err := t.core.CoreV1().ResourceQuotas(t.namespace).Delete(ctx, "pods", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("lift the limit of the pods: %w", err)
	}
	_, err = t.awaitAll(ctx, hero)
	return err
}

// writesProgressOfEach finds a contender that writes fewer progressing statuses per object the
// more objects there are. It watches from before the first object: on a slow machine, a contender may say that
// an object is degraded before the last one is created.
func writesProgressOfEach(ctx context.Context, t *trial) error {
	const objects, patience = 60, 30 * time.Second
	if err := t.limitPods(ctx, 0); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher, err := t.any.Resource(sheroes).Namespace(t.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch the objects: %w", err)
	}
	defer watcher.Stop()
	heroes, err := t.createAll(ctx, slices.Repeat([]int32{1}, objects)...)
	if err != nil {
		return err
	}
	defer time.AfterFunc(patience, cancel).Stop()
	wrong := map[string]error{}
	for _, hero := range heroes {
		wrong[hero.Name] = errors.New("it has no status")
	}
	late := func() error {
		name := slices.Min(slices.Collect(maps.Keys(wrong)))
		return fmt.Errorf("%v after the last of %d was created, %d have not been progressing; %s: %w", patience, objects, len(wrong), name, wrong[name])
	}
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		switch {
		case ctx.Err() != nil: // The end of the patience ends the watch, with or without an error.
			return late()
		case !ok || event.Type == watch.Error:
			return fmt.Errorf("watch the objects: %v", event.Object)
		}
		if _, missing := wrong[object.GetName()]; !missing {
			continue
		}
		is, err := typed(object)
		if err != nil {
			return err
		}
		if err := progressing.check(is, 0, 0); err != nil {
			wrong[object.GetName()] = err
			continue
		}
		if delete(wrong, object.GetName()); len(wrong) == 0 {
			return nil
		}
	}
	return late()
}

// limitPods limits the number of pods in the namespace.
func (t *trial) limitPods(ctx context.Context, most int64) error {
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(most, resource.DecimalSI)}},
	}
	if _, err := t.core.CoreV1().ResourceQuotas(t.namespace).Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("limit the pods: %w", err)
	}
	return nil
}
