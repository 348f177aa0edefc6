package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// committedRuns returns the folders of the committed runs.
func committedRuns(t *testing.T) (dirs []string) {
	t.Helper()
	runs, err := filepath.Glob("../results/*/run.json")
	if err != nil || len(runs) == 0 {
		t.Fatalf("there are no committed runs: %v", err)
	}
	for _, run := range runs {
		dirs = append(dirs, filepath.Dir(run))
	}
	return dirs
}

// dashboardText is the part of a dashboard that a test reads, with the names of Grafana's files.
type dashboardText struct {
	Time   struct{ From, To time.Time }
	Links  []struct{ Title, URL string }
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// dashboardOfPage makes the dashboard of a page.
func dashboardOfPage(t *testing.T, summary Summary, of pageData) (made dashboardText) {
	t.Helper()
	var text bytes.Buffer
	if err := writeDashboard(&text, summary.Run, of); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text.Bytes(), &made); err != nil {
		t.Fatal(err)
	}
	return made
}

// has reports whether a record has a sample in a group.
func (s seriesOf) has(group group, record string) bool {
	for _, line := range s[group.Key][record] {
		if len(line.Points) > 0 {
			return true
		}
	}
	return false
}

// TestEachCommittedRunOpensInPrometheus imports the series of each run. The page then gets each kept sample
// from Prometheus, and each query of the dashboard returns samples if the run has some of its record.
func TestEachCommittedRunOpensInPrometheus(t *testing.T) {
	tool(t, "prometheus", "prometheus")
	tool(t, "promtool", "prometheus")
	asked := map[string]int{} // queries of dashboards that returned samples, by the title of the panel
	for _, dir := range committedRuns(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			run, rounds, err := read(dir)
			if err != nil {
				t.Fatal(err)
			}
			summary := Summarize(run, rounds)
			page := dataOf(summary, rounds)
			kept, err := readSeries(dir, page.Groups)
			if err != nil || kept == nil {
				t.Fatalf("the run keeps no series: %v", err)
			}
			from, err := keptData(dir, page.Groups)
			if err != nil {
				t.Fatal(err)
			}
			page.Groups = from.groups
			board := dashboardOfPage(t, summary, page)
			err = withPrometheus(t.Context(), from, func(ctx context.Context, prometheus running) error {
				got, err := prometheus.querier.all(ctx, from.groups)
				if err != nil {
					return err
				}
				if !reflect.DeepEqual(got, kept) {
					t.Error("Prometheus does not answer with the samples that the run keeps")
				}
				for i, panel := range panels {
					for _, group := range from.groups {
						if !kept.has(group, panel.Record) {
							continue
						}
						began, ended := group.span()
						expression := strings.ReplaceAll(board.Panels[i].Targets[0].Expr, "$contender", ".*")
						answer, _, _, err := prometheus.querier.api.QueryRange(ctx, expression, v1.Range{Start: began, End: ended, Step: time.Second})
						if err != nil {
							return err
						}
						if matrix, is := answer.(model.Matrix); !is || len(matrix) == 0 {
							t.Errorf("%s, the panel %q: %s returns nothing", group.Key, board.Panels[i].Title, expression)
							continue
						}
						asked[panel.Record]++
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, panel := range panels {
		if asked[panel.Record] == 0 {
			t.Errorf("no committed run has a sample of %s, so the query of its panel was not tried", panel.Record)
		}
	}
}

// TestAKeptRunIsSmall bounds what a clone downloads for each run.
func TestAKeptRunIsSmall(t *testing.T) {
	made := map[string]bool{"report.html": true, "pictures": true, DashboardFile: true} // See .gitignore.
	for _, dir := range committedRuns(t) {
		var size int64
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case made[entry.Name()] && entry.IsDir():
				return fs.SkipDir
			case made[entry.Name()] || entry.IsDir():
				return nil
			}
			info, err := entry.Info()
			if err == nil {
				size += info.Size()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if size > 1e6 {
			t.Errorf("%s has %d bytes, more than 1 MB", dir, size)
		}
	}
}

func TestTheDashboardHasThePanelsOfThePageAtTheTimeOfATurn(t *testing.T) {
	run, rounds, err := read("testdata/run")
	if err != nil {
		t.Fatal(err)
	}
	summary := Summarize(run, rounds)
	page := dataOf(summary, rounds)
	board := dashboardOfPage(t, summary, page)
	if len(board.Panels) != len(panels) {
		t.Fatalf("the dashboard has %d panels, the page has %d", len(board.Panels), len(panels))
	}
	for i, panel := range panels {
		if its := board.Panels[i]; its.Title != panel.Title || len(its.Targets) != 1 || !strings.Contains(its.Targets[0].Expr, panel.Record) {
			t.Errorf("the panel of %s is %+v", panel.Record, its)
		}
	}
	for _, round := range page.Groups[0].rounds {
		if round.Start.Before(board.Time.From) || round.End.After(board.Time.To) {
			t.Errorf("%s is from %v to %v, outside of the dashboard's time from %v to %v", round.ID(), round.Start, round.End, board.Time.From, board.Time.To)
		}
	}
	if len(board.Links) != len(fullest(page.Groups)) || board.Links[0].Title != page.Groups[0].Key {
		t.Errorf("the links are %+v", board.Links)
	}
}

func TestTheGraphsOfPrometheusAreAtMostTenAndEndAfterTheTurnAtAFullMinute(t *testing.T) {
	run, rounds, err := read("testdata/run")
	if err != nil {
		t.Fatal(err)
	}
	groups := groupsOf(run, rounds)
	began, ended := groups[0].span()
	shown, err := url.ParseQuery(graphs(groups))
	if err != nil {
		t.Fatal(err)
	}
	if len(shown) != 10*4 || shown.Has("g10.expr") {
		t.Errorf("the graphs are %v", shown)
	}
	for i, panel := range panels[:10] {
		prefix := fmt.Sprintf("g%d.", i)
		end, endErr := time.Parse(time.DateTime, shown.Get(prefix+"end_input"))
		length, err := time.ParseDuration(shown.Get(prefix + "range_input"))
		if endErr != nil || err != nil || end.Second() != 0 || end.Before(ended) || end.Add(-length).After(began) || !strings.Contains(shown.Get(prefix+"expr"), panel.Record) {
			t.Errorf("%s: the graph ends at %v and shows %v, the turn is from %v to %v: %v, %v", panel.Record, end, length, began, ended, endErr, err)
		}
	}
}

func TestInspectOpensARunThatKeepsOnlyItsSeries(t *testing.T) {
	tool(t, "prometheus", "prometheus")
	tool(t, "promtool", "prometheus")
	dir := "../results/2026-11-24-burst"
	before := filesOf(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	opened := make(chan Opened, 1)
	inspecting := lifecycle.New(ctx)
	inspecting.Go("inspect", func(ctx context.Context) error { return Inspect(ctx, dir, func(o Opened) { opened <- o }) })
	var at Opened
	select {
	case at = <-opened:
	case <-inspecting.Context().Done():
		t.Fatal(inspecting.Wait())
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(url string, into any) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if into != nil {
			if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
				t.Errorf("%s: %v", url, err)
			}
		}
		return answer
	}
	var lines []line
	get(at.Page+"series?group=burst+n%3D1000%2C+turn+2&record=bench%3Aqueue_depth", &lines)
	if len(lines) != 4 || len(lines[0].Points) == 0 {
		t.Errorf("the page gets the lines %v", lines)
	}
	var board dashboardText
	if get(at.Dashboard, &board); len(board.Panels) != len(panels) {
		t.Errorf("the dashboard has %d panels", len(board.Panels))
	}
	to := get(at.Graphs, nil).Header.Get("Location")
	if !strings.HasPrefix(to, at.Prometheus+"/graph?") || !strings.Contains(to, "g0.end_input="+board.Time.To.Format("2006-01-02")) {
		t.Errorf("the graphs are at %s", to)
	}
	inspecting.Stop()
	if err := inspecting.Wait(); err != nil {
		t.Error(err)
	}
	if after := filesOf(t, dir); after != before {
		t.Errorf("inspecting changed the run from\n%s\nto\n%s", before, after)
	}
}

func TestInspectOfKeptSeriesWithoutPromtoolSaysWhatToInstall(t *testing.T) {
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "prometheus"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs)
	_, _, err := run(t, "inspect", "../results/2026-11-24-burst")
	if err == nil || !strings.Contains(err.Error(), "find promtool on the PATH: no such program; install it (on Debian: apt-get install prometheus)") {
		t.Errorf("it says %v", err)
	}
}

func TestDamagedTextIsNoSeries(t *testing.T) {
	for name, text := range map[string]string{
		"a text without an end":   "# TYPE bench:active gauge\nbench:active{round=\"a\"} 1 2\n",
		"a sample without a time": "# TYPE bench:active gauge\nbench:active{round=\"a\"} 1\n# EOF\n",
		"no OpenMetrics":          "{}\n# EOF\n",
	} {
		if found, err := parse([]byte(text)); err == nil {
			t.Errorf("%s is read as %v", name, found)
		}
	}
}
