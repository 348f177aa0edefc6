package image_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var olderFolder = flag.String("older", "", "a checkout of an older version, whose chart and program are upgraded; default this one, in the form of an older one")

// olderImage is the image of the version before. No version is published, so by default its program is the program of this checkout.
const olderImage = "bellerophon-io/bellerophon:v0"

// olderOperator returns the program of the version before.
func olderOperator(t *testing.T) string {
	t.Helper()
	if *olderFolder == "" {
		return operator(t)
	}
	path := filepath.Join(t.TempDir(), "bellerophon-operator")
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o="+path, "./bellerophon/bellerophon-operator")
	command.Dir, command.Env = *olderFolder, append(os.Environ(), "CGO_ENABLED=0")
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return path
}

// olderStores returns the versions that the definitions of heroes and of BellerophonSimple store in the version before.
func olderStores() (heroes, simple string) {
	if *olderFolder == "" {
		return "v1beta7", "v444beta989"
	}
	return "v1", "v1"
}

// olderChart writes the chart of the operator as a version before could have been: its image has another tag, the
// definitions store older versions, heroes lack a field, and a policy is not there yet.
func olderChart(t *testing.T) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "bellerophon-operator")
	of := chart("bellerophon-operator")
	if *olderFolder != "" {
		of = filepath.Join(*olderFolder, "charts", "bellerophon-operator")
	}
	if err := os.CopyFS(folder, os.DirFS(of)); err != nil {
		t.Fatal(err)
	}
	change := func(name string, change func(content string) string) {
		file := filepath.Join(folder, filepath.FromSlash(name))
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := change(string(content))
		if changed == string(content) {
			t.Fatalf("the older chart has the same %s", name)
		}
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change("Chart.yaml", func(content string) string {
		return strings.NewReplacer("\nversion: 0.1.0\n", "\nversion: 0.0.9\n", "\nappVersion: v1\n", "\nappVersion: v0\n").Replace(content)
	})
	if *olderFolder != "" {
		return folder
	}
	change("templates/heroes.yaml", func(content string) string {
		parts := slices.DeleteFunc(strings.Split(content, "\n---\n"), func(part string) bool {
			return strings.Contains(part, "kind: ValidatingAdmissionPolicy")
		})
		return strings.Join(parts, "\n---\n")
	})
	heroes, simple := olderStores()
	for name, stores := range map[string]string{"crds/stable.simple-bellerophon.io_sheroes.yaml": simple, "files/heroes/stable.bellerophon.io_heroes.yaml": heroes} {
		change(name, func(content string) string {
			var definition map[string]any
			if err := yaml.Unmarshal([]byte(content), &definition); err != nil {
				t.Fatal(err)
			}
			for _, each := range definition["spec"].(map[string]any)["versions"].([]any) {
				version := each.(map[string]any)
				version["storage"] = version["name"] == stores
				at := version["schema"].(map[string]any)
				for _, field := range []string{"openAPIV3Schema", "properties", "spec", "properties"} {
					at = at[field].(map[string]any)
				}
				delete(at, "affinity")
			}
			older, err := yaml.Marshal(definition)
			if err != nil {
				t.Fatal(err)
			}
			return string(older)
		})
	}
	return folder
}
