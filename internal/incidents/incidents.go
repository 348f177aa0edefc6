// Package incidents has controllers with faults, and worlds in which they show, for tests on a real API server.
package incidents

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// The images of the Deployments.
const (
	OurImage   = "example.org/rider:v1" // the image that the controller wants
	TheirImage = "example.org/other:v1" // the image that others set
)

// Riding is a controller that keeps a Deployment for each ConfigMap. Each incident has a version of it that is to blame,
// and one that is mended.
type Riding struct {
	AcceptsOtherImages bool // an image that comes back is left alone
	Counts             bool // it writes each attempt into the ConfigMap
	WaitsForTheServer  bool // a request without an answer is no failure
}

// Setup returns a function that creates the manager of the controller, for some namespaces.
func (r Riding) Setup(namespaces ...string) controller.Setup {
	return func(config *rest.Config, options controller.Options) (*controller.Manager, error) {
		options.Namespaces = namespaces
		manager, err := controller.NewManager(config, scheme.Scheme, options)
		if err != nil {
			return nil, err
		}
		client := manager.Client()
		return manager, manager.Add("riders", func(ctx context.Context, request operators.Request) (time.Duration, error) {
			horse, err := controller.Get[*corev1.ConfigMap](ctx, client, request.NamespacedName)
			if err != nil {
				return 0, controller.IgnoreNotFound(err)
			}
			err = r.reconcile(ctx, client, horse)
			if r.WaitsForTheServer && errors.Is(err, context.DeadlineExceeded) {
				return time.Second, nil
			}
			return 0, err
		}, controller.For(&corev1.ConfigMap{}, controller.LabelSelector("rides=yes")), controller.Owns(&appsv1.Deployment{}), controller.ReconcileTimeout(2*time.Second))
	}
}

func (r Riding) reconcile(ctx context.Context, client *controller.Client, horse *corev1.ConfigMap) error {
	held, err := controller.Get[*appsv1.Deployment](ctx, client, types.NamespacedName{Namespace: horse.Namespace, Name: horse.Name})
	if controller.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil || held.Spec.Template.Spec.Containers[0].Image != OurImage && !r.AcceptsOtherImages {
		labels := map[string]string{"horse": horse.Name}
		wanted := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: horse.Namespace, Name: horse.Name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(horse, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}},
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"at": time.Now().Format(time.RFC3339Nano)}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "rider", Image: OurImage}}},
			}},
		}
		if _, err := controller.Apply[*appsv1.Deployment](ctx, client, controller.ApplyConfigurationOf(wanted), controller.Force()); err != nil {
			return err
		}
	}
	if r.Counts {
		changed := horse.DeepCopy()
		changed.Data = map[string]string{"count": horse.Data["count"] + "I"}
		_, err = controller.Patch(ctx, client, changed, controller.MergeFrom(horse))
		return err
	}
	return nil
}

// Incident is a running controller on a real API server, which is recorded. It reconciles the ConfigMap pegasus.
type Incident struct {
	Core      kubernetes.Interface
	Namespace string
	Dir       string // of the recording
	Metrics   string // the URL of the metrics server
	Stop      func() // the controller; a second call does nothing

	t testing.TB
}

// New starts a controller. The incident begins with [Incident.Begin].
func New(t testing.TB, of Riding, config *rest.Config, namespace string) *Incident {
	t.Helper()
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	made := &Incident{t: t, Core: core, Namespace: namespace, Dir: t.TempDir()}
	listening := make(chan string, 1)
	manager, err := of.Setup(namespace)(config, controller.Options{
		Logger: slog.New(slog.DiscardHandler), MetricsAddress: "127.0.0.1:0", Recording: &recording.Options{Dir: made.Dir, Logger: slog.New(slog.DiscardHandler)},
		OnListen: func(_ string, address net.Addr) { listening <- "http://" + address.String() },
	})
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(context.WithoutCancel(t.Context()))
	group.Go("manager", manager.Run)
	stopped := false
	made.Stop = func() {
		if stopped {
			return
		}
		stopped = true
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(made.Stop)
	made.Metrics = <-listening
	return made
}

// Begin creates the object.
func (i *Incident) Begin() {
	i.t.Helper()
	horse := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "pegasus", Labels: map[string]string{"rides": "yes"}}}
	if _, err := i.Core.CoreV1().ConfigMaps(i.Namespace).Create(i.t.Context(), horse, metav1.CreateOptions{}); err != nil {
		i.t.Fatal(err)
	}
}

// UndoImages configures a webhook that undoes the image of each Deployment, and returns when it has done so.
func (i *Incident) UndoImages() {
	i.t.Helper()
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		patch := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, PatchType: &patch,
			Patch: fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, TheirImage),
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	i.t.Cleanup(webhook.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw})
	none, target := admissionregistrationv1.SideEffectClassNone, webhook.URL
	configured := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "undoes-" + i.Namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "undoes.example.org", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &target, CABundle: authority},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": i.Namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}},
		}},
	}
	webhooks := i.Core.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := webhooks.Create(i.t.Context(), configured, metav1.CreateOptions{}); err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() {
		_ = webhooks.Delete(context.WithoutCancel(i.t.Context()), configured.Name, metav1.DeleteOptions{})
	})
	// The server uses a webhook some seconds after it was configured. Then any write undoes the image.
	for touched, begun := 0, time.Now(); time.Since(begun) < 30*time.Second; touched++ {
		label := fmt.Appendf(nil, `{"metadata":{"labels":{"touched":"%d"}}}`, touched)
		made, err := i.Core.AppsV1().Deployments(i.Namespace).Patch(i.t.Context(), "pegasus", types.MergePatchType, label, metav1.PatchOptions{})
		if err == nil && made.Spec.Template.Spec.Containers[0].Image == TheirImage {
			return
		}
		<-time.After(100 * time.Millisecond) // The controller may not have created it so far.
	}
	i.t.Fatal("after 30 seconds the webhook has undone nothing")
}

// Stalls returns the configuration of a server that does not answer writes of Deployments.
func Stalls(t testing.TB, config *rest.Config) *rest.Config {
	t.Helper()
	proxy, err := faultproxy.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() }) // Connections that it has broken are its work.
	if err := proxy.Inject(faultproxy.Fault{Action: faultproxy.Hang, Match: faultproxy.Match{Verb: "patch", Resource: "deployments"}, Times: faultproxy.Always}); err != nil {
		t.Fatal(err)
	}
	return proxy.Config()
}
