package tracing_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/tracing"
	"github.com/bellerophon-io/bellerophon/internal/canary"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// vault is a traced manager on the real API server. Its controller handles Secrets with a random value.
type vault struct {
	t         *testing.T
	ctx       context.Context
	namespace string
	value     string
	values    *canary.Values
	others    kubernetes.Interface
	client    *controller.Client
	recorder  *controller.Recorder
	group     *lifecycle.Group
	exporter  *tracetest.InMemoryExporter
	addresses map[string]string
	log       *canary.Log
	results   chan operators.Result
	streamed  string       // what the page of the manager got; set when the group has ended
	quoted    atomic.Int64 // the errors whose message of the API server quotes the value
	remapped  atomic.Bool
}

func newVault(t *testing.T) *vault {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	w := &vault{
		t: t, ctx: ctx, namespace: clustertest.Namespace(t), exporter: tracetest.NewInMemoryExporter(), addresses: map[string]string{},
		value:   strings.ToLower("canary-" + rand.Text()),
		results: make(chan operators.Result, 100),
	}
	config := clustertest.Shared(t).AdminConfig()
	var err error
	w.others, err = kubernetes.NewForConfig(config)
	w.must(err)
	_, err = w.others.CoreV1().Services(w.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "report"}, Spec: corev1.ServiceSpec{ClusterIP: "None"},
	}, metav1.CreateOptions{})
	w.must(err)
	w.values = canary.New([]byte(w.value))
	var log *slog.Logger
	w.log, log = canary.CaptureLogs(t)
	tracer, err := tracing.New(sdk.NewTracerProvider(sdk.WithSyncer(w.exporter)), tracing.Options{EchoTimeout: time.Second})
	w.must(err)
	config.Wrap(tracing.Propagate)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return warning{w, next} })
	const loopback = "127.0.0.1:0"
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{
		Namespaces: []string{w.namespace}, DetectMutations: true, Logger: log,
		Workers:        1, // One reconcile changes an object of the cache, while the end of another one would compare it.
		MetricsAddress: loopback, HealthAddress: loopback, ProfileAddress: loopback,
		OnListen: func(server string, address net.Addr) {
			if w.addresses[server] = address.String(); server == "metrics server" {
				w.group.Go("page", func(ctx context.Context) (err error) {
					w.streamed, err = canary.Follow(ctx, address.String())
					return err
				})
			}
		},
		OnResult: func(result operators.Result) {
			select {
			case w.results <- result:
			default: // The test has seen enough.
			}
		},
	})
	w.must(err)
	w.client, w.recorder = manager.Client(), manager.Recorder()
	w.must(manager.Add("secrets", tracer.Reconciler(w.reconcile),
		controller.For(&corev1.Secret{}), controller.Uses(&corev1.Service{}), controller.RetryBackoff(operators.Backoff{First: 10 * time.Millisecond})))
	w.must(manager.Add("mapped", func(context.Context, operators.Request) (time.Duration, error) { return 0, nil },
		controller.For(&corev1.ConfigMap{}, controller.When(controller.GenerationChanged)), controller.Watches(&corev1.Secret{}, w.mapped)))
	w.group = lifecycle.New(context.WithoutCancel(ctx))
	w.group.Go("manager", func(ctx context.Context) error { return tracer.Run(ctx, manager) })
	t.Cleanup(func() {
		w.group.Stop()
		w.must(w.group.Wait())
	})
	return w
}

// warning is a transport that adds a warning of the API server to each answer, as an admission webhook
// may. Warnings about Secrets quote the value.
type warning struct {
	vault *vault
	next  http.RoundTripper
}

func (w warning) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := w.next.RoundTrip(request)
	switch {
	case err != nil:
	case strings.Contains(request.URL.Path, "/secrets"):
		answer.Header.Set("Warning", `299 - "`+w.vault.value+` is weak"`)
	case strings.Contains(request.URL.Path, "/services"):
		answer.Header.Set("Warning", `299 - "a warning about services"`)
	}
	return answer, err
}

func (w *vault) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *vault) create(name string) error {
	_, err := w.others.CoreV1().Secrets(w.namespace).Create(w.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"password": []byte(w.value)},
	}, metav1.CreateOptions{})
	return err
}

func (w *vault) secret(name string) *corev1.Secret {
	w.t.Helper()
	secret, err := w.others.CoreV1().Secrets(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
	w.must(err)
	return secret
}

// awaitFailures waits until a reconcile of each Secret has failed, and three have panicked.
func (w *vault) awaitFailures() {
	w.t.Helper()
	for failed := map[string]int{}; failed[copied] < 1 || failed[mutated] < 1 || failed[panics] < 3; {
		select {
		case result := <-w.results:
			if result.Err != nil {
				failed[result.Name]++
			}
		case <-w.ctx.Done():
			w.t.Fatalf("the failures are %v:\n%s", failed, w.log.String())
		}
	}
}

// shown returns all that the manager shows, by where. It stops the manager.
func (w *vault) shown() map[string]string {
	w.t.Helper()
	var why []string
	for _, name := range []string{copied, mutated, panics} {
		why = append(why, "/debug/why?object=secrets/"+name+"&namespace="+w.namespace)
	}
	tree := "/debug/tree?object=secrets/" + copied + "&namespace=" + w.namespace
	shown, err := canary.Pages(w.ctx, w.addresses, append(why, tree)...)
	w.must(err)
	for _, path := range why {
		if !strings.Contains(shown[path], `"error":`) {
			w.t.Errorf("%s names no failure:\n%s", path, shown[path])
		}
	}
	if !strings.Contains(shown[tree], copied) || !strings.Contains(shown["/debug/tree"], copied) {
		w.t.Errorf("the trees do not name %s:\n%s", copied, shown["/debug/tree"])
	}
	if !strings.Contains(shown["/debug/manager"], copied) {
		w.t.Errorf("the introspection does not name %s:\n%s", copied, shown["/debug/manager"])
	}
	w.awaitEvent("Copy3") // It is about a message that quotes the value.
	w.group.Stop()
	w.must(w.group.Wait())
	shown["log"], shown["the stream of the page"] = w.log.String(), w.streamed
	spans := w.exporter.GetSpans()
	shown["traces"] = fmt.Sprintf("%+v", spans)
	for what, list := range map[string]func() (any, error){
		"Events":   func() (any, error) { return w.others.EventsV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{}) },
		"Services": func() (any, error) { return w.others.CoreV1().Services(w.namespace).List(w.ctx, metav1.ListOptions{}) },
		"ConfigMaps": func() (any, error) {
			return w.others.CoreV1().ConfigMaps(w.namespace).List(w.ctx, metav1.ListOptions{})
		},
	} {
		listed, err := list()
		w.must(err)
		text, err := json.Marshal(listed)
		w.must(err)
		shown[what] = string(text)
	}
	return shown
}

// awaitEvent waits for an Event with an action.
func (w *vault) awaitEvent(action string) {
	w.t.Helper()
	watcher, err := w.others.CoreV1().Events(w.namespace).Watch(w.ctx, metav1.ListOptions{})
	w.must(err)
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if recorded, ok := event.Object.(*corev1.Event); ok && recorded.Action == action {
			return
		}
	}
	w.t.Fatalf("no Event has the action %s", action)
}
