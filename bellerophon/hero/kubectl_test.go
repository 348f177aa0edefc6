package hero

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// newestManifest is of the stored version. Its kept fields are unknown to the old versions.
const newestManifest = `
apiVersion: stable.bellerophon.io/v1
kind: Bellerophon
metadata:
  name: example-bellerophon-hero3
spec:
  wingedHorseName: xanthos
  replicas: 1
  config: {log-level: debug}
  storage: {size: 2Gi}
  weapons: {explosive: naphtha}
`

// versionsOfHeroes are all versions that the API server serves.
var versionsOfHeroes = []string{"v1alpha0", "v1beta7", "v1"}

// kubectl runs the real kubectl with a text as its input, and returns what it prints.
func (w *world) kubectl(input string, arguments ...string) (said string, err error) {
	w.t.Helper()
	cluster := clustertest.Shared(w.t)
	command := exec.CommandContext(w.ctx, cluster.Kubectl(), append([]string{"--kubeconfig=" + cluster.Kubeconfig(), "--namespace=" + w.namespace}, arguments...)...)
	command.Stdin = strings.NewReader(input)
	var out, warned bytes.Buffer
	command.Stdout, command.Stderr = &out, &warned
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(arguments, " "), err, warned.String())
	}
	if warned.Len() > 0 {
		w.t.Errorf("kubectl %s warns: %s", strings.Join(arguments, " "), warned.String())
	}
	return out.String(), nil
}

// do runs kubectl, which must succeed.
func (w *world) do(input string, arguments ...string) string {
	w.t.Helper()
	said, err := w.kubectl(input, arguments...)
	if err != nil {
		w.t.Fatal(err)
	}
	return said
}

// as reads a hero in a version.
func (w *world) as(version, name string) (hero unstructured.Unstructured, text string) {
	w.t.Helper()
	text = w.do("", "get", resourceOf(version), name, "--output=json")
	if err := hero.UnmarshalJSON([]byte(text)); err != nil {
		w.t.Fatal(err)
	}
	if got, want := hero.GetAPIVersion(), v1.GroupVersion.Group+"/"+version; got != want {
		w.t.Errorf("%s is read as %s, want %s", name, got, want)
	}
	return hero, text
}

// spec returns the specification of a hero in version v1.
func (w *world) spec(name string) map[string]any {
	w.t.Helper()
	hero, _ := w.as("v1", name)
	spec, _, _ := unstructured.NestedMap(hero.Object, "spec")
	return spec
}

// horseOf returns the horse and the name of its field, which differs between versions.
func horseOf(hero unstructured.Unstructured) (horse, field string) {
	field = "winged_horse_name"
	if hero.GetAPIVersion() == v1.GroupVersion.String() {
		field = "wingedHorseName"
	}
	horse, _, _ = unstructured.NestedString(hero.Object, "spec", field)
	return horse, field
}

func quotaOf(spec map[string]any) string {
	quota, _, _ := unstructured.NestedString(spec, "config", "quota")
	return quota
}

// resourceOf returns how kubectl names a hero, or all heroes, of a version.
func resourceOf(version string, name ...string) string {
	return strings.Join(append([]string{"heroes." + version + "." + v1.GroupVersion.Group}, name...), "/")
}

// manifestOf is a manifest with what it asks for.
type manifestOf struct{ version, name, text, horse string }

var manifestsOfHeroes = []manifestOf{
	{"v1alpha0", "example-bellerophon-hero1", oldManifest, "pegasusio"},
	{"v1beta7", "example-bellerophon-hero2", laterManifest, "arion"},
	{"v1", "example-bellerophon-hero3", newestManifest, "xanthos"},
}

// give writes the manifests with a command of kubectl. The API server may first have to see the certificate of the webhooks.
func (w *world) give(arguments ...string) {
	w.t.Helper()
	for _, manifest := range manifestsOfHeroes {
		w.eventually("the API server converts", func() error {
			_, err := w.kubectl(manifest.text, arguments...)
			return err
		})
	}
}

// TestKubectlReadsAndWritesAllVersions reads each hero as each version, and writes it there. No write may lose a field.
func TestKubectlReadsAndWritesAllVersions(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.serveWebhooks()
	w.give("create", "--filename=-")
	for _, version := range versionsOfHeroes {
		if said := w.do("", "explain", "hero.spec", "--api-version="+v1.GroupVersion.Group+"/"+version); !strings.Contains(said, "replicas") {
			t.Errorf("kubectl explain of %s says %s", version, said)
		}
		table := w.do("", "get", resourceOf(version))
		for _, manifest := range manifestsOfHeroes {
			hero, text := w.as(version, manifest.name)
			horse, field := horseOf(hero)
			if horse != manifest.horse || !strings.Contains(table, manifest.name) {
				t.Errorf("%s has the horse %q in %s, want %q; the table is\n%s", manifest.name, horse, version, manifest.horse, table)
			}
			want := w.spec(manifest.name)
			wantSpec := func(after string) {
				t.Helper()
				if got := w.spec(manifest.name); !equality.Semantic.DeepEqual(got, want) {
					t.Errorf("after a %s as %s, %s is %v, want %v", after, version, manifest.name, got, want)
				}
			}
			w.do(text, "replace", "--filename=-")
			wantSpec("replace")
			for _, value := range []string{"buraq", horse} {
				w.do("", "patch", resourceOf(version, manifest.name), "--type=merge", fmt.Sprintf(`--patch={"spec":{%q:%q}}`, field, value))
				want["wingedHorseName"] = value
				wantSpec("patch")
			}
			w.do("", "scale", resourceOf(version, manifest.name), "--replicas=2")
			want["replicas"] = int64(2)
			wantSpec("scale")
		}
	}
	for i, manifest := range manifestsOfHeroes {
		w.do("", "delete", resourceOf(versionsOfHeroes[i], manifest.name), "--timeout=60s")
	}
}

// TestKubectlAppliesManifestsOfAllVersions has heroes that several people write, each in another version.
func TestKubectlAppliesManifestsOfAllVersions(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.serveWebhooks()
	w.give("apply", "--filename=-")
	for _, manifest := range manifestsOfHeroes {
		if said := w.do(manifest.text, "apply", "--filename=-"); !strings.Contains(said, "unchanged") {
			t.Errorf("a second apply of %s says %q", manifest.name, said)
		}
		w.do("", "patch", resourceOf("v1", manifest.name), "--type=merge", `--patch={"spec":{"config":{"quota":"64Mi"},"wingedHorseName":"buraq"}}`)
		w.do(manifest.text, "apply", "--filename=-")
		if spec := w.spec(manifest.name); spec["wingedHorseName"] != manifest.horse || quotaOf(spec) != "64Mi" {
			t.Errorf("after its manifest, %s is %v, want the horse %q and the quota of another person", manifest.name, spec, manifest.horse)
		}

		// Another manager takes the fields over.
		w.do(manifest.text, "apply", "--server-side", "--force-conflicts", "--field-manager=pipeline", "--filename=-")
		changed := regexp.MustCompile(`replicas: \d`).ReplaceAllString(manifest.text, "replicas: 2")
		w.do(changed, "apply", "--server-side", "--field-manager=pipeline", "--filename=-")
		if spec := w.spec(manifest.name); spec["replicas"] != int64(2) || quotaOf(spec) != "64Mi" {
			t.Errorf("after a server-side apply, %s is %v, want 2 members and the quota of another person", manifest.name, spec)
		}
	}
	w.do(strings.Replace(laterManifest, "  explosive: greek fire\n", "", 1), "apply", "--server-side", "--field-manager=pipeline", "--filename=-")
	if weapons := w.spec("example-bellerophon-hero2")["weapons"]; !equality.Semantic.DeepEqual(weapons, map[string]any{"automaticRifle": true, "image": "weapons:v1"}) {
		t.Errorf("without an explosive in the manifest the weapons are %v", weapons)
	}
	for _, manifest := range manifestsOfHeroes {
		w.do(manifest.text, "delete", "--filename=-", "--timeout=60s")
	}
}
