package hero

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestTheTableOfPermissionsOfHeroesIsWhatTheChartGrants(t *testing.T) {
	on := map[string]any{"enabled": true}
	manifests, err := render.Operator("store", "home", map[string]any{"heroes": on, "webhooks": on})
	if err != nil {
		t.Fatal(err)
	}
	granted := map[string]string{}
	for _, object := range manifests.Objects {
		name := object.GetName()
		if object.GetKind() != "ClusterRole" || name != "bellerophon:home:store:heroes" && name != "bellerophon:home:store:conversion" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &role, true); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					verbs := slices.Sorted(slices.Values(rule.Verbs))
					granted[strings.TrimSuffix(resource+"."+group, ".")] = strings.Join(verbs, ", ")
				}
			}
		}
	}
	page, err := os.ReadFile("../../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## What the operator may do with heroes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	table := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9./-]+)` \\| ([a-z, ]+) \\|").FindAllStringSubmatch(section, -1) {
		table[row[1]] = row[2]
	}
	for _, resource := range slices.Sorted(maps.Keys(granted)) {
		if table[resource] != granted[resource] {
			t.Errorf("docs/permissions.md says %q about %s, and the chart grants %q", table[resource], resource, granted[resource])
		}
		delete(table, resource)
	}
	for resource := range table {
		t.Errorf("docs/permissions.md has a row for %s, and the chart grants nothing there", resource)
	}
}
