package hero

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1alpha0"
	"github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1beta7"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// oldManifest is of the first version, as users have written it.
const oldManifest = `
apiVersion: stable.bellerophon.io/v1alpha0
kind: Bellerophon
metadata:
  name: example-bellerophon-hero1
spec:
  winged_horse_name: pegasusio
  image: bellerophon-io/bellerophon-server:v1
  replicas: 7
`

// laterManifest is of the second version.
const laterManifest = `
apiVersion: stable.bellerophon.io/v1beta7
kind: Bellerophon
metadata:
  name: example-bellerophon-hero2
spec:
  winged_horse_name: arion
  replicas: 5
weapons:
  is_atomatic_rifle: true
  image: weapons:v1
  explosive: greek fire
`

// serveWebhooks converts between the versions until the test ends.
func (w *world) serveWebhooks() {
	w.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(w.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	server, err := webhook.New(w.config, schemeOfTests(), webhook.Options{Address: address, URL: "https://127.0.0.1", Name: "heroes.test"})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := AddWebhooks(server, nil); err != nil {
		w.t.Fatal(err)
	}
	group := lifecycle.New(context.Background())
	group.Go("webhooks", server.Run)
	w.t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			w.t.Error(err)
		}
	})
}

func TestOldManifestsApplyAsTheyAreAndAllVersionsShowThem(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.serveWebhooks()
	clients, err := dynamic.NewForConfig(w.config)
	if err != nil {
		t.Fatal(err)
	}
	as := func(version string) dynamic.ResourceInterface {
		return clients.Resource(v1.GroupVersion.WithResource("heroes").GroupResource().WithVersion(version)).Namespace(w.namespace)
	}
	for _, manifest := range []string{oldManifest, laterManifest} {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
			t.Fatal(err)
		}
		version := object.GroupVersionKind().Version
		w.eventually("the API server converts", func() error {
			_, err := as(version).Create(w.ctx, object, metav1.CreateOptions{})
			return err
		})
	}
	field := func(version, name string, path ...string) string {
		t.Helper()
		object, err := as(version).Get(w.ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
		text, _ := value.(string)
		return text
	}
	for _, check := range []struct{ version, name, path, want string }{
		{v1alpha0.GroupVersion.Version, "example-bellerophon-hero1", "spec.winged_horse_name", "pegasusio"},
		{v1beta7.GroupVersion.Version, "example-bellerophon-hero1", "spec.winged_horse_name", "pegasusio"},
		{v1.GroupVersion.Version, "example-bellerophon-hero1", "spec.wingedHorseName", "pegasusio"},
		{v1.GroupVersion.Version, "example-bellerophon-hero1", "spec.storage.size", "1Gi"},
		{v1.GroupVersion.Version, "example-bellerophon-hero1", "status.phase", "Pending"},
		{v1beta7.GroupVersion.Version, "example-bellerophon-hero2", "weapons.explosive", "greek fire"},
		{v1.GroupVersion.Version, "example-bellerophon-hero2", "spec.weapons.explosive", "greek fire"},
		{v1alpha0.GroupVersion.Version, "example-bellerophon-hero2", "spec.winged_horse_name", "arion"},
	} {
		if got := field(check.version, check.name, strings.Split(check.path, ".")...); got != check.want {
			t.Errorf("%s of %s as %s is %q, want %q", check.path, check.name, check.version, got, check.want)
		}
	}
	// A change in the oldest version keeps what only newer ones have.
	_, err = as("v1alpha0").Patch(w.ctx, "example-bellerophon-hero2", types.MergePatchType, []byte(`{"spec":{"winged_horse_name":"buraq"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if horse, fire := field("v1", "example-bellerophon-hero2", "spec", "wingedHorseName"), field("v1", "example-bellerophon-hero2", "spec", "weapons", "explosive"); horse != "buraq" || fire != "greek fire" {
		t.Errorf("the hero has %q and %q", horse, fire)
	}
}

// TestOldVersionsSetNoFieldsOfV1 writes the annotation of the fields of v1, which the schemas of old versions do not check.
func TestOldVersionsSetNoFieldsOfV1(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.serveWebhooks()
	w.create("trojan", map[string]any{"image": "bellerophon-io/bellerophon-server:v1", "storage": map[string]any{"size": "2Gi"}})
	clients, err := dynamic.NewForConfig(w.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1alpha0", "v1beta7"} {
		resource := clients.Resource(v1.GroupVersion.WithResource("heroes").GroupResource().WithVersion(version)).Namespace(w.namespace)
		patch := func(content string, run ...string) error {
			_, err := resource.Patch(w.ctx, "trojan", types.MergePatchType, []byte(content), metav1.PatchOptions{DryRun: run})
			return err
		}
		w.eventually("the API server converts", func() error { return patch(`{"metadata":{"labels":{"greeks":"inside"}}}`) })
		attacks := map[string]func() error{
			"to shrink the volumes": func() error {
				return patch(`{"metadata":{"annotations":{"stable.bellerophon.io/v1-spec":"{\"storage\":{\"size\":\"1Gi\"}}"}}}`, metav1.DryRunAll)
			},
			"to drop all fields of v1": func() error {
				return patch(`{"metadata":{"annotations":{"stable.bellerophon.io/v1-spec":null}}}`, metav1.DryRunAll)
			},
			"to create a hero that reads another folder": func() error {
				_, err := resource.Create(w.ctx, &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": v1.GroupVersion.Group + "/" + version, "kind": "Bellerophon",
					"metadata": map[string]any{"name": "horse", "annotations": map[string]any{keptAnnotation: `{"restore":{"claimName":"backups","file":"../others"}}`}},
					"spec":     map[string]any{"image": "bellerophon-io/bellerophon-server:v1"},
				}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			},
		}
		for purpose, attack := range attacks {
			w.eventually("the policy is in force", func() error {
				if err := attack(); err == nil || !strings.Contains(err.Error(), "use apiVersion stable.bellerophon.io/v1") {
					return fmt.Errorf("as %s, a request %s has the answer %w", version, purpose, err)
				}
				return nil
			})
		}
		if err := patch(`{"spec":{"replicas":2},"metadata":{"annotations":{"troy":"falls"}}}`); err != nil {
			t.Errorf("as %s, a change of its own fields has the answer %v", version, err)
		}
	}
}
