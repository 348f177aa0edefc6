package controller_test

import (
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
)

// applications is what an operator applies for one application.
type applications struct {
	d      *desk
	owner  *corev1.ConfigMap
	image  string
	labels map[string]string
}

func (a *applications) deployment() *applyappsv1.DeploymentApplyConfiguration {
	selected := map[string]string{"app": "web"}
	container := applycorev1.Container().WithName("server").WithImage(a.image).
		WithPorts(applycorev1.ContainerPort().WithContainerPort(80), applycorev1.ContainerPort().WithContainerPort(81).WithProtocol(corev1.ProtocolUDP)).
		WithEnv(applycorev1.EnvVar().WithName("COLOR").WithValue("red"), applycorev1.EnvVar().WithName("EMPTY").WithValue("")).
		WithReadinessProbe(applycorev1.Probe().WithHTTPGet(applycorev1.HTTPGetAction().WithPort(intstr.FromInt32(80)))).
		WithArgs("--serve", "--color")
	return applyappsv1.Deployment("web", a.d.namespace).WithLabels(a.labels).WithFinalizers("example.com/kept").
		WithOwnerReferences(applymetav1.OwnerReference().WithAPIVersion("v1").WithKind("ConfigMap").WithName(a.owner.Name).WithUID(a.owner.UID).WithController(true)).
		WithSpec(applyappsv1.DeploymentSpec().WithReplicas(0).WithPaused(false).WithSelector(applymetav1.LabelSelector().WithMatchLabels(selected)).
			WithTemplate(applycorev1.PodTemplateSpec().WithLabels(selected).WithSpec(applycorev1.PodSpec().WithContainers(container).
				WithVolumes(applycorev1.Volume().WithName("scratch").WithEmptyDir(applycorev1.EmptyDirVolumeSource())))))
}

// apply applies everything through a desk.
func (a *applications) apply(d *desk, options ...controller.WriteOption) {
	d.t.Helper()
	service := blank(serviceKind)
	service.SetNamespace(d.namespace)
	service.SetName("web")
	d.must(unstructured.SetNestedMap(service.Object, map[string]any{
		"clusterIP": "None", "selector": map[string]any{"app": "web"}, "ports": []any{map[string]any{"port": int64(80), "name": "http"}},
	}, "spec"))
	_, err := controller.Apply[*corev1.ConfigMap](d.t.Context(), d.client,
		applycorev1.ConfigMap("web", d.namespace).WithLabels(a.labels).WithData(map[string]string{"color": "red"}), options...)
	d.must(err)
	_, err = controller.Apply[*appsv1.Deployment](d.t.Context(), d.client, a.deployment(), options...)
	d.must(err)
	_, err = controller.Apply[*unstructured.Unstructured](d.t.Context(), d.client, controller.ApplyConfigurationOf(service), options...)
	d.must(err)
}

func newApplications(t *testing.T) *applications {
	d := newDesk(t)
	made := &applications{d: d, owner: d.create(d.config("owner", "red")), image: "example.invalid/server", labels: map[string]string{"app": "web", "tier": "front"}}
	d.wantSent("for the owner", "POST configmaps")
	made.apply(d)
	d.wantSent("at first", "PATCH web", "PATCH web", "PATCH web")
	return made
}

func TestAfterARestartAnApplyThatWouldChangeNothingIsNotSent(t *testing.T) {
	a := newApplications(t)
	later := newDeskIn(t, a.d.namespace)
	for range 2 {
		a.apply(later)
	}
	later.wantSent("after a restart")

	// What the configurations do not set may change afterwards.
	_, err := a.d.others.AppsV1().Deployments(a.d.namespace).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"seen":"yes"}}}`), metav1.PatchOptions{FieldManager: "somebody"})
	later.must(err)
	later.until("the cache has the annotation", func() bool {
		held, _ := cached[*appsv1.Deployment](later.client, later.name("web"))
		return held != nil && held.Annotations["seen"] == "yes" // Its version may be later: the Deployment's controller writes, too.
	})
	a.apply(later)
	later.wantSent("after a change of another annotation")
}

func TestAfterARestartAnApplyIsSentIfItMayChangeSomething(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(of *applications)
		drift   string // a merge patch of the Deployment by another client
		options []controller.WriteOption
		want    int
	}{
		"an image":                  {change: func(of *applications) { of.image = "example.invalid/other" }, want: 1},
		"a field less":              {change: func(of *applications) { of.labels = map[string]string{"app": "web"} }, want: 2},
		"a field more":              {change: func(of *applications) { of.labels = map[string]string{"app": "web", "tier": "front", "more": "yes"} }, want: 2},
		"another client's change":   {drift: `{"metadata":{"labels":{"tier":"back"}}}`, options: []controller.WriteOption{controller.Force()}, want: 1},
		"another client's deletion": {drift: `{"metadata":{"labels":{"tier":null}}}`, want: 1},
		"another field manager":     {options: []controller.WriteOption{controller.FieldManager("other"), controller.Force()}, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApplications(t)
			if test.drift != "" {
				_, err := a.d.others.AppsV1().Deployments(a.d.namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(test.drift), metav1.PatchOptions{FieldManager: "somebody"})
				a.d.must(err)
			}
			later, changed := newDeskIn(t, a.d.namespace), *a
			if test.change != nil {
				test.change(&changed)
			}
			changed.apply(later, test.options...)
			later.wantSent("after a restart", []string{"PATCH web", "PATCH web", "PATCH web"}[:test.want]...)
			live, err := a.d.others.AppsV1().Deployments(a.d.namespace).Get(t.Context(), "web", metav1.GetOptions{})
			a.d.must(err)
			if image := live.Spec.Template.Spec.Containers[0].Image; image != changed.image || len(live.Labels) != len(changed.labels) || live.Labels["tier"] != changed.labels["tier"] {
				t.Errorf("it ends with the image %s and the labels %v", image, live.Labels)
			}
		})
	}
}

func TestAnApplyThatReadsFirstIsSentOnlyIfItMayChangeSomething(t *testing.T) {
	d := newDesk(t)
	apply := func(verb string, options ...controller.WriteOption) *rbacv1.Role {
		t.Helper()
		answer, err := controller.Apply[*rbacv1.Role](t.Context(), d.client, applyrbacv1.Role("readers", d.namespace).
			WithRules(applyrbacv1.PolicyRule().WithAPIGroups("").WithResources("pods").WithVerbs(verb)), options...)
		d.must(err)
		return answer
	}
	first := apply("get", controller.ReadFirst())
	d.wantSent("where there is no object", "PATCH readers")
	if again := apply("get", controller.ReadFirst()); again.ResourceVersion != first.ResourceVersion || again.Rules[0].Verbs[0] != "get" {
		t.Errorf("it returns %v, want the object as it is", again)
	}
	d.wantSent("where it would change nothing")
	apply("get")
	d.wantSent("without the option, of a kind whose whole objects are not in the cache", "PATCH readers")
	apply("list", controller.ReadFirst())
	d.wantSent("with another rule", "PATCH readers")
	apply("list", controller.ReadFirst(), controller.FieldManager("other"), controller.Force())
	d.wantSent("with another field manager", "PATCH readers")
	_, err := d.others.RbacV1().Roles(d.namespace).Patch(t.Context(), "readers", types.MergePatchType,
		[]byte(`{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["watch"]}]}`), metav1.PatchOptions{FieldManager: "somebody"})
	d.must(err)
	if answer := apply("list", controller.ReadFirst(), controller.Force()); answer.Rules[0].Verbs[0] != "list" {
		t.Errorf("it returns %v", answer.Rules)
	}
	d.wantSent("after another client's change", "PATCH readers")
	if _, err := controller.Apply[*rbacv1.Role](t.Context(), d.client, applyrbacv1.Role("readers", d.namespace), controller.ReadFirst(), controller.CreateOnly()); err == nil {
		t.Error("ReadFirst is taken with CreateOnly, which never writes an object that exists")
	}
}
