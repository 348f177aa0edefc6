package simple_test

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bellerophon/simple"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/internal/canary"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// withWebhooksAndShards are the values of the chart for both.
var withWebhooksAndShards = map[string]any{
	"webhooks": map[string]any{"enabled": true}, "shards": map[string]any{"enabled": true},
}

var (
	configurations = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	secrets        = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// The names of what the webhooks of the chart have.
const (
	hooksService       = install.Release + "-webhooks"
	hooksConfiguration = hooksService + "." + install.Namespace
	hooksRole          = "bellerophon:" + install.Namespace + ":" + hooksService
	hooksSecret        = hooksService + "-certificates"
)

// sharedWorld is an audited world whose operators share the objects and serve webhooks. It keeps what they show.
type sharedWorld struct {
	*auditedWorld
	log    *canary.Log
	logger *slog.Logger
	values *canary.Values
	shown  map[string]string // by where
	listed chan string       // the resources of lists that the webhooks sent
	hooks  *rest.Config      // of the webhooks
}

func newSharedWorld(t *testing.T, file string) *sharedWorld {
	t.Helper()
	log, logger := canary.CaptureLogs(t)
	w := &sharedWorld{auditedWorld: newAuditedWorld(t, file, withWebhooksAndShards), log: log, logger: logger, listed: make(chan string, 100)}
	// To the webhooks, the API server is one that does not stream lists of what they watch.
	proxy := must(faultproxy.New(w.account))(t)
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, of := range []schema.GroupVersionResource{configurations, secrets} {
		fault := faultproxy.Fault{Action: faultproxy.Refuse, Match: faultproxy.Match{Verb: "watch", Resource: of.Resource}, Code: http.StatusUnprocessableEntity}
		if err := proxy.Inject(fault); err != nil {
			t.Fatal(err)
		}
	}
	w.hooks = proxy.Config()
	w.hooks.Wrap(func(next http.RoundTripper) http.RoundTripper { return listing{next, w.listed} })
	w.hide()
	return w
}

// listing is a transport that reports answered lists.
type listing struct {
	next   http.RoundTripper
	listed chan<- string
}

func (l listing) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(request)
	if query := request.URL.Query(); err == nil && query.Has("fieldSelector") && !query.Has("watch") {
		select {
		case l.listed <- path.Base(request.URL.Path):
		default: // The test has seen enough.
		}
	}
	return answer, err
}

// awaitLists waits until the webhooks have listed all that they watch.
func (w *sharedWorld) awaitLists() {
	w.t.Helper()
	for missing := []string{configurations.Resource, secrets.Resource}; len(missing) > 0; {
		select {
		case resource := <-w.listed:
			missing = slices.DeleteFunc(missing, func(each string) bool { return each == resource })
		case <-w.ctx.Done():
			w.t.Fatalf("the webhooks have not listed %q", missing)
		}
	}
}

// hide puts a random value into a Secret beside the objects, and into the one of the webhooks, which they keep.
func (w *sharedWorld) hide() {
	w.t.Helper()
	value := []byte("canary-" + rand.Text())
	w.values = canary.New(value)
	must(w.core.CoreV1().Secrets(w.namespace).Create(w.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "pegasus"}, Data: map[string][]byte{"password": value},
	}, metav1.CreateOptions{}))(w.t)
	patch := must(json.Marshal(map[string]any{"data": map[string]any{"password": value}}))(w.t)
	must(w.core.CoreV1().Secrets(install.Namespace).Patch(w.ctx, hooksSecret, "application/merge-patch+json", patch, metav1.PatchOptions{}))(w.t)
}

// shard is an operator that shares the objects with others.
type shard struct {
	*operator
	addresses map[string]string // of its servers
}

func (w *sharedWorld) startShard(identity string) shard {
	w.t.Helper()
	const loopback = "127.0.0.1:0"
	type listener struct{ server, address string }
	listeners := make(chan listener, 3)
	started := shard{addresses: map[string]string{}}
	started.operator = w.startOperatorWith(w.account, func(options *controller.Options) {
		options.Shards = &shards.Options{Namespace: install.Namespace, Group: install.Release, Identity: identity}
		options.Logger = w.logger
		options.MetricsAddress, options.HealthAddress, options.ProfileAddress = loopback, loopback, loopback
		options.OnListen = func(server string, address net.Addr) { listeners <- listener{server, address.String()} }
	})
	for range cap(listeners) {
		each := <-listeners
		started.addresses[each.server] = each.address
	}
	if err := started.manager.Cache().Wait(w.ctx, cache.Current); err != nil {
		w.t.Fatal(err)
	}
	return started
}

// startWebhooks serves the webhooks as the operator does, with options that a function changes. stop ends them.
func (w *sharedWorld) startWebhooks(beside shard, change func(*webhook.Options)) (server *webhook.Server, stop func()) {
	w.t.Helper()
	options := webhook.Options{
		Address: "127.0.0.1:0", URL: "https://127.0.0.1", Name: hooksConfiguration, ClusterRole: hooksRole,
		Certificates: webhook.Certificates{Secret: install.Namespace + "/" + hooksSecret},
	}
	change(&options)
	server = must(webhook.New(w.hooks, types(), options))(w.t)
	if err := simple.AddWebhooks(server, beside.manager.Client()); err != nil {
		w.t.Fatal(err)
	}
	group := lifecycle.New(w.ctx)
	group.Go("webhooks", server.Run)
	return server, func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			w.t.Error(err)
		}
	}
}

// lines is a writer that reports what is written, which is a line for each record of a log.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default: // The test has seen enough.
	}
	return len(line), nil
}

// refusedApply is a permission that the API server asks for when an apply writes the configuration of the webhooks.
type refusedApply struct {
	verb    string
	state   string // of the configuration before
	message string // of the refusal
}

var refusedApplies = []refusedApply{
	{"delete", "as the chart creates it, so that the apply sets its owner", "cannot set an ownerRef on a resource you can't delete"},
	{"create", "gone, so that the apply creates it", "cannot create resource"},
}

func (r refusedApply) permission() permission {
	return permission(r.verb + " " + configurations.Group + "/" + configurations.Resource)
}

// awaitRefusedApply takes a permission away, and waits until the webhooks log that an apply was refused.
func (w *sharedWorld) awaitRefusedApply(beside shard, of refusedApply) {
	w.t.Helper()
	client, roles := w.any.Resource(configurations), w.core.RbacV1().ClusterRoles()
	if err := client.Delete(w.ctx, hooksConfiguration, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if of.verb == "delete" {
		w.installRest(withWebhooksAndShards)
	}
	role := must(roles.Get(w.ctx, hooksRole, metav1.GetOptions{}))(w.t)
	whole := role.DeepCopy().Rules
	for i := range role.Rules {
		if slices.Contains(role.Rules[i].Resources, configurations.Resource) {
			role.Rules[i].Verbs = slices.DeleteFunc(role.Rules[i].Verbs, func(verb string) bool { return verb == of.verb })
		}
	}
	role = must(roles.Update(w.ctx, role, metav1.UpdateOptions{}))(w.t)
	w.awaitRefusal(&authorizationv1.ResourceAttributes{Verb: of.verb, Group: configurations.Group, Resource: configurations.Resource, Name: hooksConfiguration})

	said := make(lines, 1000)
	_, stop := w.startWebhooks(beside, func(options *webhook.Options) {
		options.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(w.log, said), nil))
	})
	defer stop()
	for refused := false; !refused; {
		select {
		case line := <-said:
			refused = strings.Contains(line, "webhook server is not up to date") && strings.Contains(line, of.message)
		case <-w.ctx.Done():
			w.t.Fatalf("no apply is refused without %s, with the configuration %s:\n%s", of.permission(), of.state, w.log)
		}
	}
	role.Rules = whole
	must(roles.Update(w.ctx, role, metav1.UpdateOptions{}))(w.t)
}

// removeAndAwait deletes an object of the webhooks, and waits until they have made it anew.
func (w *sharedWorld) removeAndAwait(of schema.GroupVersionResource, namespace, name string) {
	w.t.Helper()
	client := w.any.Resource(of).Namespace(namespace)
	before := must(client.Get(w.ctx, name, metav1.GetOptions{}))(w.t)
	if err := client.Delete(w.ctx, name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	there := *w.world
	there.namespace = namespace
	there.await(of, name, "made anew", func(object *unstructured.Unstructured) bool {
		return object != nil && object.GetUID() != before.GetUID()
	})
}

// addKey adds the private key of the webhooks to the values that nothing may show. It checks that all values are
// found in the Secret.
func (w *sharedWorld) addKey(kept bool) {
	w.t.Helper()
	secret := must(w.core.CoreV1().Secrets(install.Namespace).Get(w.ctx, hooksSecret, metav1.GetOptions{}))(w.t)
	key := canary.New()
	if err := key.AddKey(secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
		w.t.Fatal(err)
	}
	text := string(must(json.Marshal(secret))(w.t))
	if key.In(text) == "" || kept != (w.values.In(text) != "") {
		w.t.Errorf("the test does not find the values in the Secret itself:\n%s", text)
	}
	if err := w.values.AddKey(secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
		w.t.Fatal(err)
	}
}

// collect keeps what the servers of an operator and the API server show.
func (w *sharedWorld) collect(of shard) {
	w.t.Helper()
	w.shown = must(canary.Pages(w.ctx, of.addresses))(w.t)
	for where, list := range map[string]any{
		"Events":         must(w.core.EventsV1().Events("").List(w.ctx, metav1.ListOptions{}))(w.t),
		"status":         must(w.heroes.List(w.ctx, metav1.ListOptions{}))(w.t),
		"configurations": must(w.any.Resource(configurations).List(w.ctx, metav1.ListOptions{}))(w.t),
		"Leases":         must(w.core.CoordinationV1().Leases("").List(w.ctx, metav1.ListOptions{}))(w.t),
	} {
		w.shown[where] = string(must(json.Marshal(list))(w.t))
	}
}

// checkShown checks that what was shown is complete, and has none of the values.
func (w *sharedWorld) checkShown() {
	w.t.Helper()
	for _, want := range []struct{ where, text string }{
		{"log", "webhook certificate issued"}, {"log", "GET"}, {"Events", `"items":[{`}, {"status", `"readyReplicas":1`},
		{"configurations", "caBundle"}, {"Leases", install.Release}, {"audit log", hooksSecret}, {"/metrics", "controller_runtime_webhook"},
		{"/debug/manager", "BellerophonSimple"}, {"/debug/pprof/goroutine?debug=2", "goroutine "}, {"/debug/pprof/heap?debug=0", "runtime."}, {"/debug/pprof/profile?seconds=1", "cpu"},
	} {
		if !strings.Contains(w.shown[want.where], want.text) {
			w.t.Errorf("%s has no %q:\n%s", want.where, want.text, w.shown[want.where])
		}
	}
	for where, text := range w.shown {
		if found := w.values.In(text); found != "" {
			w.t.Errorf("%s shows a value of a Secret %s", where, found)
		}
		w.t.Logf("%d bytes of %s", len(text), where)
	}
}
