package qualify

import (
	"path/filepath"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

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
		name    string
		options Options
		failed  int
		passed  bool
	}{
		{"one that does not start", Options{Output: filepath.Join(directory, "none", "output.log")}, 1, false},
		{"some checks of all", Options{Output: filepath.Join(directory, "output.log"), Only: []string{"8.1"}}, 0, false},
		{"all checks", Options{Output: filepath.Join(directory, "output.log")}, 0, true},
	} {
		report, err := Check(t.Context(), config, program, step.options)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if failed := report.FailedRequired(); len(failed) != step.failed {
			t.Errorf("%s: %v failed, want %d", step.name, failed, step.failed)
		}
		if passed, err := Passed(program); err != nil || passed != step.passed {
			t.Errorf("%s: Passed() = %v, %v, want %v", step.name, passed, err, step.passed)
		}
	}
}
