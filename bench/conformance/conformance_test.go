package conformance_test

import (
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
	names = flag.String("contender", "bellerophon,controller-runtime", "the contenders to check, separated by commas, or all")
	only  = flag.String("checks", "", "the numbers of the checks to run, separated by commas; default all")
)

func TestMain(m *testing.M) { clustertest.Main(m) }

func TestContendersDoWhatTheContractSays(t *testing.T) {
	chosen := contender.All()
	if *names != "all" {
		var err error
		if chosen, err = contender.Named(*names); err != nil {
			t.Fatal(err)
		}
	}
	var numbers []string
	if *only != "" {
		numbers = strings.Split(*only, ",")
	}
	var reports []*conformance.Report
	var table strings.Builder
	for _, c := range chosen {
		missing := c.Missing(t.Context())
		if missing != "" {
			table.WriteString(missing + "\n")
		}
		t.Run(c.Name, func(t *testing.T) {
			if missing != "" {
				// A missing toolchain is not a failure: Bellerophon can be tested without a JDK
				// or cargo. The skip says what is missing, so that it does not look like a
				// contender that passed.
				t.Skip(missing)
			}
			program, err := c.Build(t.Context(), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			// A run of the comparison on this machine does not check again the contenders that
			// pass here.
			report, err := conformance.Qualify(t.Context(), clustertest.Shared(t).AdminConfig(), program, outputOf(t, c), conformance.Options{
				Only: numbers, Progress: func(title string) { t.Log(time.Now().Format(time.TimeOnly), title) },
			})
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
					t.Errorf("it fails the reported check %s: %v, but its NotMet in bench/contender is %v", outcome.Number, missed, c.NotMet)
				}
			}
		})
	}
	if err := conformance.WriteTable(&table, reports...); err != nil {
		t.Error(err)
	}
	t.Log("\n" + table.String())
}

// outputOf returns a file for the output of a contender. The end of the file is logged if the
// test fails.
func outputOf(t *testing.T, c contender.Contender) string {
	t.Helper()
	output := filepath.Join(t.TempDir(), c.Name+".log")
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		if text, err := os.ReadFile(output); err == nil {
			t.Logf("the end of its output:\n%s", text[max(0, len(text)-8000):])
		}
	})
	return output
}
