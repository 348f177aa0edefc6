// Package figure draws the figures of the measurements as SVG: panels with lines of points. A figure needs neither
// scripts nor fonts nor other files, and it is readable on light and dark pages.
package figure

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/template"
)

//go:embed figure.svg.tmpl
var text string

var figureTemplate = template.Must(template.New("figure").Parse(text))

// Figure is a number of panels with a title, a legend and a caption.
type Figure struct {
	Title, Caption string
	Columns        int // of panels; 0 stands for 1
	Panels         []Panel
}

// Panel is a plot of lines.
type Panel struct {
	Title string // may be empty
	X, Y  Axis
	Right *Axis // of the lines that have Right set; nil for none
	Mark  *Tick // a vertical line at a value of X; nil for none
	Lines []Line
}

// Line is a line with a point for each measurement. Lines of the same name look the same in all panels, and the
// legend has them once.
type Line struct {
	Name   string
	Right  bool
	Dashed bool
	Points [][2]float64
	// Label formats the value that is shown at a point. Below puts it under the point. nil shows none.
	Label func(value float64) string
	Below bool
}

// The sizes are in the figure's own units.
const (
	panelWidth, panelHeight   = 560.0, 260.0
	left, right, top, bottom  = 80.0, 70.0, 74.0, 60.0
	betweenRows, betweenPlots = 92.0, 70.0
	legendGap, letter         = 60.0, 7.0
	titleHeight               = 20.0 // of panels, below the legend
	colours                   = 5    // that the template defines
)

// drawing holds the values for the template.
type drawing struct {
	Figure
	Width, Height float64
	Left, Legend  float64 // where the title and the caption begin, and the vertical place of the legend
	Bottom        float64 // of the caption
	Entries       []entry
	Plots         []plot
}

// entry is an entry of the legend.
type entry struct {
	Name, Class string
	At          float64
}

// plot is a panel in its place.
type plot struct {
	Panel
	Left, Right, Top, Bottom, Middle float64
	XTicks, YTicks, RightTicks       []placed
	MarkAt                           float64
	Curves                           []curve
}

// placed is a tick in its place.
type placed struct {
	At    float64
	Label string
}

// curve is a line in its place.
type curve struct {
	Class, Path string
	Points      []point
}

type point struct {
	X, Y, LabelY float64
	Label        string
}

// SVG returns the figure as SVG.
func (f Figure) SVG() ([]byte, error) {
	var svg bytes.Buffer
	if err := figureTemplate.Execute(&svg, f.drawing()); err != nil {
		return nil, fmt.Errorf("draw the figure: %w", err)
	}
	return svg.Bytes(), nil
}

// WriteFile writes the figure to a file.
func (f Figure) WriteFile(path string) error {
	svg, err := f.SVG()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, svg, 0o644); err != nil {
		return fmt.Errorf("write the figure: %w", err)
	}
	return nil
}

func (f Figure) drawing() drawing {
	columns := max(f.Columns, 1)
	rows := (len(f.Panels) + columns - 1) / columns
	top := top
	if slices.ContainsFunc(f.Panels, func(p Panel) bool { return p.Title != "" }) {
		top += titleHeight
	}
	d := drawing{Figure: f, Left: left, Legend: 47}
	d.Width = left + float64(columns)*panelWidth + float64(columns-1)*(betweenPlots+right) + right
	d.Height = top + float64(rows)*panelHeight + float64(rows-1)*betweenRows + bottom
	if f.Caption != "" {
		d.Height += 24
	}
	d.Bottom = d.Height - 14
	classes := f.classes(&d)
	for i, panel := range f.Panels {
		x := left + float64(i%columns)*(panelWidth+betweenPlots+right)
		y := top + float64(i/columns)*(panelHeight+betweenRows)
		d.Plots = append(d.Plots, panel.plot(x, y, classes))
	}
	return d
}

// classes adds the legend to a drawing, and returns the class of each line by its name.
func (f Figure) classes(d *drawing) map[string]string {
	classes, at := map[string]string{}, left
	for _, panel := range f.Panels {
		for _, line := range panel.Lines {
			if classes[line.Name] != "" {
				continue
			}
			class := fmt.Sprintf("c%d", len(classes)%colours)
			if line.Dashed {
				class += " dashed"
			}
			classes[line.Name] = class
			d.Entries = append(d.Entries, entry{line.Name, class, at})
			at += legendGap + letter*float64(len(line.Name))
		}
	}
	return classes
}

func (p Panel) plot(x, y float64, classes map[string]string) plot {
	placed := plot{Panel: p, Left: x, Right: x + panelWidth, Top: y, Bottom: y + panelHeight, Middle: x + panelWidth/2}
	across := func(axis Axis, value float64) float64 { return round(x + panelWidth*axis.part(value)) }
	up := func(axis Axis, value float64) float64 { return round(y + panelHeight*(1-axis.part(value))) }
	placed.XTicks, placed.YTicks = ticks(p.X, across), ticks(p.Y, up)
	if p.Right != nil {
		placed.RightTicks = ticks(*p.Right, up)
	}
	if p.Mark != nil {
		placed.MarkAt = across(p.X, p.Mark.Value)
	}
	for _, line := range p.Lines {
		made, axis := curve{Class: classes[line.Name]}, p.Y
		if line.Right {
			axis = *p.Right
		}
		var path []string
		for _, value := range line.Points {
			at := point{X: across(p.X, value[0]), Y: up(axis, value[1])}
			at.LabelY = at.Y - 8
			if line.Below {
				at.LabelY = at.Y + 17
			}
			if line.Label != nil {
				at.Label = line.Label(value[1])
			}
			made.Points = append(made.Points, at)
			path = append(path, fmt.Sprintf("%v,%v", at.X, at.Y))
		}
		made.Path = strings.Join(path, " ")
		placed.Curves = append(placed.Curves, made)
	}
	return placed
}

func ticks(axis Axis, at func(Axis, float64) float64) (made []placed) {
	for _, tick := range axis.ticks {
		made = append(made, placed{at(axis, tick.Value), tick.Label})
	}
	return made
}

func round(at float64) float64 { return math.Round(at*10) / 10 }
