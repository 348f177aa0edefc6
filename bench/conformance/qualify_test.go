package conformance_test

import (
	"path/filepath"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/conformance"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
)

func TestOnlyWhoPassedAllRequiredChecksHasPassed(t *testing.T) {
	chosen, err := contender.Named("ideal")
	if err != nil {
		t.Fatal(err)
	}
	program, err := chosen[0].Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	config := clustertest.Shared(t).AdminConfig()
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // Hide the passes that other tests recorded.
	directory := t.TempDir()
	for _, step := range []struct {
		name   string
		output string
		only   []string
		failed int
		passed bool
	}{
		{"one that does not start", filepath.Join(directory, "none", "output.log"), nil, 1, false},
		{"some checks of all", filepath.Join(directory, "output.log"), []string{"8.1"}, 0, false},
		{"all checks", filepath.Join(directory, "output.log"), nil, 0, true},
	} {
		report, err := conformance.Qualify(t.Context(), config, program, step.output, conformance.Options{Only: step.only})
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if failed := report.FailedRequired(); len(failed) != step.failed {
			t.Errorf("%s: %v failed, want %d", step.name, failed, step.failed)
		}
		if passed, err := conformance.Passed(program); err != nil || passed != step.passed {
			t.Errorf("%s: Passed() = %v, %v, want %v", step.name, passed, err, step.passed)
		}
	}
}
