package replaytest_test

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
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
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

const ourImage, theirImage = "example.org/rider:v1", "example.org/other:v1"

// riding is a controller that keeps a Deployment for each ConfigMap. Each incident has a version of it that is to blame,
// and one that is mended.
type riding struct {
	acceptsOtherImages bool // an image that comes back is left alone
	counts             bool // it writes each attempt into the ConfigMap
	waitsForTheServer  bool // a request without an answer is no failure
}

func (r riding) setup(namespaces ...string) controller.Setup {
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
			if r.waitsForTheServer && errors.Is(err, context.DeadlineExceeded) {
				return time.Second, nil
			}
			return 0, err
		}, controller.For(&corev1.ConfigMap{}, controller.LabelSelector("rides=yes")), controller.Owns(&appsv1.Deployment{}), controller.ReconcileTimeout(2*time.Second))
	}
}

func (r riding) reconcile(ctx context.Context, client *controller.Client, horse *corev1.ConfigMap) error {
	held, err := controller.Get[*appsv1.Deployment](ctx, client, types.NamespacedName{Namespace: horse.Namespace, Name: horse.Name})
	if controller.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil || held.Spec.Template.Spec.Containers[0].Image != ourImage && !r.acceptsOtherImages {
		labels := map[string]string{"horse": horse.Name}
		wanted := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: horse.Namespace, Name: horse.Name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(horse, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}},
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"at": time.Now().Format(time.RFC3339Nano)}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "rider", Image: ourImage}}},
			}},
		}
		if _, err := controller.Apply[*appsv1.Deployment](ctx, client, controller.ApplyConfigurationOf(wanted), controller.Force()); err != nil {
			return err
		}
	}
	if r.counts {
		changed := horse.DeepCopy()
		changed.Data = map[string]string{"count": horse.Data["count"] + "I"}
		_, err = controller.Patch(ctx, client, changed, controller.MergeFrom(horse))
		return err
	}
	return nil
}

// incident is a running controller on the real API server.
type incident struct {
	t         *testing.T
	core      kubernetes.Interface
	namespace string
	dir       string
	metrics   string
	stop      func()
}

func newIncident(t *testing.T, of riding, through func(*rest.Config) *rest.Config) *incident {
	t.Helper()
	config := clustertest.Shared(t).AdminConfig()
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	made := &incident{t: t, core: core, namespace: clustertest.Namespace(t), dir: t.TempDir()}
	listening := make(chan string, 1)
	manager, err := of.setup(made.namespace)(through(config), controller.Options{
		Logger: slog.New(slog.DiscardHandler), MetricsAddress: "127.0.0.1:0", Recording: &recording.Options{Dir: made.dir, Logger: slog.New(slog.DiscardHandler)},
		OnListen: func(_ string, address net.Addr) { listening <- "http://" + address.String() },
	})
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(context.WithoutCancel(t.Context()))
	group.Go("manager", manager.Run)
	stopped := false
	made.stop = func() {
		if stopped {
			return
		}
		stopped = true
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(made.stop)
	made.metrics = <-listening
	horse := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "pegasus", Labels: map[string]string{"rides": "yes"}}}
	if _, err := core.CoreV1().ConfigMaps(made.namespace).Create(t.Context(), horse, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return made
}

// why asks the controller about the object.
func (i *incident) why() (attempts []history.Attempt) {
	i.t.Helper()
	query := url.Values{"object": {"configmaps/pegasus"}, "namespace": {i.namespace}}
	response, err := http.Get(i.metrics + "/debug/why?" + query.Encode())
	if err != nil {
		i.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer history.Answer
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		i.t.Fatal(err)
	}
	return answer.Controllers[0].Attempts
}

// until asks why until the answer names a cause, for at most ten seconds.
func (i *incident) until(what string, named func(attempt history.Attempt) bool) {
	i.t.Helper()
	began := time.Now()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		for _, attempt := range i.why() {
			if named(attempt) {
				i.t.Logf("why named the cause after %v", time.Since(began))
				return
			}
		}
		if time.Since(began) > 10*time.Second {
			i.t.Fatalf("after ten seconds, why does not name it: %s; it has %+v", what, i.why())
		}
		<-ticker.C
	}
}

// becomesATest turns the recording into a test that fails for the controller that was recorded, and passes for the mended
// one.
func (i *incident) becomesATest(blamed, mended riding) {
	i.t.Helper()
	i.stop()
	recorded := open(i.t, i.dir)
	replayed := replaytest.Replay(i.t, recorded, blamed.setup(i.namespace))
	for _, difference := range replayed.Differences {
		i.t.Errorf("the replay differs: %+v", difference)
	}
	found, err := replaytest.FindIncident(recorded, "riders", types.NamespacedName{Namespace: i.namespace, Name: "pegasus"})
	if err != nil {
		i.t.Fatal(err)
	}
	shrunk, err := replaytest.Shrink(i.t, recorded, blamed.setup(i.namespace), found)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Logf("%v; %d of %d records are left", found, len(shrunk.Records), len(recorded.Records))
	path := filepath.Join(i.t.TempDir(), "incident.recording")
	if err := shrunk.Save(path); err != nil {
		i.t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 64<<10 {
		i.t.Errorf("the file of the incident is %v, %v", info, err)
	}
	again := open(i.t, path)
	if happens := replaytest.Happens(i.t, again, blamed.setup(i.namespace), found); happens == "" {
		i.t.Error("the test passes with the controller that is to blame")
	}
	replaytest.DoesNotHappen(i.t, path, mended.setup(i.namespace), found)
}

func same(config *rest.Config) *rest.Config { return config }

func TestAWebhookThatUndoesAFieldIsNamedAndBecomesATest(t *testing.T) {
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		patch := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, PatchType: &patch,
			Patch: fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, theirImage),
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer webhook.Close()
	blamed := riding{}
	i := newIncident(t, blamed, same)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw})
	none, target := admissionregistrationv1.SideEffectClassNone, webhook.URL
	configured := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "undoes-" + i.namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "undoes.example.org", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &target, CABundle: authority},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": i.namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}},
		}},
	}
	webhooks := i.core.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := webhooks.Create(t.Context(), configured, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = webhooks.Delete(context.WithoutCancel(t.Context()), configured.Name, metav1.DeleteOptions{})
	})
	// The server uses a webhook some seconds after it was configured.
	if _, err := i.core.AppsV1().Deployments(i.namespace).Patch(t.Context(), "pegasus", types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"yes"}}}`), metav1.PatchOptions{}); err != nil {
		t.Log(err) // The controller may not have created it so far.
	}
	i.until("the image is written again and again, because of nothing but own writes", func(attempt history.Attempt) bool {
		return len(attempt.Causes) > 0 && len(attempt.Writes) > 0 && attempt.Causes[0].WrittenBy != "" && attempt.Causes[0].Kind == "Deployment.apps" && attempt.Writes[0].Kind == "Deployment.apps"
	})
	i.becomesATest(blamed, riding{acceptsOtherImages: true})
}

func TestAHotLoopIsNamedAndBecomesATest(t *testing.T) {
	blamed := riding{counts: true}
	i := newIncident(t, blamed, same)
	i.until("the attempt writes the object that caused it", func(attempt history.Attempt) bool {
		return len(attempt.Causes) > 0 && len(attempt.Writes) > 0 && attempt.Causes[0].WrittenBy != "" && attempt.Causes[0].Kind == "ConfigMap" && strings.HasPrefix(strings.Join(attempt.Causes[0].Fields, ","), "data")
	})
	i.becomesATest(blamed, riding{})
}

func TestAnAPIServerThatStallsIsNamedAndBecomesATest(t *testing.T) {
	var proxy *faultproxy.Proxy
	blamed := riding{}
	i := newIncident(t, blamed, func(config *rest.Config) *rest.Config {
		var err error
		if proxy, err = faultproxy.New(config); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() }) // Connections that it has broken are its work.
		if err := proxy.Inject(faultproxy.Fault{Action: faultproxy.Hang, Match: faultproxy.Match{Verb: "patch", Resource: "deployments"}, Times: faultproxy.Always}); err != nil {
			t.Fatal(err)
		}
		return proxy.Config()
	})
	i.until("a request has no answer", func(attempt history.Attempt) bool {
		for _, call := range attempt.Calls {
			if call.Code == 0 && call.Method == http.MethodPatch && strings.Contains(call.Path, "/deployments/pegasus") && strings.Contains(attempt.Error, "timed out") {
				return true
			}
		}
		return false
	})
	i.becomesATest(blamed, riding{waitsForTheServer: true})
}
