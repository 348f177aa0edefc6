// Package render renders the Helm charts of Bellerophon with Helm's own library. A program can
// thus install the same objects as `helm install`.
//
// Rendering needs no cluster and no files, because the charts are embedded in the program.
package render

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/charts"
	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	operatorChart = "bellerophon-operator"
	serverChart   = "bellerophon"
	notesFile     = "templates/NOTES.txt"
)

// Manifests is a rendered chart.
type Manifests struct {
	// CRDs must be installed first. The API server serves their kinds once they are established.
	CRDs []*unstructured.Unstructured
	// Objects holds the rendered templates in Helm's order of installation. Each object of a
	// namespaced kind has its namespace set. The Namespace object itself is not included.
	Objects []*unstructured.Unstructured
	// Notes is the text that Helm shows after the installation.
	Notes string
}

// Without returns the manifests without the objects of the given kinds. A program that runs the
// operator itself leaves out "Deployment".
func (m Manifests) Without(kinds ...string) Manifests {
	m.Objects = slices.DeleteFunc(slices.Clone(m.Objects), func(object *unstructured.Unstructured) bool {
		return slices.Contains(kinds, object.GetKind())
	})
	return m
}

// Operator renders the chart of the operator for a release in a namespace. The values override the
// defaults in the chart's values.yaml, and must match its values.schema.json. The error names each
// value that does not match.
func Operator(release, namespace string, values map[string]any) (Manifests, error) {
	manifests, err := render(operatorChart, release, namespace, values)
	if err != nil {
		return Manifests{}, fmt.Errorf("render chart %s: %w", operatorChart, err)
	}
	return manifests, nil
}

// Server renders the chart of the software, as [Operator] does it with the operator's.
func Server(release, namespace string, values map[string]any) (Manifests, error) {
	manifests, err := render(serverChart, release, namespace, values)
	if err != nil {
		return Manifests{}, fmt.Errorf("render chart %s: %w", serverChart, err)
	}
	return manifests, nil
}

func render(name, release, namespace string, values map[string]any) (Manifests, error) {
	if problems := validation.NameIsDNSLabel(release, false); len(problems) > 0 {
		return Manifests{}, fmt.Errorf("release %q: %s", release, strings.Join(problems, "; "))
	}
	if problems := validation.NameIsDNSLabel(namespace, false); len(problems) > 0 {
		return Manifests{}, fmt.Errorf("namespace %q: %s", namespace, strings.Join(problems, "; "))
	}
	loaded, err := load(name)
	if err != nil {
		return Manifests{}, fmt.Errorf("load the files: %w", err)
	}
	options := common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	complete, err := commonutil.ToRenderValues(loaded, values, options, nil)
	if err != nil {
		return Manifests{}, err
	}
	rendered, err := engine.Render(loaded, complete)
	if err != nil {
		return Manifests{}, err
	}
	return parse(loaded, rendered)
}

// load reads an embedded chart.
func load(name string) (*chart.Chart, error) {
	var content []*archive.BufferedFile
	err := fs.WalkDir(charts.Files, name, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := charts.Files.ReadFile(file)
		if err != nil {
			return err
		}
		content = append(content, &archive.BufferedFile{Name: strings.TrimPrefix(file, name+"/"), Data: data})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return loader.LoadFiles(content)
}

// parse decodes a chart's definitions and its rendered templates into objects.
func parse(loaded *chart.Chart, rendered map[string]string) (Manifests, error) {
	var manifests Manifests
	for _, crd := range loaded.CRDObjects() {
		object, err := decode(string(crd.File.Data))
		if err != nil {
			return Manifests{}, fmt.Errorf("parse %s: %w", crd.Name, err)
		}
		manifests.CRDs = append(manifests.CRDs, object)
	}
	notes := path.Join(loaded.Name(), notesFile)
	manifests.Notes = rendered[notes]
	delete(rendered, notes)
	hooks, sorted, err := releaseutil.SortManifests(rendered, nil, releaseutil.InstallOrder)
	if err != nil {
		return Manifests{}, err
	}
	if len(hooks) > 0 {
		return Manifests{}, fmt.Errorf("%s is a hook, which only Helm can run; remove the hook annotation", hooks[0].Path)
	}
	for _, manifest := range sorted {
		object, err := decode(manifest.Content)
		if err != nil {
			return Manifests{}, fmt.Errorf("parse %s: %w", manifest.Name, err)
		}
		manifests.Objects = append(manifests.Objects, object)
	}
	return manifests, nil
}

// decode decodes one object. Numbers become int64 or float64, as in all unstructured objects. A
// duplicate key is an error.
func decode(manifest string) (*unstructured.Unstructured, error) {
	json, err := yaml.YAMLToJSONStrict([]byte(manifest))
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	return object, object.UnmarshalJSON(json)
}
