package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
)

var driftChecks = []check{
	{"3.1", "A change of each owned field is undone", ofOperators, undoesDrift},
	{"3.2", "Additions by others stay, and cause no write", ofOperators, leavesAdditions},
	{"3.3", "Additions by others survive a repair and a change", ofOperators, keepsAdditions},
	{"3.4", "A child that is deleted is created again", ofOperators, recreates},
	{"3.5", "A list item that is renamed or moved is restored", ofOperators, undoesRenames},
	{"3.6", "A change of a list item's key that leaves no room for the item is undone", ofNone, undoesKeyDrift},
}

// undone makes a drift, and waits until as accepts the child.
func (t *trial) undone(ctx context.Context, name string, d drift, as func(was, is *unstructured.Unstructured) error) error {
	was, err := t.get(ctx, d.resource(), name)
	if err != nil {
		return err
	}
	if err := t.drift(ctx, name, d); err != nil {
		return err
	}
	_, err = t.await(ctx, d.resource(), t.namespace, name, func(is *unstructured.Unstructured) error {
		if is == nil {
			return errors.New("it does not exist")
		}
		return as(was, is)
	})
	if err != nil {
		return fmt.Errorf("%s is not undone: %w", d.field, err)
	}
	return nil
}

// restore writes the previous content of an object, because the process did not repair it.
func (t *trial) restore(ctx context.Context, resource schema.GroupVersionResource, was *unstructured.Unstructured) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		is, err := t.get(ctx, resource, was.GetName())
		if err != nil {
			return err
		}
		was.SetResourceVersion(is.GetResourceVersion())
		_, err = t.any.Resource(resource).Namespace(t.namespace).Update(ctx, was, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("undo the drift of %s %s: %w", resource.Resource, was.GetName(), err)
	}
	return nil
}

// allUndone makes one drift after the other. It restores a drift that the process does not undo,
// so that the drift does not affect the next ones.
func (t *trial) allUndone(ctx context.Context, name string) error {
	var wrong []error
	for _, d := range drifts {
		was, err := t.get(ctx, d.resource(), name)
		if err != nil {
			return err
		}
		err = t.undone(ctx, name, d, same)
		if err == nil {
			continue
		}
		if wrong = append(wrong, err); len(wrong) == mostWrong {
			return errors.Join(append(wrong, errors.New("any remaining drifts were not tried"))...)
		}
		if err := t.restore(ctx, d.resource(), was); err != nil {
			return errors.Join(append(wrong, err)...)
		}
	}
	return errors.Join(wrong...)
}

// mostWrong is the number of drifts without a repair after which a check gives up. Each of them
// takes the full Options.Patience.
const mostWrong = 5

func undoesDrift(ctx context.Context, t *trial) error {
	hero, err := t.settled(ctx, "pegasus", 1)
	if err != nil {
		return err
	}
	mark := t.proxy.mark()
	if err := t.allUndone(ctx, "pegasus"); err != nil {
		return err
	}
	if _, err := t.awaitAll(ctx, hero); err != nil {
		return err
	}
	writes, refused := t.accepted(mark)
	counted := counts(writes)
	t.note("%d drifts were undone with %d writes of children, and %d writes that were refused", len(drifts),
		counted["configmaps"]+counted["services"]+counted["statefulsets"], refused)
	t.noteEvents(mark)
	return nil
}

func undoesRenames(ctx context.Context, t *trial) error { return t.eachUndone(ctx, renames) }

func undoesKeyDrift(ctx context.Context, t *trial) error { return t.eachUndone(ctx, keyDrifts) }

// eachUndone makes drifts of lists, and waits until the contender's item is restored. Each drift
// has its own object, because a drift that is not undone affects others. All drifts are awaited
// at once, because each one that is not undone takes the full Options.Patience.
func (t *trial) eachUndone(ctx context.Context, drifts []drift) error {
	name := func(i int) string { return fmt.Sprintf("pegasus-%d", i) }
	for i := range drifts {
		if _, err := t.finished(ctx, name(i), 1); err != nil {
			return err
		}
	}
	wrong := make([]error, len(drifts))
	group := lifecycle.New(ctx)
	for i, d := range drifts {
		group.Go(d.String(), func(ctx context.Context) error {
			wrong[i] = t.undone(ctx, name(i), d, has)
			return nil
		})
	}
	return errors.Join(append(wrong, group.Wait())...)
}

// additions lists additions by others to the children. They contain no field that the contender
// owns.
var additions = []drift{
	{field: "labels, annotations and data", config: func(c *corev1.ConfigMap) {
		decorate(c)
		c.Data["theirs"] = "added"
	}},
	{field: "labels, annotations, a port and an affinity", service: func(s *corev1.Service) {
		decorate(s)
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "theirs", Port: 9, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(9)})
	}},
	{field: "labels, annotations, a container, a volume, variables and settings", servers: func(s *appsv1.StatefulSet) {
		decorate(s)
		pods := &s.Spec.Template
		pods.Labels["theirs"], pods.Annotations["theirs"] = "added", "added"
		s.Spec.RevisionHistoryLimit = new(int32(3))
		pods.Spec.TerminationGracePeriodSeconds = new(int64(7))
		server(s).Env = []corev1.EnvVar{{Name: "THEIRS", Value: "added"}}
		server(s).VolumeMounts = append(server(s).VolumeMounts, corev1.VolumeMount{Name: "theirs", MountPath: "/theirs"})
		pods.Spec.Volumes = append(pods.Spec.Volumes, corev1.Volume{Name: "theirs", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		pods.Spec.Containers = append(pods.Spec.Containers, corev1.Container{Name: "theirs", Image: "theirs"})
	}},
}

func decorate(object metav1.Object) {
	labels := object.GetLabels()
	labels["theirs"] = "added"
	object.SetLabels(labels)
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["theirs"] = "added"
	object.SetAnnotations(annotations)
	object.SetFinalizers(append(object.GetFinalizers(), "example.com/theirs"))
}

// undecorate removes the finalizers, which would keep the namespace forever.
func (t *trial) undecorate(ctx context.Context, name string) error {
	var errs []error
	for _, child := range children {
		_, err := t.patch(ctx, child, name, `{"metadata":{"finalizers":null}}`)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// add makes the additions, and returns the resulting children.
func (t *trial) add(ctx context.Context, name string) ([]*unstructured.Unstructured, error) {
	added := make([]*unstructured.Unstructured, len(additions))
	for i, d := range additions {
		if err := t.drift(ctx, name, d); err != nil {
			return nil, err
		}
		var err error
		if added[i], err = t.get(ctx, d.resource(), name); err != nil {
			return nil, err
		}
	}
	return added, nil
}

func leavesAdditions(ctx context.Context, t *trial) (err error) {
	hero, err := t.settled(ctx, "pegasus", 1)
	if err != nil {
		return err
	}
	mark := t.proxy.mark()
	added, err := t.add(ctx, "pegasus")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.undecorate(ctx, "pegasus")) }()
	if _, err := t.awaitFinished(ctx, hero); err != nil {
		return err
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	for _, write := range t.writes(mark) {
		if write.what() != "sheroes/status" { // The servers roll out, and the status may show that.
			return fmt.Errorf("others added fields, and the process wrote: %v", &write)
		}
	}
	return t.areStill(ctx, "pegasus", added)
}

// areStill returns an error if a child has lost something.
func (t *trial) areStill(ctx context.Context, name string, were []*unstructured.Unstructured) error {
	for i, child := range children {
		is, err := t.get(ctx, child, name)
		if err != nil {
			return err
		}
		if err := same(were[i], is); err != nil {
			return fmt.Errorf("%s: %w", child.Resource, err)
		}
		if is.GetAnnotations()["theirs"] != "added" {
			return fmt.Errorf("%s: the annotation of another client is gone", child.Resource)
		}
	}
	return nil
}

func keepsAdditions(ctx context.Context, t *trial) (err error) {
	hero, err := t.settled(ctx, "pegasus", 1)
	if err != nil {
		return err
	}
	added, err := t.add(ctx, "pegasus")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.undecorate(ctx, "pegasus")) }()
	if err := t.allUndone(ctx, "pegasus"); err != nil {
		return err
	}
	if _, err := t.awaitFinished(ctx, hero); err != nil {
		return err
	}
	if err := t.areStill(ctx, "pegasus", added); err != nil {
		return fmt.Errorf("after the repairs: %w", err)
	}
	// A change of every field of the spec, and back, leads to the original state.
	for _, spec := range []string{
		`{"replicas":2,"image":"bellerophon-io/bellerophon-server:v2","winged_horse_name":"tulpar"}`,
		fmt.Sprintf(`{"replicas":1,"image":%q,"winged_horse_name":%q}`, hero.Spec.Image, hero.Spec.WingedHorseName),
	} {
		if hero, err = t.change(ctx, "pegasus", spec); err != nil {
			return err
		}
		if _, err := t.awaitFinished(ctx, hero); err != nil {
			return fmt.Errorf("after %s: %w", spec, err)
		}
	}
	if err := t.areStill(ctx, "pegasus", added); err != nil {
		return fmt.Errorf("after the changes: %w", err)
	}
	return nil
}

func recreates(ctx context.Context, t *trial) error {
	hero, err := t.settled(ctx, "pegasus", 2)
	if err != nil {
		return err
	}
	recreated := func(were ...*unstructured.Unstructured) error {
		for i, child := range children {
			if were[i] == nil {
				continue
			}
			if err := t.remove(ctx, child, "pegasus", metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		for i, child := range children {
			if were[i] == nil {
				continue
			}
			_, err := t.await(ctx, child, t.namespace, "pegasus", func(is *unstructured.Unstructured) error {
				if is == nil || is.GetUID() == were[i].GetUID() {
					return errors.New("it is not created again")
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		_, err := t.awaitAll(ctx, hero)
		return err
	}
	for i, child := range children {
		were := make([]*unstructured.Unstructured, len(children))
		if were[i], err = t.get(ctx, child, "pegasus"); err != nil {
			return err
		}
		if err := recreated(were...); err != nil {
			return err
		}
	}
	were := make([]*unstructured.Unstructured, len(children))
	for i, child := range children {
		if were[i], err = t.get(ctx, child, "pegasus"); err != nil {
			return err
		}
	}
	return recreated(were...)
}
