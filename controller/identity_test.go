package controller_test

import (
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
)

func keepNothing(streams.Object) {}

// keeper returns a function that removes a label.
func keeper(label string) func(streams.Object) {
	return func(object streams.Object) { delete(object.GetLabels(), label) }
}

// projector returns a function that projects every pod to the same phase.
func projector(is corev1.PodPhase) func(*corev1.Pod) *phase {
	return func(*corev1.Pod) *phase { return &phase{is: is} }
}

type keeping struct{ label string }

func (k *keeping) keep(object streams.Object) { delete(object.GetLabels(), k.label) }

// Both controllers read the same cache. With other options, the second one would read what the
// options of the first one keep.
func TestTwoControllersOfAKindKeepTheSameOfIt(t *testing.T) {
	red, blue := keeper("red"), keeper("blue")
	running, failed := projector(corev1.PodRunning), projector(corev1.PodFailed)
	method := (&keeping{"red"}).keep
	whole := func(options ...controller.InputOption) controller.Option {
		return controller.For(&corev1.Pod{}, options...)
	}
	small := func(options ...controller.InputOption) controller.Option { return controller.For(&phase{}, options...) }
	const ways = " everywhere, or run the controllers in two managers"
	function := func(option string) string {
		return option + " is not the same function value; give it the same " + option +
			" everywhere (a closure or a method value from one variable), or run the controllers in two managers"
	}
	for name, test := range map[string]struct {
		one, other controller.Option
		want       string // "" is none
	}{
		"one function":                 {whole(controller.Transform(keepNothing)), whole(controller.Transform(keepNothing)), ""},
		"one closure":                  {whole(controller.Transform(red)), whole(controller.Transform(red)), ""},
		"two closures of one function": {whole(controller.Transform(red)), whole(controller.Transform(blue)), function("Transform")},
		"two functions":                {whole(controller.Transform(keepNothing)), whole(controller.Transform(red)), function("Transform")},
		"Transform and none":           {whole(controller.Transform(red)), whole(), function("Transform")},
		"none and Transform":           {whole(), whole(controller.Transform(red)), function("Transform")},
		"one method value":             {whole(controller.Transform(method)), whole(controller.Transform(method)), ""},
		"one projection":               {small(controller.Project(phaseOf)), small(controller.Project(phaseOf)), ""},
		"one closure that projects":    {small(controller.Project(running)), small(controller.Project(running)), ""},
		"two closures that project":    {small(controller.Project(running)), small(controller.Project(failed)), function("Project")},
		"two projections":              {small(controller.Project(phaseOf)), small(controller.Project(failed)), function("Project")},
		"a projection and one by its fields": {
			controller.For(&phaseJSON{}, controller.Project(func(*corev1.Pod) *phaseJSON { return &phaseJSON{} })),
			controller.For(&phaseJSON{}, controller.OfKind(podKind)), function("Project"),
		},
		"two label selectors":                 {whole(controller.LabelSelector("a")), whole(controller.LabelSelector("b")), `LabelSelector is "a" elsewhere and "b" here; give it the same LabelSelector` + ways},
		"a field selector and none":           {whole(controller.FieldSelector("spec.nodeName=a")), whole(), `FieldSelector is "spec.nodeName=a" elsewhere and "" here; give it the same FieldSelector` + ways},
		"of the cluster and of its namespace": {whole(controller.ClusterScoped()), whole(), "ClusterScoped is given in one place only; give it everywhere or nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			m := manager(t, silent, controller.Options{})
			if err := m.Add("one", nothing, test.one); err != nil {
				t.Fatal(err)
			}
			err := m.Add("other", nothing, test.other)
			if test.want == "" && err != nil || test.want != "" &&
				(err == nil || err.Error() != `adding controller "other": Pod is watched twice, with different options: `+test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}
