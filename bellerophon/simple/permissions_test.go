package simple_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// permission is a verb of a resource, such as "patch apps/statefulsets".
type permission string

// operatorUser is the user that the operator is in the cluster of `bellerophon up`.
const operatorUser = "system:serviceaccount:" + install.Namespace + ":" + install.Release

// checkedOnly is what the operator sends no request for. The API server asks for it when the operator
// writes an owner reference: see TestTheOperatorUsesExactlyThePermissionsOfItsRole.
var checkedOnly = []permission{"update stable.simple-bellerophon.io/sheroes/finalizers"}

// ownByName lists resources for which the chart grants only objects of the release, by their names.
var ownByName = []string{"leases", "secrets", "validatingwebhookconfigurations", "mutatingwebhookconfigurations", "clusterroles"}

// rolesOf renders the chart with some values, and returns its roles.
func rolesOf(t *testing.T, values map[string]any) (roles []*rbacv1.ClusterRole) {
	t.Helper()
	manifests := must(render.Operator(install.Release, install.Namespace, values))(t)
	for _, object := range manifests.Objects {
		if kind := object.GetKind(); kind == "ClusterRole" || kind == "Role" {
			role := &rbacv1.ClusterRole{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
				t.Fatal(err)
			}
			roles = append(roles, role)
		}
	}
	return roles
}

// grantedBy returns what the chart grants with some values.
func grantedBy(t *testing.T, values map[string]any) map[permission]bool {
	t.Helper()
	granted := map[permission]bool{}
	for _, role := range rolesOf(t, values) {
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						granted[permission(verb+" "+group+"/"+resource)] = true
					}
				}
			}
			named := len(rule.Resources) == 1 && slices.Contains(ownByName, rule.Resources[0])
			if len(rule.NonResourceURLs) > 0 || len(rule.ResourceNames) > 0 && !named {
				t.Errorf("%s has a rule with URLs or names, which this test does not compare: %v", role.Name, rule)
			}
		}
	}
	return granted
}

// without returns the permissions of a that b lacks, sorted.
func without(a map[permission]bool, b ...permission) (left []permission) {
	for one := range a {
		if !slices.Contains(b, one) {
			left = append(left, one)
		}
	}
	slices.Sort(left)
	return left
}

// audited is the part of an audit log that concerns permissions.
type audited struct {
	used    map[permission]bool
	urls    map[string]bool // requests for no resource, such as of discovery
	refused []string        // requests that were answered with 401 or 403, except in the namespace "refused"
}

func auditedIn(t *testing.T, file string) audited {
	t.Helper()
	found := audited{used: map[permission]bool{}, urls: map[string]bool{}}
	for line := range bytes.Lines(must(os.ReadFile(file))(t)) {
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if event.User.Username != operatorUser {
			t.Errorf("the log has a request of %s", event.User.Username)
		}
		of := event.ObjectRef
		if of == nil {
			path, _, _ := strings.Cut(event.RequestURI, "?")
			found.urls[event.Verb+" "+path] = true
			continue
		}
		resource := strings.TrimSuffix(of.APIGroup+"/"+of.Resource+"/"+of.Subresource, "/")
		found.used[permission(event.Verb+" "+resource)] = true
		if status := event.ResponseStatus; status != nil && (status.Code == 401 || status.Code == 403) && of.Namespace != refusedNamespace {
			found.refused = append(found.refused, fmt.Sprintf("%s %s: %d %s", event.Verb, event.RequestURI, status.Code, status.Message))
		}
	}
	return found
}

// documented returns the permissions in the table of docs/permissions.md.
func documented(t *testing.T) map[permission]bool {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| (core|`[a-z0-9.-]+`) \\| `([a-z/]+)` \\| ([a-z, ]+) \\|")
	found := map[permission]bool{}
	for _, match := range row.FindAllStringSubmatch(string(must(os.ReadFile("../../docs/permissions.md"))(t)), -1) {
		group := strings.Trim(match[1], "`")
		if group == "core" {
			group = ""
		}
		for _, verb := range strings.Split(match[3], ", ") {
			found[permission(verb+" "+group+"/"+match[2])] = true
		}
	}
	return found
}

func TestTheTableOfPermissionsIsWhatTheChartGrants(t *testing.T) {
	granted, table := grantedBy(t, nil), documented(t)
	if missing := without(granted, slices.Collect(maps.Keys(table))...); len(missing) > 0 {
		t.Errorf("docs/permissions.md lacks %q", missing)
	}
	if more := without(table, slices.Collect(maps.Keys(granted))...); len(more) > 0 {
		t.Errorf("docs/permissions.md has %q, which the chart does not grant", more)
	}
	// The values of the chart change where the permissions hold, and whether the metrics are protected.
	unprotected := map[string]any{"protected": false}
	reviews := []permission{"create authentication.k8s.io/tokenreviews", "create authorization.k8s.io/subjectaccessreviews"}
	leases := []permission{
		"create coordination.k8s.io/leases", "get coordination.k8s.io/leases", "list coordination.k8s.io/leases",
		"update coordination.k8s.io/leases", "watch coordination.k8s.io/leases",
	}
	for _, test := range []struct {
		values map[string]any
		less   []permission
	}{
		{map[string]any{"watchNamespace": "stable"}, nil},
		{map[string]any{"metrics": unprotected}, reviews},
		{map[string]any{"watchNamespace": "stable", "metrics": unprotected}, reviews},
		{map[string]any{"replicas": 1}, nil},
		{map[string]any{"replicas": 1, "leaderElection": map[string]any{"enabled": false}}, leases},
	} {
		if left := without(granted, slices.Collect(maps.Keys(grantedBy(t, test.values)))...); !slices.Equal(left, test.less) {
			t.Errorf("with the values %v, the chart grants all but %q, want all but %q", test.values, left, test.less)
		}
	}
}

func TestTheOperatorUsesExactlyThePermissionsOfItsRole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	w := newAuditedWorld(t, file, nil)
	w.driveThroughEverything()
	w.restart()
	w.withoutFinalizers()
	w.stop()

	found := auditedIn(t, file)
	granted := grantedBy(t, nil)
	if unused := without(granted, slices.Collect(maps.Keys(found.used))...); !slices.Equal(unused, checkedOnly) {
		t.Errorf("granted, and not used: %q, want only %q", unused, checkedOnly)
	}
	if missing := without(found.used, slices.Collect(maps.Keys(granted))...); len(missing) > 0 {
		t.Errorf("used, and not granted: %q", missing)
	}
	if len(found.refused) > 0 {
		t.Errorf("the API server refused %d requests:\n%s", len(found.refused), strings.Join(found.refused, "\n"))
	}
	for _, url := range slices.Sorted(maps.Keys(found.urls)) {
		if !strings.HasPrefix(url, "get /api") && url != "get /version" { // Each user may get these: see the ClusterRole system:discovery.
			t.Errorf("used, and not granted: %q", url)
		}
	}
	page := string(must(os.ReadFile("../../docs/permissions.md"))(t))
	for _, line := range []string{
		fmt.Sprintf("grants the operator of BellerophonSimple %d permissions", len(granted)),
		fmt.Sprintf("| granted | %d |", len(granted)),
		fmt.Sprintf("| used, by the audit log | %d |", len(found.used)),
		fmt.Sprintf("| requests that were refused | %d |", len(found.refused)),
	} {
		if !strings.Contains(page, line) {
			t.Errorf("docs/permissions.md does not say %q", line)
		}
	}
	t.Logf("%d permissions are granted, and %d used; other URLs: %q", len(granted), len(found.used), slices.Sorted(maps.Keys(found.urls)))
}
