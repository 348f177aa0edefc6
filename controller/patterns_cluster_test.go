package controller_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// riders is a controller on the real API server. It keeps a Deployment for each ConfigMap, with one image.
type riders struct {
	t         *testing.T
	client    kubernetes.Interface
	namespace string
	manager   *controller.Manager
}

// creators is how many requests create objects at once.
const creators = 8

const riderImage = "example.org/rider:v1"

func deploymentOf(horse *corev1.ConfigMap) *appsv1.Deployment {
	labels := map[string]string{"horse": horse.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: horse.Namespace, Name: horse.Name, OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(horse, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
		}},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "rider", Image: riderImage, Command: []string{horse.Data["command"]}}}},
		}},
	}
}

// newRiders starts the controller when a number of objects exist.
func newRiders(t *testing.T, existing int) *riders {
	t.Helper()
	config := clustertest.Shared(t).AdminConfig()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	r := &riders{t: t, client: client, namespace: clustertest.Namespace(t)}
	r.manager, err = controller.NewManager(config, scheme.Scheme, controller.Options{Namespaces: []string{r.namespace}, MetricsAddress: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	c := r.manager.Client()
	reconcile := func(ctx context.Context, horse *corev1.ConfigMap) (controller.Result, error) {
		wanted := deploymentOf(horse)
		held, err := controller.Get[*appsv1.Deployment](ctx, c, types.NamespacedName{Namespace: horse.Namespace, Name: horse.Name})
		if err == nil {
			container := held.Spec.Template.Spec.Containers[0]
			if container.Image == riderImage && container.Command[0] == horse.Data["command"] {
				return controller.Result{}, nil
			}
		} else if controller.IgnoreNotFound(err) != nil {
			return controller.Result{}, err
		}
		_, err = controller.Apply[*appsv1.Deployment](ctx, c, controller.ApplyConfigurationOf(wanted), controller.Force())
		return controller.Result{}, err
	}
	selected := controller.LabelSelector("rides=yes")
	if err := r.manager.Add("riders", controller.Typed(c, controller.TypedReconciler[*corev1.ConfigMap]{Reconcile: reconcile}),
		controller.For(&corev1.ConfigMap{}, selected), controller.Owns(&appsv1.Deployment{})); err != nil {
		t.Fatal(err)
	}
	creating := lifecycle.New(t.Context())
	for part := range creators {
		creating.Go("creator", func(context.Context) error {
			for i := part; i < existing; i += creators {
				r.create(fmt.Sprint("horse-", i))
			}
			return nil
		})
	}
	if err := creating.Wait(); err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(context.Background())
	group.Go("manager", r.manager.Run)
	t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *riders) create(name string) {
	r.t.Helper()
	horse := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rides": "yes"}}, Data: map[string]string{"command": "trot"}}
	if _, err := r.client.CoreV1().ConfigMaps(r.namespace).Create(r.t.Context(), horse, metav1.CreateOptions{}); err != nil {
		r.t.Error(err)
	}
}

// patterns returns how many objects are in a pattern.
func (r *riders) patterns() (count float64) {
	r.t.Helper()
	families, err := r.manager.Registry().Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "bellerophon_patterns" {
				count += metric.GetGauge().GetValue()
			}
		}
	}
	return count
}

// until waits until something holds.
func (r *riders) until(what string, within time.Duration, holds func() bool) {
	r.t.Helper()
	ticker, late := time.NewTicker(20*time.Millisecond), time.After(within)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-late:
			r.t.Fatalf("after %v it is not so: %s", within, what)
		}
	}
}

func (r *riders) deployment(name string) *appsv1.Deployment {
	found, err := r.client.AppsV1().Deployments(r.namespace).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return &appsv1.Deployment{}
	}
	return found
}

func imageOf(deployment *appsv1.Deployment) string {
	if containers := deployment.Spec.Template.Spec.Containers; len(containers) > 0 {
		return containers[0].Image
	}
	return ""
}

// The offender is another controller, which wants another image.
func TestAnOffenderOnTheRealAPIServerIsFoundWithinTenSeconds(t *testing.T) {
	r := newRiders(t, 0)
	r.create("pegasus")
	r.until("there is a Deployment", 30*time.Second, func() bool { return imageOf(r.deployment("pegasus")) == riderImage })
	began := time.Now()
	const theirs = `{"spec":{"template":{"spec":{"containers":[{"name":"rider","image":"example.org/offender:v1"}]}}}}`
	r.until("the fight is found", 10*time.Second, func() bool {
		if imageOf(r.deployment("pegasus")) == riderImage {
			_, err := r.client.AppsV1().Deployments(r.namespace).Patch(t.Context(), "pegasus", types.StrategicMergePatchType, []byte(theirs), metav1.PatchOptions{FieldManager: "offender"})
			if err != nil {
				t.Fatal(err)
			}
		}
		return r.patterns() == 1
	})
	t.Logf("the fight was found after %v", time.Since(began))
	r.until("an Event says so", 10*time.Second, func() bool {
		events, err := r.client.EventsV1().Events(r.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range events.Items {
			if event.Reason == "Fight" && event.Regarding.Kind == "ConfigMap" && event.Regarding.Name == "pegasus" && strings.Contains(event.Note, "to and fro") {
				return true
			}
		}
		return false
	})
	// The offender ends. Nothing of the last state is lost.
	r.until("the image is back", 40*time.Second, func() bool { return imageOf(r.deployment("pegasus")) == riderImage })
}

var usual = flag.Int("usual", 500, "number of objects that exist at the start, and that are rolled then; 5000 for the goal of a start")

// A start among many objects, a rollout of all of them and a scaling by another client are no patterns.
func TestUsualWorkOnTheRealAPIServerIsNoPattern(t *testing.T) {
	r := newRiders(t, *usual)
	have := func(command string) func() bool {
		return func() bool {
			if found := r.patterns(); found != 0 {
				t.Fatalf("%v objects are in a pattern", found)
			}
			list, err := r.client.AppsV1().Deployments(r.namespace).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				t.Fatal(err)
			}
			done := 0
			for _, one := range list.Items {
				if one.Spec.Template.Spec.Containers[0].Command[0] == command {
					done++
				}
			}
			return done == *usual
		}
	}
	r.until("all have a Deployment", 3*time.Minute, have("trot"))
	for i := range *usual {
		if _, err := r.client.CoreV1().ConfigMaps(r.namespace).Patch(t.Context(), fmt.Sprint("horse-", i), types.MergePatchType, []byte(`{"data":{"command":"gallop"}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r.until("all are rolled", 3*time.Minute, have("gallop"))
	// An autoscaler writes the replicas, which the controller leaves alone.
	for i := range 30 {
		scale := fmt.Sprintf(`{"spec":{"replicas":%d}}`, i%3)
		if _, err := r.client.AppsV1().Deployments(r.namespace).Patch(t.Context(), "horse-0", types.MergePatchType, []byte(scale), metav1.PatchOptions{FieldManager: "autoscaler"}, "scale"); err != nil {
			t.Fatal(err)
		}
		<-time.After(50 * time.Millisecond) // So that each is seen.
	}
	if found := r.patterns(); found != 0 {
		t.Errorf("%v objects are in a pattern", found)
	}
}
