package render_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	"github.com/bellerophon-io/bellerophon/charts"
	"github.com/bellerophon-io/bellerophon/internal/golden"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// chartsOfGoldens are the charts by the first word of a file in testdata/values.
var chartsOfGoldens = map[string]struct {
	folder string
	render func(release, namespace string, values map[string]any) (render.Manifests, error)
}{
	"operator": {"bellerophon-operator", render.Operator},
	"server":   {"bellerophon", render.Server},
}

// valuesOf returns the values of each golden of a chart, by the name of its file. A default file has no values.
func valuesOf(t *testing.T, chart string) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "values", chart+"-*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no values of the chart %s: %v", chart, err)
	}
	all := map[string]map[string]any{chart + "-default.yaml": nil}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = parsed(t, content)
	}
	return all
}

func parsed(t *testing.T, content []byte) (values map[string]any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(content, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// TestTheChartsRenderWhatTheyDidBefore compares with testdata/rendered. go test ./bellerophon/render -update writes it.
func TestTheChartsRenderWhatTheyDidBefore(t *testing.T) {
	for name, chart := range chartsOfGoldens {
		for file, values := range valuesOf(t, name) {
			t.Run(file, func(t *testing.T) {
				manifests, err := chart.render("store", "home", values)
				if err != nil {
					t.Fatal(err)
				}
				var all strings.Builder
				all.WriteString("# " + strings.ReplaceAll(strings.TrimSpace(manifests.Notes), "\n", "\n# ") + "\n")
				for _, object := range manifests.Objects {
					shorten(t, object)
					content, err := yaml.Marshal(object.Object)
					if err != nil {
						t.Fatal(err)
					}
					all.WriteString("---\n" + string(content))
				}
				golden.Compare(t, filepath.Join("testdata", "rendered", file), strings.ReplaceAll(all.String(), "# \n", "#\n"))
			})
		}
	}
}

// shorten replaces what a template copies from a file by the name of the file, once both are equal.
func shorten(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	var path []string
	var file string
	var want any
	switch {
	case object.GetKind() == "CustomResourceDefinition":
		path, file = []string{"spec", "versions"}, "heroes/stable.bellerophon.io_heroes.yaml"
		want, _, _ = unstructured.NestedFieldNoCopy(parsed(t, chartFile(t, file)), path...)
	case object.GetKind() == "PrometheusRule":
		path, file = []string{"spec", "groups"}, "rules.yaml"
		want = parsed(t, chartFile(t, file))["groups"]
	case strings.HasSuffix(object.GetName(), "-dashboard"):
		path, file = []string{"data", "bellerophon-operator.json"}, "dashboard.json"
		want = strings.TrimSuffix(string(chartFile(t, file)), "\n")
	default:
		return
	}
	got, _, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	gotYAML, wantYAML := marshalled(t, got), marshalled(t, want)
	if gotYAML != wantYAML {
		t.Errorf("%s of %s differs from files/%s:\n%s", strings.Join(path, "."), object.GetName(), file, gotYAML)
	}
	if err := unstructured.SetNestedField(object.Object, "as in files/"+file, path...); err != nil {
		t.Fatal(err)
	}
}

// marshalled returns a value as YAML, where 1 and 1.0 are equal.
func marshalled(t *testing.T, value any) string {
	t.Helper()
	content, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestTheGoldensChangeEachValue finds a value that no golden would show.
func TestTheGoldensChangeEachValue(t *testing.T) {
	for name, chart := range chartsOfGoldens {
		content, err := charts.Files.ReadFile(chart.folder + "/values.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for path, value := range leaves(parsed(t, content), nil) {
			changed := false
			for _, values := range valuesOf(t, name) {
				given, found, err := unstructured.NestedFieldNoCopy(values, strings.Split(path, ".")...)
				changed = changed || err == nil && found && !reflect.DeepEqual(given, value)
			}
			if !changed {
				t.Errorf("no file of testdata/values changes %s of the chart %s", path, chart.folder)
			}
		}
	}
}

// leaves returns the values that are no objects, or are empty ones, by their paths.
func leaves(values map[string]any, path []string) map[string]any {
	found := map[string]any{}
	for name, value := range values {
		below := append(slices.Clone(path), name)
		if inner, is := value.(map[string]any); is && len(inner) > 0 {
			for path, leaf := range leaves(inner, below) {
				found[path] = leaf
			}
			continue
		}
		found[strings.Join(below, ".")] = value
	}
	return found
}
