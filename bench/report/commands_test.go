package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// run runs a command, as a person does on a pipe.
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
	golden(t, "testdata/goals.txt", out)
}

func TestReportWithoutToolsWritesTextAndSaysWhatIsLeftOut(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := copyOfRun(t)
	out, errs, err := run(t, "report", dir)
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "report.html") + "\n" + filepath.Join(dir, "report.md") + "\n" +
		"38 of 42 rounds count; Bellerophon is worse in 6 comparisons and better in 25\n"
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
	golden(t, "testdata/report.md", string(markdown))
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
	if err != nil || json.Unmarshal([]byte(out), &goals) != nil || len(goals) != 27 || goals[0].Met || !goals[11].Met || goals[11].Peer != "floor" {
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
	text := pageText{Summary: Summarize(summary, rounds), Data: dataOf(Summarize(summary, rounds), rounds)}
	kept := text.Data.Groups[0].Key
	text.Data.Series = map[string]map[string][]line{kept: {panels[0].Record: {{Label: "</script>", Points: [][2]float64{{1, 42}}}}}}
	page := filepath.Join(dir, "report.html")
	if err := save(page, text.write); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, "inspect", dir); err == nil || !strings.Contains(err.Error(), "or open "+page) {
		t.Errorf("inspect says %v, want that the page has series", err)
	}
	_, errs, err := run(t, "report", dir)
	if err != nil || strings.Contains(errs, "no time series") {
		t.Errorf("report says %q: %v", errs, err)
	}
	if series := seriesIn(page); len(series) != 1 || series[kept][panels[0].Record][0].Points[0][1] != 42 {
		t.Errorf("the page has %v, want what it had", series)
	}
}

func TestACommandThatRepeatsTheRunCanBePasted(t *testing.T) {
	summary := Summary{}
	summary.Run.Flags = []string{"--turns=5", "--only=a b", "it's"}
	if got, want := summary.Repeat(), `go run ./bench run --turns=5 '--only=a b' 'it'\''s' --out=bin/again`; got != want {
		t.Errorf("got %s, not %s", got, want)
	}
}
