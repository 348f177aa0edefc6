package simple_test

import (
	"fmt"
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
	})
	if err := started.manager.Cache().Wait(w.ctx, cache.Current); err != nil {
		w.t.Fatal(err)
	}
	return started
}

// serveWebhooks serves the webhooks as the operator does, and returns a function that ends them.
func (w *auditedWorld) serveWebhooks(beside *operator) (stop func()) {
	w.t.Helper()
	const service = install.Release + "-webhooks"
	server := must(webhook.New(w.account, types(), webhook.Options{
		Address: "127.0.0.1:0", URL: "https://127.0.0.1", Name: service + "." + install.Namespace,
		ClusterRole:  "bellerophon:" + install.Namespace + ":" + service,
		Certificates: webhook.Certificates{Secret: install.Namespace + "/" + service + "-certificates"},
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

// The permissions for webhooks and shards, beyond those of the default values, are used exactly.
func TestWebhooksAndShardsUseExactlyThePermissionsThatTheirValuesGrant(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
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
		if err := w.any.Resource(of).Namespace(place).Delete(w.ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		there := *w.world
		there.namespace = place
		there.await(of, name, "made anew", func(object *unstructured.Unstructured) bool {
			return object != nil && object.GetUID() != before.GetUID()
		})
	}
	stop()
	second.stop()
	first.stop()
	if err := w.cluster.Stop(); err != nil {
		t.Error(err)
	}

	found := auditedIn(t, file)
	byDefault, granted := grantedBy(t, nil), grantedBy(t, withWebhooksAndShards)
	used := slices.Collect(maps.Keys(found.used))
	want := []permission{
		"create admissionregistration.k8s.io/validatingwebhookconfigurations", // asked for when an apply creates it, as here
		"delete admissionregistration.k8s.io/validatingwebhookconfigurations", // asked for when it gets an owner, as here
	}
	// A list is sent when a watch is silent for 67 s, so on a slow machine only, or by an API server that does not stream lists.
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
