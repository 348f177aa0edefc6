package tracing_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/tracing"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
)

// vault is a traced manager on the real API server. Its controller handles Secrets with a random value.
type vault struct {
	t         *testing.T
	ctx       context.Context
	namespace string
	value     string
	others    kubernetes.Interface
	client    *controller.Client
	recorder  *controller.Recorder
	group     *lifecycle.Group
	exporter  *tracetest.InMemoryExporter
	addresses map[string]string
	log       synchronized
	results   chan operators.Result
	quoted    atomic.Int64 // the errors whose message of the API server quotes the value
	remapped  atomic.Bool
}

// synchronized is a buffer for many goroutines.
type synchronized struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (s *synchronized) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Write(text)
}

func (s *synchronized) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.String()
}

func newVault(t *testing.T) *vault {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	w := &vault{
		t: t, ctx: ctx, namespace: clustertest.Namespace(t), exporter: tracetest.NewInMemoryExporter(), addresses: map[string]string{},
		// Its length is a multiple of 3, so that base64 of a text that begins with it begins with its base64.
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
	log := w.captureLogs()
	tracer, err := tracing.New(sdk.NewTracerProvider(sdk.WithSyncer(w.exporter)), tracing.Options{EchoTimeout: time.Second})
	w.must(err)
	config.Wrap(tracing.Propagate)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return warning{w, next} })
	const loopback = "127.0.0.1:0"
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{
		Namespaces: []string{w.namespace}, DetectMutations: true, Logger: log,
		MetricsAddress: loopback, HealthAddress: loopback, ProfileAddress: loopback,
		OnListen: func(server string, address net.Addr) { w.addresses[server] = address.String() },
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

// captureLogs returns a logger of all levels, and redirects client-go's log to it. Its verbosity is the
// highest one without the bodies of requests.
func (w *vault) captureLogs() *slog.Logger {
	const verbosity = 7
	log := slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.Level(-verbosity)}))
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	w.must(flags.Set("v", fmt.Sprint(verbosity)))
	klog.SetSlogLogger(log)
	w.t.Cleanup(func() {
		klog.ClearLogger()
		w.must(flags.Set("v", "0"))
	})
	return log
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

// holds returns the text around the value, plain or in base64, or nothing.
func (w *vault) holds(text string) string {
	for _, form := range []string{w.value, base64.StdEncoding.EncodeToString([]byte(w.value))} {
		if before, after, found := strings.Cut(text, form); found {
			return before[max(0, len(before)-200):] + form + after[:min(len(after), 200)]
		}
	}
	return ""
}

// get returns the answer to a request, unpacked if it is a profile.
func (w *vault) get(server, path string) string {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.ctx, http.MethodGet, "http://"+w.addresses[server+" server"]+path, nil)
	w.must(err)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Do(request)
	w.must(err)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	w.must(err)
	if bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		packed, err := gzip.NewReader(bytes.NewReader(body))
		w.must(err)
		body, err = io.ReadAll(packed)
		w.must(err)
	}
	return string(body)
}

// shown returns all that the manager shows, by where. It stops the manager.
func (w *vault) shown() map[string]string {
	w.t.Helper()
	shown := map[string]string{"metrics": w.get("metrics", "/metrics")}
	for _, path := range []string{"/healthz", "/readyz", "/readyz?level=Converged"} {
		shown[path] = w.get("health", path)
	}
	for _, profile := range []string{"", "heap", "allocs", "goroutine", "threadcreate", "block", "mutex"} {
		for _, form := range []string{"?debug=0", "?debug=1", "?debug=2"} {
			shown["/debug/pprof/"+profile+form] = w.get("profile", "/debug/pprof/"+profile+form)
		}
	}
	if shown["/debug/manager"] = w.get("profile", "/debug/manager"); !strings.Contains(shown["/debug/manager"], copied) {
		w.t.Errorf("the introspection does not name %s:\n%s", copied, shown["/debug/manager"])
	}
	shown["/debug/pprof/profile"] = w.get("profile", "/debug/pprof/profile?seconds=1")
	shown["/debug/pprof/trace"] = w.get("profile", "/debug/pprof/trace?seconds=1")
	w.awaitEvent("Copy3") // It is about a message that quotes the value.
	w.group.Stop()
	w.must(w.group.Wait())
	shown["log"] = w.log.String()
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
