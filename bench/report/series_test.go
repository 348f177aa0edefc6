package report

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// runWithSeries copies the run of testdata and adds made-up time series for the rounds of its first
// turn of burst. promtool writes them in the format of Prometheus.
func runWithSeries(t *testing.T) string {
	t.Helper()
	promtool := tool(t, "promtool", "prometheus")
	dir := copyOfRun(t)
	_, rounds, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range []string{
		"controller_runtime_reconcile_total counter", "workqueue_depth gauge", "process_resident_memory_bytes gauge", "process_cpu_seconds_total counter",
		"reconciliations_started_total counter", "reconciliations_queue gauge",
	} {
		name, kind, _ := strings.Cut(family, " ")
		fmt.Fprintf(&text, "# TYPE %s %s\n", strings.TrimSuffix(name, "_total"), kind)
		for _, round := range rounds {
			isJava := strings.HasPrefix(name, "reconciliations")
			if round.Scenario != "burst" || round.Turn != 0 || isJava != (round.Contender == "quarkus") || (isMemory(name) && round.Contender == "ideal") {
				continue
			}
			for second := range int(round.End.Sub(round.Start).Seconds()) + 1 {
				fmt.Fprintf(&text, "%s{job=\"contender\",contender=%q} %g %d\n", name, round.Contender, madeUp(name, round.Contender, second), round.Start.Add(time.Duration(second)*time.Second).Unix())
			}
		}
	}
	text.WriteString("# EOF\n")
	input := filepath.Join(t.TempDir(), "series.txt")
	if err := os.WriteFile(input, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), promtool, "tsdb", "create-blocks-from", "openmetrics", input, filepath.Join(dir, "prometheus")).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool: %v\n%s", err, output)
	}
	return dir
}

// complete returns the complete data of a run.
func complete(t *testing.T, dir string) data {
	t.Helper()
	run, rounds, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := completeData(dir, groupsOf(run, rounds))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// isMemory reports whether a metric is memory, which the ideal client does not serve.
func isMemory(name string) bool { return name == "process_resident_memory_bytes" }

// madeUp returns a value that rises and falls, at a different pace for each contender.
func madeUp(name, contender string, second int) float64 {
	pace := map[string]float64{Ours: 1, "controller-runtime": 0.6, "quarkus": 0.35, "ideal": 1.1}[contender]
	at := float64(second) * pace
	switch name {
	case "controller_runtime_reconcile_total", "reconciliations_started_total":
		return 500 * math.Min(at, 12)
	case "workqueue_depth", "reconciliations_queue":
		return math.Max(0, 400*math.Sin(at/4))
	case "process_resident_memory_bytes":
		return (40 + 3*math.Min(at, 12)) / pace * (1 << 20)
	}
	return math.Min(at, 12) / pace * 0.8
}

// copyOfRun copies the run of testdata.
func copyOfRun(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/run")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tool finds a program or skips the test.
func tool(t *testing.T, program, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("there is no %s; on Debian: apt-get install %s", program, debianPackage)
	}
	return path
}

func TestARoundsPointsAreThoseOfItsContender(t *testing.T) {
	dir := runWithSeries(t)
	tool(t, "prometheus", "prometheus")
	run, rounds, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	groups := groupsOf(run, rounds)
	first := groups[0]
	if first.Key != "burst n=500, turn 0" || len(first.rounds) != 3 || first.rounds[0].Contender != Ours {
		t.Fatalf("the first group is %+v", first)
	}
	err = withPrometheus(t.Context(), complete(t, dir), func(ctx context.Context, prometheus running) error {
		var lines []line
		for _, key := range []string{first.Key, "burst n=500, warm, turn 0", "burst n=500, memory=64MiB, turn 0"} {
			group := groups[slices.IndexFunc(groups, func(g group) bool { return g.Key == key })]
			found, err := prometheus.querier.lines(ctx, group, "bench:queue_depth", 100)
			if err != nil {
				return err
			}
			lines = append(lines, found...)
		}
		for _, line := range lines {
			metric := "workqueue_depth"
			if line.Contender == "quarkus" {
				metric = "reconciliations_queue"
			}
			if len(line.Points) != 26 {
				t.Errorf("%s has %d points, not one per second from 5 to 30; earlier rates could include the previous round", line.Label, len(line.Points))
				continue
			}
			for i, point := range line.Points {
				second := i + 5
				if want := [2]float64{float64(second), rounded(madeUp(metric, line.Contender, second))}; point != want {
					t.Errorf("%s has the point %v, not %v", line.Label, point, want)
				}
			}
		}
		var labels []string
		for _, line := range lines {
			labels = append(labels, line.Label)
		}
		want := "bellerophon, controller-runtime, ideal, quarkus (warm), bellerophon memory=64MiB, controller-runtime memory=64MiB"
		if got := strings.Join(labels, ", "); got != want {
			t.Errorf("the lines are not in the order of the run: %s", got)
		}
		_, err = prometheus.querier.lines(ctx, first, "up", 100)
		if err == nil || !strings.Contains(err.Error(), `query "up"`) {
			t.Errorf("a series that has no rule: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAGroupHasOneSettingAndTheDefaultsComeFirst(t *testing.T) {
	run := rundir.Run{Contenders: []string{Ours, "b"}}
	var rounds []rundir.Round
	for _, setting := range []string{"workers=32", "memory=512MiB", "workers=8", "memory=64MiB", "default"} {
		for turn := range 2 {
			for _, contender := range []string{"b", Ours} {
				round := rundir.Round{Scenario: "burst", Variant: "n=1000", Contender: contender, Setting: setting, Turn: turn, Warm: false}
				rounds = append(rounds, round)
				if round.Warm = true; setting == "default" {
					rounds = append(rounds, round)
				}
			}
		}
	}
	var got, taken, want []string
	groups := groupsOf(run, rounds)
	for _, group := range groups {
		got = append(got, group.Key)
		if len(group.rounds) != 2 || group.rounds[0].Contender != Ours || group.rounds[1].Contender != "b" {
			t.Errorf("%s has the rounds %+v", group.Key, group.rounds)
		}
	}
	for _, group := range fullest(groups) {
		taken = append(taken, group.Name)
	}
	names := []string{"burst n=1000", "burst n=1000, warm", "burst n=1000, memory=64MiB", "burst n=1000, memory=512MiB", "burst n=1000, workers=8", "burst n=1000, workers=32"}
	for _, name := range names {
		want = append(want, name+", turn 0", name+", turn 1")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, not %q", got, want)
	}
	if !slices.Equal(taken, names) {
		t.Errorf("taken for the file are %q, not one of each of %q", taken, names)
	}
}

func TestGroupsAreTurnsInOrder(t *testing.T) {
	run := rundir.Run{Scenarios: []string{"burst n=50", "burst n=6"}, Contenders: []string{"b", Ours}}
	round := func(variant, contender string, turn int) rundir.Round {
		return rundir.Round{Scenario: "burst", Variant: variant, Contender: contender, Turn: turn, Failed: strings.Repeat("x", turn)}
	}
	groups := groupsOf(run, []rundir.Round{round("n=50", "b", 1), round("n=50", Ours, 1), round("n=50", "b", 0), round("n=6", "b", 0)})
	var got []string
	for _, group := range groups {
		got = append(got, group.Key+":")
		for _, round := range group.rounds {
			got = append(got, round.Contender+fate(round))
		}
	}
	want := "burst n=50, turn 0: b burst n=50, turn 1: bellerophon (failed) b (failed) burst n=6, turn 0: b"
	if strings.Join(got, " ") != want {
		t.Errorf("got %q", strings.Join(got, " "))
	}
	if taken := fullest(groups); len(taken) != 2 || taken[0].Key != "burst n=50, turn 0" {
		t.Errorf("taken for the file: %+v", taken)
	}
}

func TestFourDigitsAreKept(t *testing.T) {
	for value, want := range map[float64]float64{0: 0, 123456: 123500, 0.00123456: 0.001235, -7.77777: -7.778, 5e-324: 5e-324} {
		if got := rounded(value); got != want {
			t.Errorf("%v became %v, not %v", value, got, want)
		}
	}
}
