package scaffold

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

func TestTheNamesOfAProjectFollowFromItsModule(t *testing.T) {
	for module, want := range map[string]Options{
		"example.org/shop":                   {Name: "shop", Kind: "Shop", Plural: "shops", Group: "example.org"},
		"example.org/team/shop/v2":           {Name: "shop", Kind: "Shop", Plural: "shops", Group: "team.example.org"},
		"github.com/Jane/key-value-operator": {Name: "key-value-operator", Kind: "KeyValue", Plural: "keyvalues", Group: "jane.github.com"},
		"example.org/policy-controller":      {Name: "policy-controller", Kind: "Policy", Plural: "policies", Group: "example.org"},
		"example.org/gateway":                {Name: "gateway", Kind: "Gateway", Plural: "gateways", Group: "example.org"},
		"example.org/box":                    {Name: "box", Kind: "Box", Plural: "boxes", Group: "example.org"},
		"example.org/operator":               {Name: "operator", Kind: "Operator", Plural: "operators", Group: "example.org"},
	} {
		project, err := New(Options{Module: module})
		if err != nil {
			t.Errorf("%s: %v", module, err)
			continue
		}
		if want.Module, want.Version = module, DefaultVersion; project.Options != want {
			t.Errorf("%s: got %+v, want %+v", module, project.Options, want)
		}
	}
}

func TestANameThatGoOrKubernetesRefusesIsAnErrorWithAWayOut(t *testing.T) {
	const module = "example.org/shop"
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"no domain":             {Options{Module: "shop"}, "does not begin with a domain; give one such as"},
		"the standard library":  {Options{Module: "fmt"}, "does not begin with a domain"},
		"upward":                {Options{Module: "example.org/../shop"}, `the part ".." is not allowed`},
		"an empty part":         {Options{Module: "example.org//shop"}, `the part "" is not allowed`},
		"a space":               {Options{Module: "example.org/a shop"}, `the part "a shop" is not allowed`},
		"a line of go.mod":      {Options{Module: "example.org/shop\nreplace"}, "is not allowed"},
		"another letter":        {Options{Module: "example.org/pégase"}, "is not allowed"},
		"a first major version": {Options{Module: "example.org/shop/v1"}, "ends with v1"},
		"a name with a dot":     {Options{Module: "gopkg.in/shop.v1"}, "give another one with --name"},
		"a long name":           {Options{Module: module, Name: strings.Repeat("a", 54)}, "longer than 53 characters; give another one with --name"},
		"lower case":            {Options{Module: module, Kind: "shop"}, "not upper camel case; give one such as Shop with --kind"},
		"a kind with code":      {Options{Module: module, Kind: "Shop{}"}, "not upper camel case"},
		"a long kind":           {Options{Module: module, Kind: "A" + strings.Repeat("a", 59)}, "longer than 59 characters"},
		"a kind of each group":  {Options{Module: module, Kind: "ListOptions"}, "each API group has this name already"},
		"a function":            {Options{Module: module, Kind: "AddToScheme"}, "each API group has this name already"},
		"a plural":              {Options{Module: module, Plural: "Shops"}, "give another one with --plural"},
		"no dot":                {Options{Module: module, Group: "example"}, "not a domain with a dot; give a domain of your own with --group"},
		"Kubernetes":            {Options{Module: module, Group: "shop.k8s.io"}, "belong to Kubernetes"},
		"its other domain":      {Options{Module: module, Group: "kubernetes.io"}, "give a domain of your own with --group"},
		"a long group":          {Options{Module: module, Group: strings.Repeat("a.", 122) + "b"}, "with the plural shops it is longer than 250 characters"},
		"a version of a module": {Options{Module: module, Version: "v1.0.0"}, "give one such as v1alpha1"},
		"a boolean":             {Options{Module: "example.org/on"}, "YAML does not read it as text; give another one with --name"},
		"a boolean kind":        {Options{Module: module, Kind: "Yes"}, "YAML does not read it as text; give another one with --kind"},
		"a number":              {Options{Module: module, Group: "1.5"}, "YAML does not read it as text"},
		"no checkout":           {Options{Module: module, Checkout: t.TempDir()}, "give the folder of a checkout with --checkout"},
	} {
		if _, err := New(test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, test.want)
		}
	}
	if _, err := New(Options{Module: module, Group: "notk8s.io"}); err != nil {
		t.Errorf("another domain that ends alike: %v", err)
	}
}

// list returns the paths below a folder.
func list(t *testing.T, folder string) (paths []string) {
	t.Helper()
	if err := filepath.WalkDir(folder, func(name string, _ os.DirEntry, err error) error {
		paths = append(paths, strings.TrimPrefix(name, folder))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return paths
}

func project(t *testing.T, options Options) Project {
	t.Helper()
	made, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestFilesThatAreInTheWayAreListedAndNothingIsWritten(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"README.md", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(folder, "go.mod")); err != nil { // It exists, although what it names does not.
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "api"), 0o700); err != nil {
		t.Fatal(err)
	}
	before := list(t, folder)
	_, err := project(t, Options{Module: "example.org/shop"}).WriteTo(folder)
	if err == nil || !strings.Contains(err.Error(), "has README.md, api, go.mod, which the project needs, so nothing was written") {
		t.Errorf("the error is %v", err)
	}
	if after := list(t, folder); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("the folder has %q, want %q", after, before)
	}
}

func TestOtherFilesOfTheFolderStay(t *testing.T) {
	folder := t.TempDir()
	mine := filepath.Join(folder, "LICENSE")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := project(t, Options{Module: "example.org/shop"}).WriteTo(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if content, err := os.ReadFile(filepath.Join(folder, file.Path)); err != nil || !bytes.Equal(content, file.Content) {
			t.Errorf("%s has %d bytes: %v", file.Path, len(content), err)
		}
		if bytes.Contains(file.Content, []byte("[[")) || bytes.Contains(file.Content, []byte("<no value>")) {
			t.Errorf("%s has a part of a template:\n%s", file.Path, file.Content)
		}
	}
	if content, err := os.ReadFile(mine); err != nil || string(content) != "mine" {
		t.Errorf("the other file has %q: %v", content, err)
	}
	if staged, err := filepath.Glob(filepath.Join(folder, ".*")); err != nil || len(staged) > 0 {
		t.Errorf("%q are left: %v", staged, err)
	}
}

func TestAWriteThatFailsLeavesNothing(t *testing.T) {
	// Within this folder the paths of some files of the project are longer than the system allows.
	root := t.TempDir()
	folder := root
	for len(folder) < 4096-50 {
		folder = filepath.Join(folder, strings.Repeat("d", min(200, 4096-50-len(folder))))
	}
	parent := filepath.Dir(folder)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		t.Skipf("the system allows no path of this length: %v", err)
	}
	if _, err := project(t, Options{Module: "example.org/shop"}).WriteTo(folder); err == nil || !strings.Contains(err.Error(), "write the project (nothing is left of it)") {
		t.Errorf("the error is %v", err)
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) > 0 {
		t.Errorf("%v are left: %v", entries, err)
	}
}

func TestAMoveThatFailsTakesTheOthersBack(t *testing.T) {
	folder := t.TempDir()
	files := []File{{Path: "a/b", Content: []byte("1")}, {Path: "c", Content: []byte("2")}, {Path: "d", Content: []byte("3")}}
	broken := errors.New("the disk has failed")
	moves := 0
	err := place(folder, []string{"a", "c", "d"}, files, func(from, to string) error {
		if moves++; moves == 3 {
			return broken
		}
		return os.Rename(from, to)
	})
	if !errors.Is(err, broken) || moves != 3 {
		t.Errorf("after %d moves, the error is %v", moves, err)
	}
	if left := list(t, folder); len(left) != 1 {
		t.Errorf("%q are left", left)
	}
}

func TestAProgramOfAReleaseUsesItsOwnVersionAndADevelopmentBuildACheckout(t *testing.T) {
	of := func(module debug.Module) string {
		return releasedLibrary(&debug.BuildInfo{Deps: []*debug.Module{&module}})
	}
	for want, module := range map[string]debug.Module{
		"v1.2.3":                             {Path: libraryPath, Version: "v1.2.3"},
		"v0.0.0-20260101000000-0123456789ab": {Path: libraryPath, Version: "v0.0.0-20260101000000-0123456789ab"},
	} {
		if got := of(module); got != want {
			t.Errorf("of %+v the version is %q", module, got)
		}
	}
	for _, module := range []debug.Module{
		{Path: libraryPath, Version: "(devel)"},
		{Path: libraryPath, Version: "v0.0.0"},
		{Path: libraryPath, Version: "v1.2.3", Replace: &debug.Module{Path: "../"}},
		{Path: "example.org/other", Version: "v1.2.3"},
	} {
		if got := of(module); got != "" {
			t.Errorf("of %+v the version is %q, want none", module, got)
		}
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if got := project(t, Options{Module: "example.org/shop"}).Versions.Checkout; got != root {
		t.Errorf("the checkout is %q, want %q", got, root)
	}
}

func TestTheVersionsOfTheProjectAreTheOnesOfThisRepository(t *testing.T) {
	for file, lines := range map[string][]string{
		"go.mod":                {"go " + tested.Go, "k8s.io/api " + tested.Kubernetes, "k8s.io/apimachinery " + tested.Kubernetes, "k8s.io/client-go " + tested.Kubernetes},
		"tools/generate/go.mod": {"sigs.k8s.io/controller-tools " + tested.ControllerTools},
	} {
		content, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(line) + `( // indirect)?$`).Match(content) {
				t.Errorf("%s has no line %s: bring versions.go up to date", file, line)
			}
		}
	}
}
