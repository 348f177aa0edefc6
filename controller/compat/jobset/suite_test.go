package main

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller/compat/internal/porttest"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
)

var specs = flag.String("suite", "", "run the specs of JobSet's own suite for envtest whose names match; all of them take six minutes on each runtime")

// construction are the changes of the suite: the construction of the manager, and the folder of the
// definitions, which is relative to JobSet's module.
var construction = strings.NewReplacer(
	"ctrl.NewManager(cfg, ctrl.Options{\n\t\tScheme: scheme.Scheme,\n\t})", "compat.NewManager(cfg, ctrl.Options{\n\t\tScheme: scheme.Scheme,\n\t}, controller.Options{})",
	"\tjobset \"sigs.k8s.io", "\t\"github.com/bellerophon-io/bellerophon/controller\"\n\t\"github.com/bellerophon-io/bellerophon/controller/compat\"\n\tjobset \"sigs.k8s.io",
)

// refused is a spec that expects the webhook to refuse an update. The suite serves no webhook. So the spec
// passes only if the reconciler happens to change the object at that moment, and the update conflicts.
const refused = "rejects updates to parallelism and completions"

// TestItsOwnSuitePassesAsFarOnBothRuntimes compares which specs of JobSet's suite fail.
func TestItsOwnSuitePassesAsFarOnBothRuntimes(t *testing.T) {
	if *specs == "" {
		// CI has 45 minutes. TestTheOperatorEndsInTheSameStateOnBothRuntimes runs there.
		t.Skip("it takes twelve minutes; run it with -args -suite=.")
	}
	f := &porttest.Field{T: t}
	assets := filepath.Dir(clustertest.Shared(t).Kubectl())
	module := f.Module(jobSetModule)
	failed := map[string][]string{}
	for _, by := range []string{porttest.ControllerRuntime, porttest.Bellerophon} {
		folder := t.TempDir()
		overlay := struct{ Replace map[string]string }{map[string]string{}}
		here, err := os.Getwd()
		f.Must(err)
		for _, name := range []string{"suite_test.go", "jobset_controller_test.go"} {
			content, err := os.ReadFile(filepath.Join(module, "test/integration/controller", name))
			f.Must(err)
			text := strings.ReplaceAll(string(content), `filepath.Join("..", "..", "..", "config"`, `filepath.Join("`+module+`", "config"`)
			if by == porttest.Bellerophon && name == "suite_test.go" {
				if text = construction.Replace(text); !strings.Contains(text, "compat.NewManager") {
					t.Fatal("the suite makes its manager in another way now")
				}
			}
			f.Must(os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
			overlay.Replace[filepath.Join(here, "suite", name)] = filepath.Join(folder, name)
		}
		encoded, err := json.Marshal(overlay)
		f.Must(err)
		f.Must(os.WriteFile(filepath.Join(folder, "overlay.json"), encoded, 0o600))
		for _, name := range []string{"go.mod", "go.sum"} { // The suite needs modules that nothing else needs.
			content, err := os.ReadFile(name)
			f.Must(err)
			f.Must(os.WriteFile(filepath.Join(folder, name), content, 0o600))
		}
		program := filepath.Join(folder, "suite.test")
		build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-o", program, "-mod=mod", "-modfile="+filepath.Join(folder, "go.mod"),
			"-overlay="+filepath.Join(folder, "overlay.json"), "./suite")
		build.Env = append(build.Environ(), "GOWORK=off")
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building the suite for %s: %v\n%s", by, err, output)
		}
		suite := exec.CommandContext(t.Context(), program, "-ginkgo.no-color", "-ginkgo.focus="+*specs)
		suite.Dir = folder
		suite.Env = append(suite.Environ(), "KUBEBUILDER_ASSETS="+assets)
		output, err := suite.CombinedOutput() // Specs that fail are compared below.
		summary := regexp.MustCompile(`(\d+) Passed \| (\d+) Failed`).FindString(string(output))
		if summary == "" {
			t.Fatalf("on %s the suite does not run: %v\n%s", by, err, output)
		}
		t.Logf("on %s: %s", by, summary)
		for _, match := range regexp.MustCompile(`(?m)^  \[FAIL\] (.*)$`).FindAllStringSubmatch(string(output), -1) {
			if !strings.HasSuffix(match[1], refused) {
				failed[by] = append(failed[by], match[1])
			}
		}
		slices.Sort(failed[by])
	}
	if !slices.Equal(failed[porttest.Bellerophon], failed[porttest.ControllerRuntime]) {
		t.Errorf("on Bellerophon these specs fail: %q; on controller-runtime: %q", failed[porttest.Bellerophon], failed[porttest.ControllerRuntime])
	}
}
