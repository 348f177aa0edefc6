package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func plain(value float64) string { return fmt.Sprintf("%g", value) }

func sample() Figure {
	log := Log("seconds", []float64{0.02, 30, 0}, plain)
	linear := Linear("share", 47, 5, "%.0f %%")
	return Figure{Title: "title", Caption: "caption", Columns: 2, Panels: []Panel{
		{Title: "one", X: LogOf("workers", []float64{1, 2, 8}, plain), Y: log, Right: &linear, Mark: &Tick{2, "default"}, Lines: []Line{
			{Name: "median", Points: [][2]float64{{1, 0.1}, {2, 0.02}, {8, 0}}, Label: plain, Below: true},
			{Name: "share", Points: [][2]float64{{1, 50}}, Right: true, Dashed: true},
		}},
		{Title: "two", X: LogOf("interval", []float64{1}, plain), Y: log, Lines: []Line{{Name: "median", Points: [][2]float64{{1, 10}}}}},
	}}
}

func TestAFigureIsWellFormedAndNeedsNothingElse(t *testing.T) {
	for name, figure := range map[string]Figure{"with lines": sample(), "without panels": {Title: "empty"}} {
		path := filepath.Join(t.TempDir(), "figure.svg")
		if err := figure.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		svg, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		decoder := xml.NewDecoder(bytes.NewReader(svg))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for _, bad := range []string{"NaN", "Inf", "href", "script", "url(", "@import", "ZgotmplZ"} {
			if bytes.Contains(svg, []byte(bad)) {
				t.Errorf("%s: the figure has %q", name, bad)
			}
		}
		if !bytes.Contains(svg, []byte("prefers-color-scheme: dark")) {
			t.Errorf("%s: the figure has no colours for a dark page", name)
		}
	}
}

func TestALineOfTwoPanelsIsInTheLegendOnceAndLooksTheSame(t *testing.T) {
	svg, err := sample().SVG()
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]int{">median</text>": 1, ">share</text>": 1, `<polyline class="c0"`: 2, `<polyline class="c1 dashed"`: 1, ">0.02</text>": 1} {
		if got := strings.Count(string(svg), part); got != want {
			t.Errorf("the figure has %d of %s, want %d", got, part, want)
		}
	}
}

func TestPointsAreWhereTheAxesSay(t *testing.T) {
	plots := sample().drawing().Plots
	inner := func(part float64) float64 { return plots[0].Left + panelWidth*(margin+(1-2*margin)*part) }
	for i, want := range []struct{ x, y float64 }{
		{inner(0), plots[0].Bottom - panelHeight/4},            // 1 worker and 0.1 s, of 0.01 to 100 s
		{inner(1.0 / 3), plots[0].Bottom - 0.0753*panelHeight}, // 2 of 1 to 8 workers and 0.02 s
		{inner(1), plots[0].Bottom},                            // A value of 0 is at the begin of a logarithmic axis.
	} {
		got := plots[0].Curves[0].Points[i]
		if math.Abs(got.X-want.x) > 0.1 || math.Abs(got.Y-want.y) > 0.1 {
			t.Errorf("point %d is at %v, %v, want %v, %v", i, got.X, got.Y, want.x, want.y)
		}
	}
	if right := plots[0].Curves[1].Points[0]; right.Y != plots[0].Top {
		t.Errorf("50 %% of 50 %% is at %v, want the top at %v", right.Y, plots[0].Top)
	}
}

func TestTheStepsOfALinearAxisAreRound(t *testing.T) {
	for most, want := range map[float64]float64{47: 10, 0.3: 0.1, 0: 1, 100: 20, 101: 50} {
		if got := Linear("", most, 5, "%v").ticks[1].Value; math.Abs(got-want) > 1e-9 {
			t.Errorf("up to %v the step is %v, want %v", most, got, want)
		}
	}
}
