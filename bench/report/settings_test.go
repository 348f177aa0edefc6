package report

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

func TestATableHasTheFormsOfAFrameworkTogetherWithTheirSettings(t *testing.T) {
	run := rundir.Run{Settings: map[string]rundir.Settings{}}
	var rounds []rundir.Round
	for _, c := range slices.Backward(contender.All()) {
		if c.Name != "tutorial" {
			run.Settings[c.Name] = c.Defaults
		}
		rounds = append(rounds, of("burst", "n=5", c.Name, rundir.Converge, 1)...)
	}
	for _, setting := range []string{"workers=8", "memory=64MiB"} {
		rounds = append(rounds, with(func(round *rundir.Round) { round.Setting = setting }, of("burst", "n=5", "quarkus", rundir.Converge, 1))...)
	}
	var got []string
	for _, row := range Summarize(run, rounds).Tables[0].Blocks[0].Rows {
		got = append(got, strings.Join([]string{row.Label, row.Settings.Workers, row.Settings.HeapLimit, row.Settings.Processors}, " | "))
	}
	want := []string{
		"bellerophon | 32 | none | 1 or all",
		"controller-runtime | 1 | none | all",
		"controller-runtime-tuned | 32 | none | all",
		"controller-runtime-equal | 32 | none | 1 or all",
		"kube-rs | no limit | none | all",
		"kube-rs-equal | 32 | none | all",
		"quarkus | 50 | 1/4 of the memory | all",
		"quarkus memory=64MiB | 50 | 64 MiB | all",
		"quarkus workers=8 | 8 | 1/4 of the memory | all",
		"quarkus-container | 50 | 80 % of the memory | all",
		"tutorial | not recorded | not recorded | not recorded",
		"ideal | 32 | none | all",
		"ideal-progress | 32 | none | all",
		"ideal-http1 | 32 | none | all",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the rows are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestARowShowsTheHardLimitsOfItsContender(t *testing.T) {
	rounds := slices.Concat(of("burst", "n=5", Ours, rundir.Converge, 1), of("burst", "n=5", "kube-rs", rundir.Converge, 2))
	run := rundir.Run{Settings: map[string]rundir.Settings{
		"kube-rs": {Workers: "32", HeapLimit: "none", Processors: "all", Limits: "1 CPU and 256Mi"}, Ours: {Workers: "32", HeapLimit: "none", Processors: "all"},
	}}
	var text, page strings.Builder
	summary := Summarize(run, rounds)
	if err := errors.Join(summary.Markdown(&text), pageText{Summary: summary}.write(&page)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| kube-rs | 32 | none | all; hard limits 1 CPU and 256Mi |", "bellerophon | 32 | none | all |"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("report.md lacks %q:\n%s", want, &text)
		}
	}
	if want := "<td>all; hard limits 1 CPU and 256Mi</td>"; strings.Count(page.String(), want) != 1 {
		t.Errorf("report.html does not have %q once", want)
	}
}

func TestTheHeatMapHasTheEqualFormOfAFrameworkFirst(t *testing.T) {
	var rounds []rundir.Round
	for _, name := range []string{Ours, "kube-rs", "controller-runtime", "somebody-else", "controller-runtime-tuned", "kube-rs-equal", "controller-runtime-equal", "quarkus"} {
		rounds = append(rounds, of("burst", "n=5", name, rundir.Converge, 1)...)
	}
	got := strings.Join(heatOf(rundir.Run{}, rounds).Contenders, " ")
	if want := "controller-runtime-equal controller-runtime-tuned controller-runtime kube-rs-equal kube-rs quarkus (cold JVM) somebody-else"; got != want {
		t.Errorf("the columns are %q, want %q", got, want)
	}
}
