package simulation

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestACellOutOfItsRangeNamesTheFlag(t *testing.T) {
	good := Cell{Objects: 1000, Replicas: 3, Changes: DefaultChanges, Rate: DefaultRate, Caches: All}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	for flag, change := range map[string]func(*Cell){
		"--objects":  func(c *Cell) { c.Objects = 1001 },
		"--replicas": func(c *Cell) { c.Replicas = 0 },
		"--changes":  func(c *Cell) { c.Changes = -1 },
		"--caches":   func(c *Cell) { c.Caches = "some" },
		"--rate":     func(c *Cell) { c.Rate = 1 },
	} {
		bad := good
		change(&bad)
		if err := bad.validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%+v: the error is %v, want one that names %s", bad, err, flag)
		}
	}
}

func TestAnInterruptedSimulationResumes(t *testing.T) {
	o := options{objects: []int{5000, 1000}, replicas: []int{1, 3}, cell: Cell{Changes: 10, Rate: DefaultRate, Caches: All}, out: folder(t.TempDir()), output: "text"}
	cells, err := o.missing()
	if err != nil || len(cells) != 4 || cells[0].Objects != 1000 {
		t.Fatalf("missing are %+v (%v), want four cells with the fewest objects first", cells, err)
	}
	if err := o.out.put(Result{Cell: cells[0]}); err != nil {
		t.Fatal(err)
	}
	if err := o.out.put(Result{Cell: cells[1], Real: true}); err != nil { // Another run of the cell.
		t.Fatal(err)
	}
	if cells, err = o.missing(); err != nil || len(cells) != 3 || cells[0].Replicas != 3 {
		t.Errorf("missing are %+v (%v), want the other three cells", cells, err)
	}
	o.cell.Changes = 20
	if _, err := o.missing(); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("the error is %v, want one that says that the folder has results of other settings", err)
	}
}

func TestTheTableComparesWithRealRuns(t *testing.T) {
	phases := func(requests int, bytes int64) []Phase {
		return []Phase{{Name: started, All: Traffic{Pages: requests, PageBytes: bytes}}}
	}
	cell := Cell{Objects: 1000, Replicas: 3}
	results := []Result{{Cell: cell, Phases: phases(102, 970)}, {Cell: cell, Real: true, Phases: phases(100, 1000)}}
	var out bytes.Buffer
	if err := printResults(results, false, &out); err != nil {
		t.Fatal(err)
	}
	if want := "1000 objects, 3 replicas, simulated over real: requests +2.0 %, bytes -3.0 %\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("the table ends with\n%s\nwant\n%s", out.String(), want)
	}
}

func TestPicturesHaveALineForEachNumberOfReplicas(t *testing.T) {
	var results []Result
	for _, objects := range []int{1000, 10_000} {
		for _, replicas := range []int{1, 3} {
			made := Result{Cell: Cell{Objects: objects, Replicas: replicas}}
			for _, name := range []string{joined, left, crashed} {
				made.Phases = append(made.Phases, Phase{Name: name, HandOver: 1, Moved: 7, All: Traffic{PageBytes: int64(objects) * 1000}})
			}
			results = append(results, made)
		}
	}
	dir := t.TempDir()
	if err := draw(results, dir); err != nil {
		t.Fatal(err)
	}
	for file, lines := range map[string]int{"simulation-bytes.svg": 2, "simulation-handover.svg": 3} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(text), "<polyline"); got != lines || strings.Contains(string(text), "NaN") || strings.Contains(string(text), "Inf") {
			t.Errorf("%s has %d lines, want %d, and numbers alone:\n%s", file, got, lines, text)
		}
	}
}

// The page docs/simulation.md shows the committed results.
func TestThePicturesOfThePageShowTheCommittedResults(t *testing.T) {
	results, err := folder("results").all()
	if err != nil || len(results) == 0 {
		t.Fatalf("there are no results (%v)", err)
	}
	dir := t.TempDir()
	if err := draw(results, dir); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"simulation-bytes.svg", "simulation-handover.svg"} {
		want, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", file))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not drawn from the results (%v); draw it again: docs/simulation.md has the command", file, err)
		}
	}
}
