package uninstall

import (
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestEachKindOfTheChartIsLookedFor(t *testing.T) {
	on := map[string]any{"enabled": true}
	kinds := map[string]bool{}
	for _, values := range []map[string]any{
		{"webhooks": on, "heroes": on, "serviceMonitor": on, "prometheusRule": on, "dashboard": on, "networkPolicy": on, "flowControl": map[string]any{"priorityLevel": "workload-high"}},
		{"watchNamespace": "a", "heroes": on, "shards": on, "leaderElection": map[string]any{"enabled": false}},
	} {
		manifests, err := render.Operator("bellerophon", "bellerophon", values)
		if err != nil {
			t.Fatal(err)
		}
		var bindings []item
		for _, object := range manifests.Objects {
			if object.GetKind() == "RoleBinding" {
				bindings = append(bindings, item{object, roleBindings})
			}
		}
		for _, object := range manifests.Objects {
			if object.GetKind() == "CustomResourceDefinition" {
				if !slices.Contains(definitions, object.GetName()) {
					t.Errorf("the definition %s stays", object.GetName())
				}
				continue
			}
			kinds[object.GroupVersionKind().Group+"/"+strings.ToLower(object.GetKind())] = true
			if object.GetLabels()[nameLabel] != chart || object.GetLabels()[instanceLabel] != "bellerophon" {
				t.Errorf("%s %s has the labels %v", object.GetKind(), object.GetName(), object.GetLabels())
			}
			// Each is recognized, whether Helm has installed it or another client.
			c := &cluster{options: Options{Release: "bellerophon", Namespace: "bellerophon"}}
			found := item{object, roleBindings}
			if object.GetKind() != "RoleBinding" {
				found.resource = deployments
			}
			if !c.isOurs(found) && !(object.GetKind() == "Role" && isBound(found, bindings)) {
				t.Errorf("%s %s of the release is not recognized", object.GetKind(), object.GetName())
			}
			if c.options.Namespace = "other"; c.isOurs(found) {
				t.Errorf("%s %s is taken for a release in another namespace", object.GetKind(), object.GetName())
			}
		}
	}
	for kind := range kinds {
		group, singular, _ := strings.Cut(kind, "/")
		if !slices.ContainsFunc(resources, func(r schema.GroupVersionResource) bool {
			return r.Group == group && slices.Contains([]string{singular + "s", strings.TrimSuffix(singular, "y") + "ies"}, r.Resource)
		}) {
			t.Errorf("objects of %s would stay", kind)
		}
	}
	if len(kinds) < 15 {
		t.Errorf("the chart has only the kinds %v", kinds)
	}
}
