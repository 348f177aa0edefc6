package patterns

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/faults"
	"github.com/bellerophon-io/bellerophon/faults/internal/subjects"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"k8s.io/client-go/rest"
)

var (
	operators = flag.String("operators", "bellerophon", "the operators to put through faults, separated by commas, or all")
	sample    = flag.Int("sample", 6, "the number of cases of each pattern; 0 is all")
	only      = flag.String("cases", "", "pattern of the names of the cases that run")
	programs  = flag.String("programs", "", "the folder for the programs of the operators; empty for one in the user's cache directory")
	folder    = flag.String("folder", "", "the folder with the state of slices: a run goes on where the last one ended")
	limit     = flag.Duration("limit", 0, "end each pattern of each operator after this time; 0 is never")
	quiet     = flag.Duration("quiet", 3*time.Second, "how long nothing may be written after the last case")
)

var soak = flag.Duration("soak", 0, "how long the operators run without a fault while their memory is measured; 0 leaves it out")

// ours are the operators for which a failure fails the test. Other operators are compared with them.
var ours = []string{"bellerophon", "several"}

func TestMain(m *testing.M) { clustertest.Main(m) }

type pattern func(context.Context, *rest.Config, faults.Subject, faults.Options) (*faults.Report, error)

// put puts the operators through a pattern, and prints what they survive.
func put(t *testing.T, through pattern, cases int) {
	t.Helper()
	if *sample == 0 {
		cases = 0
	}
	chosen, err := regexp.Compile(*only)
	if err != nil {
		t.Fatalf("-cases: %v", err)
	}
	tested, err := subjects.Named(t.Context(), *operators, *programs)
	if err != nil {
		t.Fatal(err)
	}
	var reports []*faults.Report
	for _, subject := range tested {
		t.Run(subject.Name, func(t *testing.T) {
			report, err := through(t.Context(), clustertest.Shared(t).AdminConfig(), subject, faults.Options{
				Sample: cases, Only: chosen, Folder: *folder, Limit: *limit, Quiet: *quiet, Patience: 40 * time.Second,
				Progress: func(line string) { t.Log(time.Now().Format(time.TimeOnly), line) },
			})
			if err != nil {
				t.Fatal(err)
			}
			reports = append(reports, report)
			for _, failure := range report.Failures() {
				if slices.Contains(ours, subject.Name) {
					t.Error(failure)
				} else {
					t.Log("not survived: " + failure)
				}
			}
			if report.Left > 0 {
				t.Logf("%d cases are left for the next slice", report.Left)
			}
		})
	}
	var table strings.Builder
	if err := faults.WriteTable(&table, reports...); err != nil {
		t.Error(err)
	}
	fmt.Println()
	for line := range strings.Lines(table.String()) {
		fmt.Print("table\t" + line)
	}
	if err := faults.WriteGoals(os.Stdout, reports...); err != nil {
		t.Error(err)
	}
}

func TestAnOperatorIsKilledAtEachEffectiveWrite(t *testing.T) { put(t, faults.Kills, *sample) }

func TestAnOperatorHasAStaleViewFromEachEventOn(t *testing.T) { put(t, faults.Stale, *sample) }

func TestStreamsAndWritesOfAnOperatorAreDisturbed(t *testing.T) { put(t, faults.Streams, *sample) }

// TestTheMemoryOfAnOperatorDoesNotGrow needs the flag -soak. The goal is an hour.
func TestTheMemoryOfAnOperatorDoesNotGrow(t *testing.T) {
	if *soak == 0 {
		t.Skip("-soak is 0: a slope needs a time that is too long for CI")
	}
	tested, err := subjects.Named(t.Context(), *operators, *programs)
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range tested {
		t.Run(subject.Name, func(t *testing.T) {
			growth, err := faults.Soak(t.Context(), clustertest.Shared(t).AdminConfig(), subject, faults.Options{
				Patience: 40 * time.Second, Progress: func(line string) { t.Log(time.Now().Format(time.TimeOnly), line) },
			}, *soak)
			if err != nil {
				t.Fatal(err)
			}
			goal := growth.Goal()
			fmt.Print(goal.Line())
			if !goal.Met && slices.Contains(ours, subject.Name) {
				t.Errorf("the memory grows: %s", goal.Measured)
			}
		})
	}
}
