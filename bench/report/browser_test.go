package report

import (
	"context"
	"flag"
	"fmt"
	"image/color"
	"image/png"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// browserLimit bounds a test in a browser, which starts slowly on a busy machine.
const browserLimit = 3 * time.Minute

var screenshots = flag.String("screenshots", "", "write screenshots of the browser into this `folder`")

// show writes a screenshot for -screenshots.
func show(tab context.Context, t *testing.T, name string) {
	t.Helper()
	if *screenshots == "" {
		return
	}
	content, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// filesOf lists the files of a folder with their sizes and times.
func filesOf(t *testing.T, dir string) string {
	t.Helper()
	var listed strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && !entry.IsDir() {
			fmt.Fprintln(&listed, path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return listed.String()
}

// colours counts the pixels of a chart in the colour of a contender, in the page's current theme.
func colours(tab context.Context, t *testing.T, chart, contender string) int {
	t.Helper()
	count, err := chromedp.Run(tab, chromedp.Evaluate[int](fmt.Sprintf(`{
		const canvas = document.querySelector(%q + " canvas");
		const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
		const wanted = look(%q).colour.match(/[0-9a-f]{2}/gi).map((hex) => parseInt(hex, 16));
		let count = 0;
		for (let i = 0; i < pixels.length; i += 4) count += wanted.every((part, k) => pixels[i + k] === part) && pixels[i + 3] === 255;
		count;
	}`, chart, contender)))
	if err != nil {
		t.Fatalf("read the chart %s: %v", chart, err)
	}
	return count
}

// records returns the names of the time series on the page.
func records(tab context.Context, t *testing.T) []string {
	t.Helper()
	shown, err := chromedp.Run(tab, chromedp.Evaluate[[]string](`[...document.querySelectorAll("#panels .chart")].map((chart) => chart.dataset.record)`))
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

func TestABrowserDrawsTheTimeSeriesAndItsPickersWork(t *testing.T) {
	tool(t, "chromium", "chromium")
	tool(t, "prometheus", "prometheus")
	dir := runWithSeries(t)
	before := filesOf(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), browserLimit)
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
	err := inBrowser(ctx, func(tab context.Context) error {
		if err := chromedp.Do(tab, chromedp.EmulateViewport(1240, 900), chromedp.Navigate(at.Page), waitShown("burst n=500, turn 0", "")); err != nil {
			return err
		}
		want := []string{"bench:reconciles:rate", "bench:queue_depth", "bench:cpu_seconds:rate", "bench:rss_bytes"}
		if got := records(tab, t); !slices.Equal(got, want) {
			t.Errorf("the page shows %q, not %q", got, want)
		}
		drawn := func(chart string, contenders ...string) {
			for _, contender := range []string{Ours, "controller-runtime", "quarkus", "ideal"} {
				count, is := colours(tab, t, chart, contender), slices.Contains(contenders, contender)
				isText := contender == "ideal" && !is // Text has the same colour.
				if (is && count < 100) || (!is && !isText && count != 0) {
					t.Errorf("%s: %s has %d pixels; it should be drawn: %v", chart, contender, count, is)
				}
			}
		}
		drawn(`[data-record="bench:queue_depth"]`, Ours, "controller-runtime", "ideal")
		drawn(`[data-record="bench:rss_bytes"]`, Ours, "controller-runtime")
		lacks, err := chromedp.Run(tab, chromedp.Text(chromedp.CSS(`[data-record="bench:rss_bytes"] .empty`)))
		if err != nil || lacks != "Not served by ideal." {
			t.Errorf("the page names the missing series as %q: %v", lacks, err)
		}
		show(tab, t, "light")

		offered, err := chromedp.Run(tab, chromedp.Evaluate[string](`[...document.getElementById("pick-scenario").options].slice(0, 6).map((option) => option.text).join("; ")`))
		if want := "burst n=500; burst n=500, warm; burst n=500, memory=32MiB; burst n=500, memory=64MiB; burst n=500, memory=128MiB; start n=5000"; err != nil || offered != want {
			t.Errorf("the picker offers %q, not %q: %v", offered, want, err)
		}
		if err := chromedp.Do(tab, pick("scenario", "burst n=500, memory=64MiB"), waitShown("burst n=500, memory=64MiB, turn 0", "")); err != nil {
			return err
		}
		drawn(`[data-record="bench:queue_depth"]`, Ours, "controller-runtime")
		show(tab, t, "setting")
		if err := chromedp.Do(tab, pick("scenario", "burst n=500, warm"), waitShown("burst n=500, warm, turn 0", "")); err != nil {
			return err
		}
		drawn(`[data-record="bench:queue_depth"]`, "quarkus")
		if err := chromedp.Do(tab, pick("scenario", "burst n=500"), waitShown("burst n=500, turn 0", "")); err != nil {
			return err
		}

		if err := chromedp.Do(tab, pick("series", "bench:rss_bytes"), waitShown("burst n=500, turn 0", "bench:rss_bytes")); err != nil {
			return err
		}
		if got := records(tab, t); !slices.Equal(got, []string{"bench:rss_bytes"}) {
			t.Errorf("after one series was picked, the page shows %q", got)
		}
		if err := chromedp.Do(tab, pick("turn", "burst n=500, turn 1"), waitShown("burst n=500, turn 1", "bench:rss_bytes")); err != nil {
			return err
		}
		if got := records(tab, t); len(got) != 0 {
			t.Errorf("the second turn has no series, but the page shows %q", got)
		}
		if err := chromedp.Do(tab, pick("scenario", "idle n=500"), waitShown("idle n=500, turn 0", "bench:rss_bytes")); err != nil {
			return err
		}

		dark := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}
		emulate := chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, dark)
			return err
		})
		if err := chromedp.Do(tab, emulate, pick("series", ""), pick("scenario", "burst n=500"), waitShown("burst n=500, turn 0", "")); err != nil {
			return err
		}
		ground, err := chromedp.Run(tab, chromedp.Evaluate[string]("getComputedStyle(document.body).backgroundColor"))
		if err != nil || ground != "rgb(13, 17, 23)" {
			t.Errorf("the dark theme has the background %s: %v", ground, err)
		}
		if count := colours(tab, t, `[data-record="bench:queue_depth"]`, Ours); count < 100 {
			t.Errorf("the dark theme draws %d pixels", count)
		}
		show(tab, t, "dark")
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	inspecting.Stop()
	if err := inspecting.Wait(); err != nil {
		t.Errorf("inspect ended with %v", err)
	}
	for _, url := range []string{at.Page, at.Prometheus} {
		if answer, err := http.Get(url); err == nil {
			_ = answer.Body.Close()
			t.Errorf("%s still answers", url)
		}
	}
	if after := filesOf(t, dir); after != before {
		t.Errorf("inspecting changed the run from\n%s\nto\n%s", before, after)
	}
}

func TestPicturesShowTheCharts(t *testing.T) {
	tool(t, "chromium", "chromium")
	tool(t, "prometheus", "prometheus")
	dir := runWithSeries(t)
	ctx, cancel := context.WithTimeout(t.Context(), browserLimit)
	defer cancel()
	written, err := Write(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(written.LeftOut) > 0 {
		t.Errorf("left out: %q", written.LeftOut)
	}
	run, rounds, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range written.Files {
		name, err := filepath.Rel(dir, file)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	want := "report.md series.openmetrics.gz report.html dashboard.json pictures/burst-n-500.png pictures/start-n-5000.png pictures/steady-load-20.png pictures/steady-load-50.png " +
		"pictures/idle-n-500.png pictures/burst-n-500-series.png pictures/burst-n-500-warm-series.png"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("written: %s\nnot: %s", got, want)
	}
	// The line of Bellerophon has its colour; the bar of its median is half transparent.
	for name, drawn := range map[string]color.RGBA{"burst-n-500-series": {0, 0x72, 0xb2, 255}, "burst-n-500": {0x83, 0xb9, 0xd7, 255}} {
		if count := pixels(t, filepath.Join(dir, "pictures", name+".png"), drawn); count < 500 {
			t.Errorf("%s has %d pixels in the colour of Bellerophon", name, count)
		}
	}
	if kept, err := readSeries(dir, groupsOf(run, rounds)); err != nil || len(kept["burst n=500, turn 0"]["bench:queue_depth"]) != 3 {
		t.Errorf("the series are not kept: %v", err)
	}
}

// pixels counts the pixels of a picture with a colour, or with nearly the same one.
func pixels(t *testing.T, file string, wanted color.RGBA) (count int) {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	picture, err := png.Decode(opened)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	isNear := func(a uint32, b uint8) bool { return max(a>>8, uint32(b))-min(a>>8, uint32(b)) <= 2 }
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			if r, g, b, _ := picture.At(x, y).RGBA(); isNear(r, wanted.R) && isNear(g, wanted.G) && isNear(b, wanted.B) {
				count++
			}
		}
	}
	return count
}

// texts returns the texts of the elements of a selector.
func texts(tab context.Context, t *testing.T, selector string) []string {
	t.Helper()
	found, err := chromedp.Run(tab, chromedp.Evaluate[[]string](fmt.Sprintf(`[...document.querySelectorAll(%q)].map((found) => found.textContent)`, selector)))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestABrowserShowsWhoWinsFirstAndEachBarWithItsValueAndSettings(t *testing.T) {
	tool(t, "chromium", "chromium")
	rounds := slices.Concat(
		of("burst", "n=5", Ours, rundir.Converge, 10, 12, 11, 10, 12, 11), of("burst", "n=5", "kube-rs", rundir.Converge, 20, 24, 22, 20, 24, 22),
	)
	for i := range rounds {
		rounds[i].Measured[rundir.Reads] = 0
		longest := map[string]time.Duration{Ours: time.Second, "kube-rs": 2 * time.Second}[rounds[i].Contender]
		rounds[i].Samples = rundir.Samples{rundir.Reaction99: rundir.HistogramOf(evenly(200, longest))} // 1,200 together
		rounds[i].Measured[rundir.ReactionMedian] = map[string]float64{Ours: 0.001, "kube-rs": 2}[rounds[i].Contender]
	}
	run := rundir.Run{Settings: map[string]rundir.Settings{"kube-rs": {Workers: "no limit", HeapLimit: "none", Processors: "all", Limits: "1 CPU"}}}
	summary := Summarize(run, rounds)
	data := dataOf(summary, rounds)
	page := filepath.Join(t.TempDir(), "report.html")
	if err := save(page, pageText{Summary: summary, Data: data}.write); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), browserLimit)
	defer cancel()
	err := inBrowser(ctx, func(tab context.Context) error {
		if err := chromedp.Do(tab, chromedp.EmulateViewport(1240, 900), chromedp.Navigate("file://"+page), chromedp.WaitReady(chromedp.CSS(".chart svg"))); err != nil {
			return err
		}
		show(tab, t, "bars")
		bottom, err := chromedp.Run(tab, chromedp.Evaluate[float64](`document.querySelector(".heat").getBoundingClientRect().bottom`))
		if err != nil || bottom > 900 {
			t.Errorf("the heat map ends %v pixels below the top, outside of the first screen: %v", bottom, err)
		}
		if got := strings.Join(texts(tab, t, "#glance h2, #glance h3"), "; "); !strings.HasPrefix(got, "Of 2 comparisons, Bellerophon is better in 2") || !strings.Contains(got, "Largest wins") {
			t.Errorf("the page begins with %q", got)
		}
		for chart, want := range map[string]string{
			"converge_seconds":     "bellerophon; settings not recorded; 11 s; kube-rs; no limit of workers, heap limit none, GOMAXPROCS all, hard limits 1 CPU; 22 s (2x)",
			"reaction_p99_seconds": "bellerophon; settings not recorded; 990 ms; kube-rs; no limit of workers, heap limit none, GOMAXPROCS all, hard limits 1 CPU; 1.98 s (2x)",
			"reaction_p50_seconds": "bellerophon; settings not recorded; 1 ms; kube-rs; no limit of workers, heap limit none, GOMAXPROCS all, hard limits 1 CPU; 2 s (2000x)",
		} {
			in := fmt.Sprintf(`[data-measure="%s"] `, chart)
			if got := strings.Join(texts(tab, t, in+".name, "+in+".settings, "+in+".value"), "; "); got != want {
				t.Errorf("%s has the rows %q, want %q", chart, got, want)
			}
			hint := strings.Join(texts(tab, t, in+".hint"), "; ")
			if isLog := chart == "reaction_p50_seconds"; !strings.Contains(hint, "lower is better") || strings.Contains(hint, "logarithmic") != isLog {
				t.Errorf("%s has the hint %q", chart, hint)
			}
		}
		if dots := texts(tab, t, `[data-measure="reaction_p99_seconds"] circle`); len(dots) != 0 {
			t.Errorf("a p99 of all rounds has %d dots of rounds", len(dots))
		}
		if charts := texts(tab, t, `[data-measure="reads"]`); len(charts) != 0 {
			t.Errorf("there is a chart of zeros: %q", charts)
		}
		if got := strings.Join(texts(tab, t, ".blocks .empty"), "; "); got != "0 for every contender in every round: reads." {
			t.Errorf("the measures that are 0 are named as %q", got)
		}
		lengths, err := chromedp.Run(tab, chromedp.Evaluate[[]float64](`[...document.querySelectorAll('[data-measure="converge_seconds"] rect')].map((bar) => Number(bar.getAttribute("width")))`))
		if err != nil || len(lengths) != 2 || lengths[1]/lengths[0] < 1.99 || lengths[1]/lengths[0] > 2.01 {
			t.Errorf("the bars of 11 and 22 s are %v pixels long: %v", lengths, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestABrowserAlignsTheSeriesAtTheStartOfEachContender(t *testing.T) {
	tool(t, "chromium", "chromium")
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	rounds := slices.Concat(of("burst", "n=5", Ours, rundir.Converge, 1), of("burst", "n=5", "kube-rs", rundir.Converge, 1))
	for i := range rounds {
		rounds[i].Start, rounds[i].End = began, began.Add(time.Minute)
	}
	rounds[0].Exec = began.Add(10 * time.Second) // The round of kube-rs is an old one, which has no such time.
	summary := Summarize(rundir.Run{}, rounds)
	data := dataOf(summary, rounds)
	data.Series = seriesOf{data.Groups[0].Key: {
		"bench:rss_bytes": {
			{Ours, Ours, [][2]float64{{11, 1}, {12, 2}}},
			{"kube-rs", "kube-rs", [][2]float64{{30, 1}, {31, 3}}},
		},
		"bench:server_rss_bytes": {
			{Ours, Ours, [][2]float64{{2, 7}, {5, 8}, {12, 9}}},
			{"kube-rs", "kube-rs", [][2]float64{{2, 7}, {26, 8}, {31, 9}}},
		},
		"bench:failures:rate": {{Ours, Ours, [][2]float64{{11, 0}}}, {"kube-rs", "kube-rs", [][2]float64{}}},
	}}
	page := filepath.Join(t.TempDir(), "report.html")
	if err := save(page, pageText{Summary: summary, Data: data}.write); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), browserLimit)
	defer cancel()
	err := inBrowser(ctx, func(tab context.Context) error {
		if err := chromedp.Do(tab, chromedp.Navigate("file://"+page), waitShown(data.Groups[0].Key, "")); err != nil {
			return err
		}
		drawn, err := chromedp.Run(tab, chromedp.Evaluate[string](`charts.map((chart) => JSON.stringify(chart.data)).join(" ")`))
		want := "[[-5,0,1,2],[null,null,1,2],[null,1,3,null]] [[-5,-4,1,2],[8,null,null,9],[null,8,9,null]]"
		if err != nil || drawn != want {
			t.Errorf("the charts draw %s, want %s: %v", drawn, want, err)
		}
		got := texts(tab, t, "#panels > .empty")
		if len(got) != 2 || !strings.Contains(got[1], "Always 0 in this turn: failures per second.") {
			t.Errorf("the panels without a line are named as %q", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
