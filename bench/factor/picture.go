package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"os"
	"strings"
	"text/template"

	"github.com/bellerophon-io/bellerophon/cache"
)

//go:embed picture.svg.tmpl
var pictureText string

var pictureTemplate = template.Must(template.New("picture").Parse(pictureText))

// The position of the plot in the picture, in the picture's own units. Both vertical axes have
// the same grid.
const (
	plotLeft, plotRight = 80.0, 640.0
	plotTop, plotBottom = 70.0, 330.0
	gridSteps           = 5
)

// picture holds the values for the template.
type picture struct {
	Left, Right, Top, Bottom float64
	Default                  tick // the default factor
	X                        []tick
	Y                        []tick // both axes: shares on the left, lateness on the right
	Lines                    []line
	Caption                  string
}

// tick is a mark on an axis.
type tick struct {
	At          float64
	Label, Also string
}

// line is one curve. The legend shows its name.
type line struct {
	Name, Class string
	Path        string
	Legend      float64 // the position of its entry
	Points      [][2]float64
}

// draw writes a picture of all scenarios to a file.
func (o outcome) draw(file string) error {
	svg, err := o.svg()
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, svg, 0o644); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}

func (o outcome) svg() ([]byte, error) {
	all := o.Scenarios[len(o.Scenarios)-1]
	premature := func(c calm) (float64, bool) { return share(c.Premature, c.Rises), c.Rises > 0 }
	own := func(c calm) (float64, bool) { return share(c.Own, c.Rises), c.Rises > 0 }
	late := func(c calm) (float64, bool) {
		if c.Median == nil {
			return 0, false
		}
		return *c.Median, true
	}
	most := max(niceStep(highest(all.Factors, premature)/gridSteps), 1) * gridSteps
	latest := niceStep(highest(all.Factors, late)/gridSteps) * gridSteps
	p := picture{
		Left: plotLeft, Right: plotRight, Top: plotTop, Bottom: plotBottom,
		Default: tick{At: across(cache.DefaultLoopFactor), Label: fmt.Sprintf("default: %v", cache.DefaultLoopFactor)},
		Lines: []line{
			curve("premature rises, %", "premature", all.Factors, most, premature),
			curve("of these not by the load, %", "own", all.Factors, most, own),
			curve("median lateness, s", "late", all.Factors, latest, late),
		},
		Caption: fmt.Sprintf("%d calms of %d attempts, Kubernetes %s, %d processors", all.Gaps, all.Attempts, o.Kubernetes, o.Processors),
	}
	legend := plotLeft
	for i := range p.Lines {
		p.Lines[i].Legend = legend
		legend += 60 + 7*float64(len(p.Lines[i].Name))
	}
	for _, factor := range factors {
		p.X = append(p.X, tick{At: across(factor), Label: fmt.Sprint(factor)})
	}
	for i := range gridSteps + 1 {
		part := float64(i) / gridSteps
		p.Y = append(p.Y, tick{up(part), fmt.Sprintf("%.4g %%", part*most), fmt.Sprintf("%.3g s", part*latest)})
	}
	var svg bytes.Buffer
	if err := pictureTemplate.Execute(&svg, p); err != nil {
		return nil, fmt.Errorf("draw the picture: %w", err)
	}
	return svg.Bytes(), nil
}

// across returns the horizontal position of a factor. The axis is logarithmic.
func across(factor float64) float64 {
	first, last := math.Log(factors[0]), math.Log(factors[len(factors)-1])
	return round(plotLeft + (plotRight-plotLeft)*(math.Log(factor)-first)/(last-first))
}

// up returns the vertical position of a share of the height.
func up(part float64) float64 { return round(plotBottom - (plotBottom-plotTop)*part) }

func round(at float64) float64 { return math.Round(at*10) / 10 }

func curve(name, class string, of []calm, most float64, value func(calm) (float64, bool)) line {
	drawn := line{Name: name, Class: class}
	var path []string
	for _, c := range of {
		if y, has := value(c); has {
			at := [2]float64{across(c.Factor), up(y / most)}
			drawn.Points = append(drawn.Points, at)
			path = append(path, fmt.Sprintf("%v,%v", at[0], at[1]))
		}
	}
	drawn.Path = strings.Join(path, " ")
	return drawn
}

func highest(of []calm, value func(calm) (float64, bool)) float64 {
	most := 0.0
	for _, c := range of {
		y, _ := value(c)
		most = max(most, y)
	}
	return most
}

// niceStep returns the smallest value of at least step that is 1, 2 or 5 times a power of ten.
func niceStep(step float64) float64 {
	if step <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, nice := range []float64{1, 2, 5} {
		if step <= nice*power {
			return nice * power
		}
	}
	return 10 * power
}
