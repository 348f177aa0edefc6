package report

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/golden"
)

// folder writes a run with one storm a turn of Bellerophon and of a peer, with the given times of Bellerophon. The
// peer takes 10 s.
func folder(t *testing.T, build, peer string, times ...float64) string {
	t.Helper()
	const scenario, variant = "storm", "n=100,m=10"
	dir := t.TempDir()
	run := rundir.Run{Builds: map[string]string{Ours: build, peer: "p"}, Scenarios: []string{scenario + " " + variant}, Turns: len(times)}
	if err := rundir.WriteRun(dir, run); err != nil {
		t.Fatal(err)
	}
	theirs := slices.Repeat([]float64{10}, len(times))
	for _, round := range slices.Concat(of(scenario, variant, Ours, rundir.Converge, times...), of(scenario, variant, peer, rundir.Converge, theirs...)) {
		if err := rundir.WriteRound(dir, round); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// lineOf returns the line of the goal of a storm beside a peer, in the output of goals.
func lineOf(t *testing.T, out, peer string) string {
	t.Helper()
	const goal = "time-of-a-storm"
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "goal\t"+goal+"\t"+peer+"\t") {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("no goal %s beside %s in\n%s", goal, peer, out)
	return ""
}

func TestSeveralFoldersAreJudgedAsOneRun(t *testing.T) {
	one := folder(t, "b", "kube-rs-equal", 8, 8, 8)
	two := folder(t, "b", "kube-rs-equal", 12, 12, 12)
	other := folder(t, "b", "controller-runtime-equal", 5, 5, 5, 5, 5, 5)
	out, _, err := run(t, "goals", one, two, other)
	if err != nil {
		t.Fatal(err)
	}
	// No turn is left out, and none is paired with a turn of another folder.
	if got, want := lineOf(t, out, "kube-rs-equal"), "1 (0.8 to 1.2, storm n=100,m=10, 6 turns)\t<= 1\topen"; !strings.HasSuffix(got, want) {
		t.Errorf("of two folders with the peer: %s, want %s", got, want)
	}
	if got, want := lineOf(t, out, "controller-runtime-equal"), "0.5 (storm n=100,m=10, 6 turns)\t<= 1\tmet"; !strings.HasSuffix(got, want) {
		t.Errorf("of the one folder with the peer: %s, want %s", got, want)
	}
	if got, want := lineOf(t, out, "quarkus-container"), "quarkus-container did not take part"; !strings.Contains(got, want) {
		t.Errorf("of no folder with the peer: %s, want %s", got, want)
	}
}

func TestFoldersOfDifferentProgramsAreNotJudgedTogether(t *testing.T) {
	one := folder(t, "b", "kube-rs-equal", 8)
	two := folder(t, "another", "kube-rs-equal", 8)
	if _, _, err := run(t, "goals", one, two); err == nil || !strings.Contains(err.Error(), "another program") || !strings.Contains(err.Error(), two) {
		t.Errorf("goals of two programs: %v", err)
	}
	if _, _, err := run(t, "goals", one, filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("goals of a folder that does not exist: no error")
	}
}

// started moves the start of the run in a folder by hours.
func started(t *testing.T, dir string, hours int) string {
	t.Helper()
	its, _, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	its.Started = time.Date(2026, 1, 2, 3+hours, 0, 0, 0, time.UTC)
	if err := rundir.WriteRun(dir, its); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOfAPeerTheNewestProgramCounts(t *testing.T) {
	const peer = "kube-rs-equal"
	newer := started(t, folder(t, "b", peer, 5, 5, 5, 5, 5, 5), 1)
	older := started(t, folder(t, "b", peer, 20, 20, 20, 20, 20, 20), 0)
	its, _, err := read(older)
	if err != nil {
		t.Fatal(err)
	}
	its.Builds[peer] = "an earlier one"
	if err := rundir.WriteRun(older, its); err != nil {
		t.Fatal(err)
	}
	for _, order := range [][]string{{older, newer}, {newer, older}} {
		out, notes, err := run(t, append([]string{"goals"}, order...)...)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := lineOf(t, out, peer), "0.5 (storm n=100,m=10, 6 turns)\t<= 1\tmet"; !strings.HasSuffix(got, want) {
			t.Errorf("the goal is %s, want %s", got, want)
		}
		if want := "left out: " + peer + " of " + older + " (6 rounds)"; !strings.Contains(notes, want) {
			t.Errorf("it says %q, want %q in it", notes, want)
		}
		for _, dir := range order {
			if err := os.WriteFile(filepath.Join(dir, "report.md"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		page := filepath.Join(t.TempDir(), "page.md")
		if _, _, err := run(t, append([]string{"report", "--out", page}, order...)...); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if want := "- " + peer + " of " + filepath.Base(older) + " (6 rounds): a newer run has another program"; !strings.Contains(string(text), want) {
			t.Errorf("the page does not say what it leaves out:\n%s", text)
		}
	}
}

func TestSeveralRunsMakeOnePage(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // Pictures would take long.
	in := t.TempDir()
	dirs := []string{filepath.Join(in, "one"), filepath.Join(in, "two")}
	for i, peer := range []string{"kube-rs-equal", "controller-runtime-equal"} {
		made := folder(t, "b", peer, 8, 8, 8, 8, 8, 8)
		if err := os.Rename(made, dirs[i]); err != nil {
			t.Fatal(err)
		}
		if _, _, err := run(t, "report", dirs[i]); err != nil {
			t.Fatal(err)
		}
	}
	before := filesOf(t, dirs[0]) + filesOf(t, dirs[1])
	page := filepath.Join(in, "page.md")
	out, _, err := run(t, "report", "--out", page, dirs[0], dirs[1])
	if want := page + "\n24 of 24 rounds are complete; Bellerophon is worse in 0 comparisons and better in 2\n"; err != nil || out != want {
		t.Fatalf("it prints\n%s\nnot\n%s: %v", out, want, err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/several.md", string(text))
	if after := filesOf(t, dirs[0]) + filesOf(t, dirs[1]); after != before {
		t.Errorf("the folders have changed from\n%s\nto\n%s", before, after)
	}
}

func TestAPageOfSeveralRunsNeedsAFileAndTheirReports(t *testing.T) {
	one, two := folder(t, "b", "kube-rs-equal", 8), folder(t, "b", "kube-rs-equal", 8)
	if _, _, err := run(t, "report", one, two); err == nil || !strings.Contains(err.Error(), "--out") {
		t.Errorf("without a file: %v", err)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if _, _, err := run(t, "report", "--out", page, one, two); err == nil || !strings.Contains(err.Error(), "go run ./bench report "+one) {
		t.Errorf("without the report of a run: %v", err)
	}
	another := folder(t, "another", "kube-rs-equal", 8)
	for _, dir := range []string{one, another} {
		if err := os.WriteFile(filepath.Join(dir, "report.md"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := run(t, "report", "--out", page, one, another); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("of two programs: %v", err)
	}
	if _, err := os.Stat(page); err == nil {
		t.Error("there is a page in spite of the errors")
	}
}

func TestThePageOfSeveralRunsDoesNotDependOnTheirOrder(t *testing.T) {
	dirs := []string{folder(t, "b", "kube-rs-equal", 8), folder(t, "b", "controller-runtime-equal", 8)}
	var pages []string
	for i, dir := range dirs {
		if err := os.WriteFile(filepath.Join(started(t, dir, i), "report.md"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, order := range [][]string{{dirs[0], dirs[1]}, {dirs[1], dirs[0]}} {
		page := filepath.Join(t.TempDir(), "page.md")
		if _, _, err := run(t, append([]string{"report", "--out", page}, order...)...); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(string(text), "")) // The addresses of the runs depend on the folder.
	}
	if pages[0] != pages[1] {
		t.Errorf("in the one order, the page is\n%s\nand in the other one\n%s", pages[0], pages[1])
	}
}
