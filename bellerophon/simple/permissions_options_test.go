package simple_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bellerophon/simple"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// withWebhooksAndShards are the values of the chart for both.
var withWebhooksAndShards = map[string]any{
	"webhooks": map[string]any{"enabled": true}, "shards": map[string]any{"enabled": true},
}

// startShard starts an operator that shares the objects with others.
func (w *auditedWorld) startShard(identity string) *operator {
	w.t.Helper()
	started := w.startOperatorWith(w.account, func(options *controller.Options) {
		options.Shards = &shards.Options{Namespace: install.Namespace, Group: install.Release, Identity: identity}
		options.Logger = slog.New(slog.NewTextHandler(w.shown, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	if err := started.manager.Cache().Wait(w.ctx, cache.Current); err != nil {
		w.t.Fatal(err)
	}
	return started
}

// show adds metrics, Events and the status of objects to what the operator shows.
func (w *auditedWorld) show(of *operator) {
	w.t.Helper()
	families := must(of.manager.Registry().Gather())(w.t)
	objects := must(w.heroes.List(w.ctx, metav1.ListOptions{}))(w.t)
	events := must(w.core.EventsV1().Events("").List(w.ctx, metav1.ListOptions{}))(w.t)
	if len(families) == 0 || len(objects.Items) == 0 || len(events.Items) == 0 {
		w.t.Errorf("there are %d metrics, %d objects and %d Events", len(families), len(objects.Items), len(events.Items))
	}
	for _, shown := range []any{families, objects.Object, objects.Items, events.Items} {
		_, _ = w.shown.Write(must(json.Marshal(shown))(w.t))
	}
}

// keyIn returns a line of the private key in a Secret.
func keyIn(t *testing.T, secret *unstructured.Unstructured) string {
	t.Helper()
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", corev1.TLSPrivateKeyKey)
	lines := strings.Split(string(must(base64.StdEncoding.DecodeString(encoded))(t)), "\n")
	if len(lines) < 3 || len(lines[1]) < 40 {
		t.Fatalf("the Secret %s has no private key", secret.GetName())
	}
	return lines[1]
}

// serveWebhooks serves the webhooks as the operator does, and returns a function that ends them.
func (w *auditedWorld) serveWebhooks(beside *operator) (stop func()) {
	w.t.Helper()
	const service = install.Release + "-webhooks"
	server := must(webhook.New(w.account, types(), webhook.Options{
		Address: "127.0.0.1:0", URL: "https://127.0.0.1", Name: service + "." + install.Namespace,
		ClusterRole:  "bellerophon:" + install.Namespace + ":" + service,
		Certificates: webhook.Certificates{Secret: install.Namespace + "/" + service + "-certificates"},
		Logger:       slog.New(slog.NewTextHandler(w.shown, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registry:     beside.manager.Registry(),
	}))(w.t)
	if err := simple.AddWebhooks(server, beside.manager.Client()); err != nil {
		w.t.Fatal(err)
	}
	group := lifecycle.New(w.ctx)
	group.Go("webhooks", server.Run)
	if err := server.WaitReady(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			w.t.Error(err)
		}
	}
}

// The test compares the permissions that webhooks and shards add to the default ones. The private keys of the webhooks are
// canaries: nothing that the operator shows may have them.
func TestWebhooksAndShardsUseExactlyThePermissionsThatTheirValuesGrant(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	var keys []string
	w := newAuditedWorld(t, file, withWebhooksAndShards)
	first, second := w.startShard("first"), w.startShard("second")
	stop := w.serveWebhooks(first)
	w.create(w.hero("pegasus", 1))
	w.awaitReady("pegasus", 1)
	configurations := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	for of, place := range map[schema.GroupVersionResource]string{configurations: "", secrets: install.Namespace} {
		name := install.Release + "-webhooks-certificates"
		if of == configurations {
			name = install.Release + "-webhooks." + install.Namespace
		}
		before := must(w.any.Resource(of).Namespace(place).Get(w.ctx, name, metav1.GetOptions{}))(t)
		if of == secrets {
			keys = append(keys, keyIn(t, before))
		}
		if err := w.any.Resource(of).Namespace(place).Delete(w.ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		there := *w.world
		there.namespace = place
		there.await(of, name, "made anew", func(object *unstructured.Unstructured) bool {
			return object != nil && object.GetUID() != before.GetUID()
		})
	}
	keys = append(keys, keyIn(t, must(w.any.Resource(secrets).Namespace(install.Namespace).Get(w.ctx, install.Release+"-webhooks-certificates", metav1.GetOptions{}))(t)))
	w.show(first)
	stop()
	second.stop()
	first.stop()
	if err := w.cluster.Stop(); err != nil {
		t.Error(err)
	}

	everything := w.shown.String() + string(must(os.ReadFile(file))(t))
	if !strings.Contains(everything, "webhook certificate issued") {
		t.Error("the log of the webhooks is not there")
	}
	for _, key := range keys {
		if strings.Contains(everything, key) || strings.Contains(everything, base64.StdEncoding.EncodeToString([]byte(key))) {
			t.Error("what the operator shows has a line of a private key")
		}
	}
	found := auditedIn(t, file)
	byDefault, granted := grantedBy(t, nil), grantedBy(t, withWebhooksAndShards)
	used := slices.Collect(maps.Keys(found.used))
	want := []permission{
		"create admissionregistration.k8s.io/validatingwebhookconfigurations", // asked for when an apply creates it, as here
		"delete admissionregistration.k8s.io/validatingwebhookconfigurations", // asked for when it gets an owner, as here
	}
	// A list is sent when a watch is silent for 67 s, so on a slow machine only. It is also sent to an API server that does not stream lists.
	lists := []permission{"list /secrets", "list admissionregistration.k8s.io/validatingwebhookconfigurations"}
	if unused := without(granted, slices.Concat(used, lists, slices.Collect(maps.Keys(byDefault)))...); !slices.Equal(unused, want) {
		t.Errorf("granted for webhooks and shards, and not used: %q, want only %q", unused, want)
	}
	if missing := without(found.used, slices.Collect(maps.Keys(granted))...); len(missing) > 0 {
		t.Errorf("used, and not granted: %q", missing)
	}
	if len(found.refused) > 0 {
		t.Errorf("the API server refused requests: %q", found.refused)
	}
	more := without(granted, slices.Collect(maps.Keys(byDefault))...)
	page := string(must(os.ReadFile("../../docs/permissions.md"))(t))
	if line := fmt.Sprintf("grant %d permissions more, and %d of these are used", len(more), len(more)-len(want)-len(lists)); !strings.Contains(page, line) {
		t.Errorf("docs/permissions.md does not say %q", line)
	}
}
