package controller_test

import (
	"errors"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (d *desk) live(name string) *corev1.ConfigMap {
	d.t.Helper()
	live, err := d.others.CoreV1().ConfigMaps(d.namespace).Get(d.t.Context(), name, metav1.GetOptions{})
	d.must(err)
	return live
}

func (d *desk) apply(object *corev1.ConfigMap, options ...controller.WriteOption) error {
	_, err := controller.Apply[*corev1.ConfigMap](d.t.Context(), d.client, controller.ApplyConfigurationOf(object), options...)
	return err
}

func TestAnApplyThatCreatesOnlyLeavesAnObjectThatExistsAlone(t *testing.T) {
	d := newDesk(t)
	d.must(d.apply(d.config("mine", "red", "app", "web"), controller.CreateOnly()))
	d.wantSent("at the creation", "PATCH mine")
	if held, err := controller.Get[*corev1.ConfigMap](t.Context(), d.client, d.name("mine")); err != nil || held.Data["color"] != "red" {
		t.Errorf("the next read sees %v: %v", held, err)
	}
	_, err := d.others.CoreV1().ConfigMaps(d.namespace).Create(t.Context(), d.config("theirs", "blue"), metav1.CreateOptions{})
	d.must(err)
	for _, name := range []string{"mine", "theirs"} {
		before := d.live(name)
		for _, options := range [][]controller.WriteOption{{}, {controller.Force()}, {controller.DryRun()}} {
			if err := d.apply(d.config(name, "green"), append(options, controller.CreateOnly())...); !apierrors.IsAlreadyExists(err) {
				t.Errorf("the second creation of %s returns %v", name, err)
			}
		}
		if d.live(name).ResourceVersion != before.ResourceVersion {
			t.Errorf("%s was changed", name)
		}
	}
	d.must(d.apply(d.config("mine", "red")))
	if labels := d.live("mine").Labels; len(labels) > 0 {
		t.Errorf("a later apply does not remove the labels %v that it leaves out", labels)
	}
	d.must(d.apply(d.config("dry", "red"), controller.CreateOnly(), controller.DryRun()))
	if _, err := controller.GetLive[*corev1.ConfigMap](t.Context(), d.client, d.name("dry")); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry run a read returns %v", err)
	}
	misplaced := d.config("versioned", "red")
	misplaced.ResourceVersion = "7"
	if err := d.apply(misplaced, controller.CreateOnly()); err == nil || apierrors.IsAlreadyExists(err) {
		t.Errorf("a creation of an object with a version returns %v", err)
	}
}

func TestAnApplyTakesNoObjectOverThatItsControllerDidNotMake(t *testing.T) {
	d := newDesk(t)
	owner, other := d.create(d.config("owner", "red")), d.create(d.config("other", "red"))
	child := func(name, color string) *corev1.ConfigMap {
		made := d.config(name, color)
		d.must(controller.SetControllerReference(d.client, owner, made))
		return made
	}
	theirs := func(name string, of *corev1.ConfigMap) {
		made := d.config(name, "blue", "theirs", "yes")
		if of != nil {
			d.must(controller.SetControllerReference(d.client, of, made))
		}
		_, err := d.others.CoreV1().ConfigMaps(d.namespace).Create(t.Context(), made, metav1.CreateOptions{})
		d.must(err)
	}
	d.sent = nil
	d.must(d.apply(child("made", "red")))
	d.must(d.apply(child("made", "green")))
	d.wantSent("for an object of its own", "PATCH made", "PATCH made")

	theirs("free", nil)
	theirs("taken", other)
	for range 2 { // The cache may be late, and is not in the end.
		for name, want := range map[string]error{"free": controller.ErrUncontrolled, "taken": controller.ErrOtherController} {
			before := d.live(name)
			if err := d.apply(child(name, "red"), controller.Force()); !errors.Is(err, want) {
				t.Errorf("an apply to %s returns %v, want %v", name, err, want)
			}
			if d.live(name).ResourceVersion != before.ResourceVersion {
				t.Errorf("%s was changed", name)
			}
		}
		d.until("the cache has the objects", func() bool { return len(listed[*corev1.ConfigMap](d.client, controller.LabelSelector("theirs"))) == 2 })
	}
	if err := d.apply(child("taken", "red"), controller.Force(), controller.Adopt()); !errors.Is(err, controller.ErrOtherController) {
		t.Errorf("an apply that adopts takes it over from another: %v", err)
	}
	d.must(d.apply(child("free", "red"), controller.Force(), controller.Adopt()))
	if !metav1.IsControlledBy(d.live("free"), owner) {
		t.Error("an apply that adopts does not control the object")
	}

	// An object that has lost its owner is the controller's, because it applied it.
	released, err := d.others.CoreV1().ConfigMaps(d.namespace).Patch(t.Context(), "made", types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{})
	d.must(err)
	d.until("the cache has the release", func() bool {
		held, _ := cached[*corev1.ConfigMap](d.client, d.name("made"))
		return held.ResourceVersion == released.ResourceVersion
	})
	d.must(d.apply(child("made", "green")))
	if !metav1.IsControlledBy(d.live("made"), owner) {
		t.Error("the owner does not control its object again")
	}

	// The cache does not have jobs.
	job := func(name string) *batchv1.Job {
		made := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: name}}
		made.Spec.Suspend = new(true)
		made.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "none.invalid/none"}}}
		return made
	}
	_, err = d.others.BatchV1().Jobs(d.namespace).Create(t.Context(), job("free"), metav1.CreateOptions{})
	d.must(err)
	for name, want := range map[string]error{"made": nil, "free": controller.ErrUncontrolled} {
		for range 2 {
			owned := job(name)
			d.must(controller.SetControllerReference(d.client, owner, owned))
			if _, err := controller.Apply[*batchv1.Job](t.Context(), d.client, controller.ApplyConfigurationOf(owned)); !errors.Is(err, want) {
				t.Errorf("an apply to the job %s returns %v, want %v", name, err, want)
			}
		}
	}
}
