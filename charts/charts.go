// Package charts holds the Helm charts of Bellerophon and renders them with Helm's own
// library, so that a program can install what `helm install` would install.
//
// Rendering needs no cluster and no files: the charts are part of the program.
package charts

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

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

//go:embed all:bellerophon-operator
var files embed.FS

const (
	operatorChart = "bellerophon-operator"
	notesFile     = "templates/NOTES.txt"
)

// Manifests is a rendered chart.
type Manifests struct {
	// CRDs come first: the API server knows their kinds once they are established.
	CRDs []*unstructured.Unstructured
	// Objects are the rendered templates, in the order in which Helm installs them. Each
	// one of a namespaced kind names its namespace; the namespace itself is not among them.
	Objects []*unstructured.Unstructured
	// Notes is the text that Helm shows after it installed the chart.
	Notes string
}

// Without returns the manifests except the objects of the kinds. A program that is the
// operator itself leaves out "Deployment" and installs what it needs to run.
func (m Manifests) Without(kinds ...string) Manifests {
	m.Objects = slices.DeleteFunc(slices.Clone(m.Objects), func(object *unstructured.Unstructured) bool {
		return slices.Contains(kinds, object.GetKind())
	})
	return m
}

// Operator renders the chart of the operator for a release in a namespace. The values
// overlay those of the chart's values.yaml and have to fit its values.schema.json: the
// error names each one that does not.
func Operator(release, namespace string, values map[string]any) (Manifests, error) {
	manifests, err := render(operatorChart, release, namespace, values)
	if err != nil {
		return Manifests{}, fmt.Errorf("render chart %s: %w", operatorChart, err)
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
		return Manifests{}, fmt.Errorf("load it: %w", err)
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
	err := fs.WalkDir(files, name, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := files.ReadFile(file)
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

// parse turns a chart's definitions and its rendered templates into objects.
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
		return Manifests{}, fmt.Errorf("%s is a hook, which only Helm can run", hooks[0].Path)
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

// decode reads one object. Numbers become int64 or float64, as everywhere in unstructured
// objects; a key that occurs twice is an error.
func decode(manifest string) (*unstructured.Unstructured, error) {
	json, err := yaml.YAMLToJSONStrict([]byte(manifest))
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	return object, object.UnmarshalJSON(json)
}
