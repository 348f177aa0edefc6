package report

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/golden"
	"github.com/spf13/cobra"
)

// run runs a command with its output in a pipe.
func run(t *testing.T, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := &cobra.Command{Use: "bench", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Commands()...)
	root.SetArgs(arguments)
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestGoalsPrintsALineForEach(t *testing.T) {
	out, _, err := run(t, "goals", "testdata/run")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/goals.txt", out)
}

func TestGoalsFailsOnRequestIfOneIsMissed(t *testing.T) {
	if _, _, err := run(t, "goals", "--check", "testdata/run"); err == nil || !strings.Contains(err.Error(), ": 1 missed") {
		t.Errorf("goals --check of a run with missed goals: %v", err)
	}
	dir := t.TempDir()
	if err := rundir.WriteRun(dir, rundir.Run{}); err != nil {
		t.Fatal(err)
	}
	out, _, err := run(t, "goals", "--check", dir)
	all := Summarize(rundir.Run{}, nil)
	if err != nil || !strings.HasPrefix(all.Verdicts(), "Goals of its scenarios: 0 of ") || !strings.HasSuffix(out, "\n"+all.Verdicts()+"\n") {
		t.Errorf("goals --check of a run without rounds: %v, after\n%s", err, out)
	}
}

func TestReportWithoutToolsWritesTextAndSaysWhatIsLeftOut(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := copyOfRun(t)
	out, errs, err := run(t, "report", dir)
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "report.md") + "\n" + filepath.Join(dir, "report.html") + "\n" +
		"38 of 42 rounds are complete; Bellerophon is worse in 6 comparisons and better in 25\n"
	if out != want {
		t.Errorf("it prints\n%s\nnot\n%s", out, want)
	}
	for _, part := range []string{"no time series: ", "apt-get install prometheus", "no pictures: ", "apt-get install chromium"} {
		if !strings.Contains(errs, part) {
			t.Errorf("it does not say %q but\n%s", part, errs)
		}
	}
	markdown, err := os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/report.md", string(markdown))
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"1.31x slower", "it did not converge within 30 s", "another process took 31 % of the processor", "no Rust compiler | in this made-up run", "uPlot",
		`<td>controller-runtime</td><td>128 MiB</td><td class="number">120 MiB</td>`} {
		if !strings.Contains(string(page), part) {
			t.Errorf("the page lacks %q", part)
		}
	}
}

func TestTheReportIsThereForScripts(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	out, _, err := run(t, "report", "--json", copyOfRun(t))
	if err != nil {
		t.Fatal(err)
	}
	var written Written
	if err := json.Unmarshal([]byte(out), &written); err != nil {
		t.Fatal(err)
	}
	if len(written.Files) != 2 || len(written.LeftOut) != 2 || written.Counts != 38 || written.Tables[0].Blocks[0].Rows[3].Verdict != "1.52x faster" ||
		written.Limits[0].Rows[0].MiB != 64 {
		t.Errorf("got %s", out)
	}
	out, _, err = run(t, "goals", "--json", "testdata/run")
	var goals []Goal
	if err != nil || json.Unmarshal([]byte(out), &goals) != nil || len(goals) < 25 || goals[0].Verdict != NotMeasured ||
		!slices.ContainsFunc(goals, func(goal Goal) bool { return goal.Peer == "ideal" && goal.Verdict == Open }) {
		t.Errorf("got %s: %v", out, err)
	}
}

func TestErrorsSayAWayOut(t *testing.T) {
	none := t.TempDir()
	for _, command := range []string{"report", "goals", "inspect"} {
		if _, _, err := run(t, command, none); err == nil || !strings.Contains(err.Error(), "give the folder of a run of the comparison") {
			t.Errorf("%s of a folder without a run: %v", command, err)
		}
	}
	t.Setenv("PATH", none)
	_, _, err := run(t, "inspect", "testdata/run")
	if err == nil || !strings.Contains(err.Error(), "apt-get install prometheus") || !strings.Contains(err.Error(), "go run ./bench report testdata/run") {
		t.Errorf("inspect without Prometheus: %v", err)
	}
}

func TestInspectOfARunThatWasNotScrapedSaysSo(t *testing.T) {
	tool(t, "prometheus", "prometheus")
	_, _, err := run(t, "inspect", "testdata/run")
	if err == nil || !strings.Contains(err.Error(), "the run was not scraped, or its data was not kept") || !strings.Contains(err.Error(), "go run ./bench report testdata/run") {
		t.Errorf("got %v", err)
	}
}

func TestAReportKeepsTheTimeSeriesWhoseDataIsGone(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := copyOfRun(t)
	summary, rounds, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	kept := groupsOf(summary, rounds)[0].Key
	series := seriesOf{kept: {panels[0].Record: {{Label: "</script>", Points: [][2]float64{{1, 42}}}}}}
	file := filepath.Join(dir, SeriesFile)
	if err := save(file, func(out io.Writer) error { return series.write(out, groupsOf(summary, rounds)) }); err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, dir)
	if _, _, err := run(t, "inspect", dir); err == nil || !strings.Contains(err.Error(), "the time series of one turn") {
		t.Errorf("inspect says %v, want that the page has series", err)
	}
	_, errs, err := run(t, "report", dir)
	if err != nil || strings.Contains(errs, "no time series") {
		t.Errorf("report says %q: %v", errs, err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !strings.Contains(string(page), `[[1,42]]`) {
		t.Errorf("the page has no kept series: %v", err)
	}
	for file := range strings.Lines(before) {
		if !strings.Contains(filesOf(t, dir), file) {
			t.Errorf("report changed %s", file)
		}
	}
	if err := os.WriteFile(file, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, "report", dir); err == nil || !strings.Contains(err.Error(), "delete the file") {
		t.Errorf("report of damaged series says %v", err)
	}
}

func TestACommandThatRepeatsTheRunCanBePasted(t *testing.T) {
	summary := Summary{}
	summary.Run.Flags = []string{"--turns=5", "--only=a b", "it's"}
	if got, want := summary.Repeat(), `go run ./bench run --turns=5 '--only=a b' 'it'\''s' --out=bin/again`; got != want {
		t.Errorf("got %s, not %s", got, want)
	}
}
