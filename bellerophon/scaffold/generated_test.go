package scaffold

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// unusual are projects whose names change what controller-gen writes: the import in a package v1, the width of a line,
// and the order of the rules of the role. Each is in a folder of the module example.org/shop.
var unusual = []Options{
	{Module: "example.org/shop/zoo", Kind: "A" + strings.Repeat("a", longestKind-1), Plural: "zoo", Group: "aa.example.org", Version: "v1"},
	{Module: "example.org/shop/deployment", Group: "between.example.org", Version: "v2beta3"},
}

// The guide's own project is checked where the commands of the guide run.
func TestControllerGenChangesNothingOfProjectsWithUnusualNames(t *testing.T) {
	root := t.TempDir()
	if _, err := project(t, Options{Module: "example.org/shop"}).WriteTo(root); err != nil {
		t.Fatal(err)
	}
	folders := []string{"generate"}
	written := map[string][]byte{}
	for _, options := range unusual {
		folder := strings.TrimPrefix(options.Module, "example.org/shop/")
		folders = append(folders, "./"+folder)
		files, err := project(t, options).WriteTo(filepath.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			written[filepath.Join(root, folder, file.Path)] = file.Content
		}
		if err := os.Remove(filepath.Join(root, folder, "go.mod")); err != nil {
			t.Fatal(err)
		}
	}
	for _, arguments := range [][]string{{"mod", "tidy"}, folders} {
		command := exec.CommandContext(t.Context(), "go", arguments...)
		command.Dir = root
		command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOSUMDB=off") // Other tests check the sums of the same modules.
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, said)
		}
	}
	for path, want := range written {
		if filepath.Base(path) == "go.mod" {
			continue
		}
		if content, err := os.ReadFile(path); err != nil || !bytes.Equal(content, want) {
			t.Errorf("controller-gen writes %s (%v):\n%s\nand the project has:\n%s", path, err, content, want)
		}
	}
	for _, options := range unusual {
		for _, kind := range []string{"crds", "files"} { // A file of another name would be a second one.
			folder := filepath.Join(root, strings.TrimPrefix(options.Module, "example.org/shop/"), "chart", kind)
			if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
				t.Errorf("%s has %v: %v", folder, entries, err)
			}
		}
	}
}

func TestHelmLintsTheChartAndItsRulesAreSorted(t *testing.T) {
	helm, err := filepath.Abs(filepath.Join("..", "..", "tools", "helm", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for _, options := range append([]Options{{Module: "example.org/shop"}}, unusual...) {
		folder := t.TempDir()
		if _, err := project(t, options).WriteTo(folder); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), "go", "tool", "-modfile="+helm, "helm", "lint", "--strict", filepath.Join(folder, "chart"))
		command.Env = append(os.Environ(), "GOWORK=off", "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
		if said, err := command.CombinedOutput(); err != nil {
			t.Errorf("of %s, helm lint: %v\n%s", options.Module, err, said)
		}
		content, err := os.ReadFile(filepath.Join(folder, "chart", "files", "role.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(content, &role); err != nil {
			t.Fatal(err)
		}
		if len(role.Rules) != 5 || !slices.IsSortedFunc(role.Rules, func(a, b rbacv1.PolicyRule) int { return strings.Compare(a.APIGroups[0], b.APIGroups[0]) }) {
			t.Errorf("of %s, the rules are %+v", options.Module, role.Rules)
		}
	}
}
