package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"text/template"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed children.yaml
var childrenText string

var childrenTemplate = template.Must(template.New("children.yaml").Parse(childrenText))

var (
	sheroes      = v1.GroupVersion.WithResource(v1.Plural)
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	services     = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	statefulSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
)

// children lists the resources of the children, in the order of children.yaml.
var children = []schema.GroupVersionResource{configMaps, services, statefulSets}

// wanted returns the children that the contract requires for an object, as the API server stores
// them. A dry run in the suite's own namespace adds the API server's defaults.
func (w *world) wanted(ctx context.Context, hero *v1.BellerophonSimple) ([]*unstructured.Unstructured, error) {
	manifests, err := written(hero)
	if err != nil {
		return nil, err
	}
	for i, manifest := range manifests {
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		manifests[i], err = w.any.Resource(children[i]).Namespace(w.reference).Create(ctx, manifest, dryRun)
		if err != nil {
			return nil, fmt.Errorf("add the API server's defaults to the expected %s: %w", children[i].Resource, err)
		}
	}
	return manifests, nil
}

// written returns the children as the contract states them, without the API server's defaults.
func written(hero *v1.BellerophonSimple) ([]*unstructured.Unstructured, error) {
	var text bytes.Buffer
	err := childrenTemplate.Execute(&text, map[string]any{
		"Name": hero.Name, "UID": hero.UID, "Horse": hero.Spec.WingedHorseName,
		"Image": hero.Spec.Image, "Replicas": *hero.Spec.Replicas,
		"Hash": hashOf("http_port", "8080", "peers_service", hero.Name, "winged_horse_name", hero.Spec.WingedHorseName),
	})
	if err != nil {
		return nil, fmt.Errorf("fill in children.yaml: %w", err)
	}
	var manifests []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(&text, 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return manifests, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read children.yaml: %w", err)
		}
		manifests = append(manifests, object)
	}
}

// hashOf returns the pods' annotation: the hash of keys, in alphabetic order, and their values.
func hashOf(keysAndValues ...string) string {
	sum := sha256.New()
	for _, text := range keysAndValues {
		_, _ = io.WriteString(sum, text+"\x00") // A hash never returns an error.
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}
