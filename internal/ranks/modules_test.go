package ranks

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// peer is the module that the number of a user's modules is compared with.
const peer = "sigs.k8s.io/controller-runtime"

// forProgramsOnly are modules that the library may not require, each by its prefix. They
// would be in the module list of each program that imports the library.
var forProgramsOnly = []string{
	peer,
	"helm.sh/",
	"github.com/HdrHistogram/",
	"github.com/Masterminds/",
	"github.com/chromedp/",
	"github.com/gobwas/",
	"github.com/itchyny/gojq",
	"github.com/robfig/cron",
	"github.com/spf13/cobra",
	"github.com/tidwall/gjson",
	"go.opentelemetry.io/",
	"golang.org/x/perf",
	"gonum.org/",
	"k8s.io/pod-security-admission",
	module + "/",
}

// workModules returns the folders of the modules in go.work.
func workModules(t *testing.T) []string {
	t.Helper()
	root := filepath.Join("..", "..")
	file := filepath.Join(root, "go.work")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	work, err := modfile.ParseWork(file, content, nil)
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, use := range work.Use {
		folders = append(folders, filepath.Join(root, filepath.FromSlash(use.Path)))
	}
	return folders
}

// moduleFile reads a go.mod, by the folder of the module from the root.
func moduleFile(t *testing.T, folder string) *modfile.File {
	t.Helper()
	name := filepath.Join("..", "..", filepath.FromSlash(folder), "go.mod")
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(name, content, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// forbiddenOf returns the modules of a list that the library may not require.
func forbiddenOf(modules []string) (found []string) {
	for _, path := range modules {
		if slices.ContainsFunc(forProgramsOnly, func(prefix string) bool { return strings.HasPrefix(path, prefix) }) {
			found = append(found, path)
		}
	}
	return found
}

func TestTheLibraryRequiresNoModuleOfThePrograms(t *testing.T) {
	var required []string
	for _, require := range moduleFile(t, ".").Require {
		required = append(required, require.Mod.Path)
	}
	if !slices.Contains(required, "k8s.io/client-go") {
		t.Fatalf("go.mod requires %q, but not k8s.io/client-go", required)
	}
	for _, path := range forbiddenOf(required) {
		t.Errorf("go.mod requires %s, which only bellerophon and bench may; see docs/dependencies.md", path)
	}
}

func TestAModuleOfTheProgramsIsFound(t *testing.T) {
	got := forbiddenOf([]string{"k8s.io/api", "helm.sh/helm/v4", module, module + "/bench", "github.com/chromedp/cdproto"})
	if want := []string{"helm.sh/helm/v4", module + "/bench", "github.com/chromedp/cdproto"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// TestTheModulesOfTheWorkspaceAgree holds that a program is the same with go.work and
// without: a workspace builds all its modules with the highest version that one requires.
func TestTheModulesOfTheWorkspaceAgree(t *testing.T) {
	type requirement struct{ version, folder string }
	first := map[string]requirement{}
	for _, folder := range workModules(t) {
		relative, err := filepath.Rel(filepath.Join("..", ".."), folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, require := range moduleFile(t, relative).Require {
			other, known := first[require.Mod.Path]
			switch {
			case !known:
				first[require.Mod.Path] = requirement{require.Mod.Version, relative}
			case other.version != require.Mod.Version:
				t.Errorf("%s/go.mod requires %s %s, but %s/go.mod requires %s; run `go work sync` and `go mod tidy` in each module",
					relative, require.Mod.Path, require.Mod.Version, other.folder, other.version)
			}
		}
	}
}

// TestAUserGetsFewerModulesThanOfThePeer makes two programs outside of the checkout, one
// that imports controller and one that imports controller-runtime, and compares what each
// gets. It needs the Go proxy, unless the module cache has what the programs need.
func TestAUserGetsFewerModulesThanOfThePeer(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	ours := modulesOf(t, module+"/controller", module, "v0.0.0", "-replace="+module+"="+root)
	theirs := modulesOf(t, peer, peer, peerVersion(t))
	t.Logf("a program that imports controller has %d modules, one that imports controller-runtime %d", len(ours), len(theirs))
	if !slices.Contains(ours, module) || !slices.Contains(theirs, peer) {
		t.Errorf("the lists are %q and %q, which lack %s or %s", ours, theirs, module, peer)
	}
	for _, path := range forbiddenOf(ours) {
		t.Errorf("a program that imports controller gets %s", path)
	}
	if len(ours) >= len(theirs) {
		t.Errorf("a program that imports controller has %d modules, want fewer than the %d of controller-runtime: %q", len(ours), len(theirs), ours)
	}
}

// peerVersion returns the version of controller-runtime that the comparison measures.
func peerVersion(t *testing.T) string {
	t.Helper()
	for _, require := range moduleFile(t, "bench/peers/controller-runtime").Require {
		if require.Mod.Path == peer {
			return require.Mod.Version
		}
	}
	t.Fatal("bench/peers/controller-runtime does not require " + peer)
	return ""
}

// modulesOf makes a program that imports a package of a module, and returns the paths of all
// its modules, its own included.
func modulesOf(t *testing.T, pkg, required, version string, edits ...string) []string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":  "module example.org/program\n\ngo 1.26.0\n",
		"main.go": "package main\n\nimport _ \"" + pkg + "\"\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(arguments ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "go", arguments...)
		command.Dir = folder
		command.Env = append(command.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		var trouble strings.Builder
		command.Stderr = &trouble
		out, err := command.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, trouble.String())
		}
		return string(out)
	}
	run(slices.Concat([]string{"mod", "edit", "-require=" + required + "@" + version}, edits)...)
	run("mod", "tidy")
	return strings.Fields(run("list", "-m", "-f", "{{.Path}}", "all"))
}
