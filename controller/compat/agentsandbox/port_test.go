package main

import (
	"flag"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/compat/internal/porttest"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	sandboxes "sigs.k8s.io/agent-sandbox/api/v1alpha1"
	extensions "sigs.k8s.io/agent-sandbox/extensions/api/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestMain(m *testing.M) { porttest.Main(m, ctrl.Options{Scheme: scheme.Scheme}, setUp) }

var load = flag.Int("load", 5, "the number of sandboxes of each form, and of claims of each form")

// pooled is the number of pods that the warm pool keeps ready.
const pooled = 3

// field is a place where sandboxes run.
type field struct{ *porttest.Field }

func newField(t *testing.T) field {
	t.Helper()
	f := field{porttest.NewField(t)}
	f.Patience = time.Duration(*load) * 10 * time.Second
	f.State = []client.ObjectList{
		&sandboxes.SandboxList{}, &extensions.SandboxClaimList{}, &extensions.SandboxWarmPoolList{},
		&corev1.ServiceList{}, &networkingv1.NetworkPolicyList{},
	}
	f.Cleared = []client.Object{
		&extensions.SandboxClaim{}, &extensions.SandboxWarmPool{}, &extensions.SandboxTemplate{}, &sandboxes.Sandbox{},
		&corev1.Service{}, &networkingv1.NetworkPolicy{}, &corev1.Pod{},
	}
	f.Unequal = regexp.MustCompile(`warm-[a-z0-9]{5}\b`) // Names of pods of the pool are random, also after a claim has adopted the pod.
	f.Install("sigs.k8s.io/agent-sandbox", "k8s/crds/*.yaml",
		&sandboxes.SandboxList{}, &extensions.SandboxClaimList{}, &extensions.SandboxTemplateList{}, &extensions.SandboxWarmPoolList{})
	return f
}

func (f field) named(form string, number int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: f.Namespace, Name: fmt.Sprintf("%s-%d", form, number), Labels: map[string]string{"form": form}}
}

func (f field) create(objects ...client.Object) {
	f.T.Helper()
	for _, object := range objects {
		f.Must(f.Client.Create(f.T.Context(), object))
	}
}

// pods returns the template of the pods of all forms.
func pods() sandboxes.PodTemplate {
	return sandboxes.PodTemplate{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "one", Image: "one"}}}}
}

// work takes sandboxes and claims through their lives: some run, some are paused and resumed, some expire, some claims
// get a pod of the warm pool, some a new one, and some name a template that comes late.
func (f field) work() {
	cold := &extensions.SandboxTemplate{ObjectMeta: f.named("cold", 0), Spec: extensions.SandboxTemplateSpec{PodTemplate: pods()}}
	warm := &extensions.SandboxTemplate{ObjectMeta: f.named("warm", 0), Spec: extensions.SandboxTemplateSpec{PodTemplate: pods()}}
	pool := &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "warm"}}
	pool.Spec = extensions.SandboxWarmPoolSpec{Replicas: pooled, TemplateRef: extensions.SandboxTemplateRef{Name: warm.Name}}
	f.create(cold, warm, pool)
	f.Wait("the warm pool does not fill", f.poolIsFull)
	expired := metav1.NewTime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	var paused []*sandboxes.Sandbox
	for i := range *load {
		plain := &sandboxes.Sandbox{ObjectMeta: f.named("plain", i), Spec: sandboxes.SandboxSpec{PodTemplate: pods()}}
		resumed := &sandboxes.Sandbox{ObjectMeta: f.named("resumed", i), Spec: sandboxes.SandboxSpec{PodTemplate: pods(), Replicas: new(int32(0))}}
		ended := &sandboxes.Sandbox{ObjectMeta: f.named("expired", i), Spec: sandboxes.SandboxSpec{PodTemplate: pods()}}
		ended.Spec.ShutdownTime = &expired
		paused = append(paused, resumed)
		f.create(plain, resumed, ended,
			&extensions.SandboxClaim{ObjectMeta: f.named("claims-cold", i), Spec: extensions.SandboxClaimSpec{TemplateRef: extensions.SandboxTemplateRef{Name: cold.Name}}},
			&extensions.SandboxClaim{ObjectMeta: f.named("claims-late", i), Spec: extensions.SandboxClaimSpec{TemplateRef: extensions.SandboxTemplateRef{Name: "late-0"}}})
	}
	// One after the other: how many of several claims at once get a pod of the pool depends on the speed.
	for i := range *load {
		f.create(&extensions.SandboxClaim{ObjectMeta: f.named("claims-warm", i), Spec: extensions.SandboxClaimSpec{TemplateRef: extensions.SandboxTemplateRef{Name: warm.Name}}})
		f.Wait("a claim gets no sandbox", f.isReady(fmt.Sprintf("claims-warm-%d", i)))
		f.Wait("the warm pool does not fill again", f.poolIsFull)
	}
	f.Wait("sandboxes do not get ready", f.ended)
	for _, each := range paused {
		f.Must(f.Client.Patch(f.T.Context(), each, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`))))
	}
	f.create(&extensions.SandboxTemplate{ObjectMeta: f.named("late", 0), Spec: extensions.SandboxTemplateSpec{PodTemplate: pods()}})
	for i := range *load { // Agent Sandbox does not watch templates: a claim looks again when it changes.
		claim := &extensions.SandboxClaim{ObjectMeta: f.named("claims-late", i)}
		f.Must(f.Client.Patch(f.T.Context(), claim, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"look":"again"}}}`))))
		f.Wait("a claim gets no sandbox", f.isReady(claim.Name))
	}
	f.Wait("resumed sandboxes do not get ready", f.resumed)
	f.Wait("sandboxes do not get ready", f.ended)
}

// poolIsFull reports whether the warm pool has its pods.
func (f field) poolIsFull() (bool, string) {
	pool := &extensions.SandboxWarmPool{}
	f.Must(f.Client.Get(f.T.Context(), types.NamespacedName{Namespace: f.Namespace, Name: "warm"}, pool))
	return pool.Status.Replicas == pooled, fmt.Sprint(pool.Status)
}

// isReady returns a condition that holds when the claim of a name is ready.
func (f field) isReady(name string) func() (bool, string) {
	return func() (bool, string) {
		claim := &extensions.SandboxClaim{}
		f.Must(f.Client.Get(f.T.Context(), types.NamespacedName{Namespace: f.Namespace, Name: name}, claim))
		return meta.IsStatusConditionTrue(claim.Status.Conditions, "Ready"), fmt.Sprint(name, claim.Status)
	}
}

// resumed reports whether all sandboxes that were paused have their pods.
func (f field) resumed() (bool, string) {
	list := &sandboxes.SandboxList{}
	f.Must(f.Client.List(f.T.Context(), list, client.InNamespace(f.Namespace), client.MatchingLabels{"form": "resumed"}))
	for i := range list.Items {
		if list.Items[i].Status.Replicas != 1 {
			return false, fmt.Sprint(list.Items[i].Name, list.Items[i].Status)
		}
	}
	return len(list.Items) == *load, fmt.Sprint(len(list.Items), " sandboxes")
}

// ended reports whether each sandbox is ready, or expired, as its form asks for.
func (f field) ended() (bool, string) {
	list := &sandboxes.SandboxList{}
	f.Must(f.Client.List(f.T.Context(), list, client.InNamespace(f.Namespace)))
	for i := range list.Items {
		each := &list.Items[i]
		ready := meta.FindStatusCondition(each.Status.Conditions, "Ready")
		if ready == nil || (ready.Status == metav1.ConditionTrue) == (each.Labels["form"] == "expired") {
			return false, fmt.Sprint(each.Name, each.Status)
		}
	}
	return true, ""
}

// TestTheOperatorEndsInTheSameStateOnBothRuntimes runs the same load on both, and prints what each costs.
func TestTheOperatorEndsInTheSameStateOnBothRuntimes(t *testing.T) {
	f := newField(t)
	objects := f.Compare(f.work)
	// A sandbox for each form of it and for each claim, with a Service unless it has expired, the claims, and the pool.
	if want := *load*(6+5+3) + 1; objects != want {
		t.Errorf("there are %d objects, want %d", objects, want)
	}
}

func TestARecordingOfTheOperatorIsReplayedAndDecidesTheSame(t *testing.T) {
	f := newField(t)
	replayed := f.Replay(f.work, ctrl.Options{Scheme: scheme.Scheme}, setUp)
	if want := *load * 6; replayed.Attempts < want { // Each sandbox and each claim has at least one attempt.
		t.Errorf("the replay has %d attempts, want at least %d", replayed.Attempts, want)
	}
}
