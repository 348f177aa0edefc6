package controller_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
)

func TestASubresourceWithABodyOfItsOwnIsWrittenAndRead(t *testing.T) {
	d := newDesk(t)
	ctx := t.Context()
	account, err := controller.Create(ctx, d.client, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "account"}})
	d.must(err)
	token, err := controller.CreateSubresource(ctx, d.client, account, "token", &authenticationv1.TokenRequest{})
	if err != nil || strings.Count(token.Status.Token, ".") != 2 {
		t.Errorf("the token is no token: %v", err)
	}

	unbound := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "unbound"}, Spec: corev1.PodSpec{
		SchedulerName: "none", Containers: []corev1.Container{{Name: "c", Image: "none.invalid/none"}}, ServiceAccountName: "account",
	}}
	pod, err := controller.Create(ctx, d.client, unbound)
	d.must(err)
	binding, err := controller.CreateSubresource(ctx, d.client, pod, "binding", &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "nowhere"},
	})
	if err != nil || binding.Target.Name != "nowhere" {
		t.Errorf("the binding is %v: %v", binding, err)
	}
	if held, err := controller.Get[*corev1.Pod](ctx, d.client, d.name("unbound")); err != nil || held.Spec.NodeName != "nowhere" {
		t.Errorf("after the binding, the next read sees the node %q: %v", held.Spec.NodeName, err)
	}

	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "web"}}
	deployment.Spec.Replicas = new(int32)
	deployment.Spec.Selector = metav1.SetAsLabelSelector(map[string]string{"app": "web"})
	deployment.Spec.Template.Labels = map[string]string{"app": "web"}
	deployment.Spec.Template.Spec.Containers = unbound.Spec.Containers
	made, err := controller.Create(ctx, d.client, deployment)
	d.must(err)
	scale, err := controller.GetSubresource[*appsv1.Deployment, *autoscalingv1.Scale](ctx, d.client, d.name("web"), "scale")
	d.must(err)
	scale.Spec.Replicas, scale.ResourceVersion = 2, "" // The status of the Deployment changes meanwhile.
	scale, err = controller.UpdateSubresource(ctx, d.client, made, "scale", scale)
	if err != nil || scale.Spec.Replicas != 2 {
		t.Errorf("the scale is %v: %v", scale, err)
	}
	if held, err := controller.Get[*appsv1.Deployment](ctx, d.client, d.name("web")); err != nil || *held.Spec.Replicas != 2 {
		t.Errorf("the next read sees %d replicas: %v", *held.Spec.Replicas, err)
	}
}

func TestASubresourceThatCannotBeWrittenIsAnErrorThatSaysWhy(t *testing.T) {
	c, pod := client(t, silent), pod("x", "5")
	for want, err := range map[string]error{
		"the subresource log is a connection or a text": second(controller.CreateSubresource(t.Context(), c, pod, "log", pod)),
		`the subresource is ""`:                         second(controller.CreateSubresource(t.Context(), c, pod, "", pod)),
		`the subresource is "a/b"`:                      second(controller.GetSubresource[*corev1.Pod, *corev1.Pod](t.Context(), c, podX, "a/b")),
		"the body is nil":                               second(controller.UpdateSubresource(t.Context(), c, pod, "resize", (*corev1.Pod)(nil))),
		"name it in For, Owns, Watches or Uses":         second(controller.CreateSubresource(t.Context(), c, &corev1.Secret{}, "x", pod)),
		"Force does not apply to this write":            second(controller.CreateSubresource(t.Context(), c, pod, "x", pod, controller.Force())),
		"give a pointer to a type of the API":           second(controller.GetSubresource[*corev1.Pod, runtime.Object](t.Context(), c, podX, "scale")),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
	api, _ := answering(t, func() *http.Response { return says(http.StatusOK, "nonsense") })
	if _, err := controller.CreateSubresource(t.Context(), client(t, api), pod, "x", pod); err == nil || !strings.Contains(err.Error(), "is there a proxy") {
		t.Errorf("for an answer that is no object the error is %v", err)
	}
}

// Another client writes what the reconciler records.
func TestAWriteOfAnotherClientThatIsRecordedIsReadAtOnceAndIsNoForeignEvent(t *testing.T) {
	late := sourcestest.Fault{Action: sourcestest.Delay, Type: "MODIFIED", For: time.Minute, Times: sourcestest.Always}
	for name, test := range map[string]struct {
		records  bool
		before   func(config *corev1.ConfigMap, answer *corev1.ConfigMap) string
		attempts int
	}{
		"a write on a condition":      {true, func(config, _ *corev1.ConfigMap) string { return config.ResourceVersion }, 1},
		"a write without a condition": {true, func(_, answer *corev1.ConfigMap) string { return answer.ResourceVersion }, 2},
		"no record":                   {false, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inLevelWorld(t, sourcestest.Options{Script: []sourcestest.Fault{late}}, controller.Options{}, func(w *levelWorld) {
				w.create("x")
				others, err := kubernetes.NewForConfig(w.server.Config())
				w.must(err)
				attempts, seen := 0, ""
				w.must(w.manager.Add("configs", func(ctx context.Context, request operators.Request) (time.Duration, error) {
					c := w.manager.Client()
					held, err := controller.Get[*corev1.ConfigMap](ctx, c, request.NamespacedName)
					if attempts++; err != nil || held.Data["done"] == "yes" {
						return 0, err
					}
					changed := held.DeepCopy()
					changed.Data = map[string]string{"done": "yes"}
					answer, err := others.CoreV1().ConfigMaps("a").Update(ctx, changed, metav1.UpdateOptions{})
					if err != nil || !test.records {
						return 0, err
					}
					if err := controller.RecordWrite(ctx, c, "update", answer, test.before(held, answer)); err != nil {
						return 0, err
					}
					answer.Data["done"] = "changed by the caller, whose object it is"
					held, err = controller.Get[*corev1.ConfigMap](ctx, c, request.NamespacedName)
					seen = held.Data["done"]
					return 0, err
				}, controller.For(&corev1.ConfigMap{}), controller.IgnoreEchoes()))
				var writes []operators.Write
				w.group.Go("results", func(ctx context.Context) error {
					return streams.ForEach(ctx, w.manager.Results(), func(results []operators.Result) {
						for _, result := range results {
							writes = append(writes, result.Writes...)
						}
					}, func(error) {})
				})
				synctest.Wait() // The results are followed.
				w.run()
				w.wait(10 * time.Minute)
				if test.records != (seen == "yes") || attempts != test.attempts {
					t.Errorf("the next read sees %q, and there were %d attempts, want %d", seen, attempts, test.attempts)
				}
				recorded := slices.ContainsFunc(writes, func(write operators.Write) bool { return write.Verb == "update" && write.Key.Name == "x" })
				if recorded != test.records {
					t.Errorf("the results have the writes %v", writes)
				}
			})
		})
	}
}
