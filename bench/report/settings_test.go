package report

import (
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
		"quarkus | 50 | 1/4 of the machine | all",
		"quarkus memory=64MiB | 50 | 64 MiB | all",
		"quarkus workers=8 | 8 | 1/4 of the machine | all",
		"quarkus-container | 50 | 80 % of the machine | all",
		"tutorial | not recorded | not recorded | not recorded",
		"ideal | 32 | none | all",
		"ideal-progress | 32 | none | all",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the rows are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheHeatMapHasTheEqualFormOfAFrameworkFirst(t *testing.T) {
	var rounds []rundir.Round
	for _, name := range []string{Ours, "kube-rs", "controller-runtime", "somebody-else", "controller-runtime-tuned", "kube-rs-equal", "controller-runtime-equal", "quarkus"} {
		rounds = append(rounds, of("burst", "n=5", name, rundir.Converge, 1)...)
	}
	got := strings.Join(heatOf(rundir.Run{}, rounds).Contenders, " ")
	if want := "controller-runtime-equal controller-runtime-tuned controller-runtime kube-rs-equal kube-rs quarkus somebody-else"; got != want {
		t.Errorf("the columns are %q, want %q", got, want)
	}
}
