package conformance_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/conformance"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
)

var (
	names = flag.String("contender", "bellerophon,controller-runtime", "the contenders to check, with commas between them, or all")
	only  = flag.String("checks", "", "the numbers of the checks to run, with commas between them; default all")
)

// quiet is a second and a half: longer than a status on its way may wait, and short, as
// much of the suite's time is spent so.
const quiet = 1500 * time.Millisecond

func TestMain(m *testing.M) { clustertest.Main(m) }

func TestContendersDoWhatTheContractSays(t *testing.T) {
	chosen := contender.All()
	if *names != "all" {
		var err error
		if chosen, err = contender.Named(*names); err != nil {
			t.Fatal(err)
		}
	}
	options := conformance.Options{Quiet: quiet, Progress: func(title string) { t.Log(time.Now().Format(time.TimeOnly), title) }}
	if *only != "" {
		options.Only = strings.Split(*only, ",")
	}
	var reports []*conformance.Report
	var table strings.Builder
	for _, c := range chosen {
		if missing := c.Missing(); missing != "" {
			table.WriteString(missing + "\n")
		}
		t.Run(c.Name, func(t *testing.T) {
			subject := subjectOf(t, c)
			report, err := conformance.Run(t.Context(), clustertest.Shared(t).AdminConfig(), subject, options)
			if err != nil {
				t.Fatal(err)
			}
			reports = append(reports, report)
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			for _, outcome := range report.Outcomes {
				missed := outcome.Err != nil
				if outcome.Reported && missed != slices.Contains(c.NotMet, outcome.Number) {
					t.Errorf("that it does not meet %s is %v, but its NotMet in bench/contender is %v", outcome.Number, missed, c.NotMet)
				}
			}
		})
	}
	if err := conformance.WriteTable(&table, reports...); err != nil {
		t.Error(err)
	}
	t.Log("\n" + table.String())
}

// subjectOf builds a contender, or skips the test on a machine that cannot.
func subjectOf(t *testing.T, c contender.Contender) conformance.Subject {
	t.Helper()
	if missing := c.Missing(); missing != "" {
		t.Skip(missing)
	}
	program, err := c.Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(t.TempDir(), c.Name+".log")
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		if text, err := os.ReadFile(output); err == nil {
			t.Logf("the last of its output:\n%s", text[max(0, len(text)-8000):])
		}
	})
	return conformance.Subject{
		Name: c.Name, Version: program.Version, CreatesOnly: c.CreatesOnly,
		Start: func(ctx context.Context, kubeconfig string) (conformance.Process, error) {
			return program.Start(context.WithoutCancel(ctx), contender.Settings{Kubeconfig: kubeconfig, Output: output})
		},
	}
}
