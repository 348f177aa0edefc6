package simulation

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

//go:embed picture.svg.tmpl
var pictureText string

var pictureTemplate = template.Must(template.New("picture").Parse(pictureText))

// The position of the plot in a picture, in the picture's own units.
const (
	plotLeft, plotRight = 80.0, 560.0
	plotTop, plotBottom = 50.0, 330.0
)

// picture holds the values for the template. Both axes are logarithmic.
type picture struct {
	Title, Across            string
	Left, Right, Top, Bottom float64
	X, Y                     []tick
	Lines                    []line
}

type tick struct {
	At    float64
	Label string
}

// line is one curve, with its name at its end.
type line struct {
	Name, Colour string
	Legend       float64 // the position of its entry
	Points       [][2]float64
	Path         string
}

// curve is a line before it is drawn.
type curve struct {
	name   string
	points [][2]float64
}

// draw writes the pictures of results into a folder: the bytes of a hand-over, and the pauses.
func draw(results []Result, dir string) error {
	results = slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Real })
	var replicas []int
	for _, result := range results {
		replicas = append(replicas, result.Replicas)
	}
	slices.Sort(replicas)
	replicas = slices.Compact(replicas)
	var read, pauses []curve
	for _, count := range replicas {
		made := curve{name: fmt.Sprintf("%d replicas", count)}
		if count == 1 {
			made.name = "1 replica"
		}
		for _, result := range results {
			if phase, has := result.phase(left); has && result.Replicas == count {
				made.points = append(made.points, [2]float64{float64(result.Objects), megabytes(phase.All.Bytes())})
			}
		}
		read = append(read, made)
	}
	for _, name := range []string{joined, left, crashed} {
		made := curve{name: name}
		for _, result := range results {
			if phase, has := result.phase(name); has && phase.Moved > 0 && result.Replicas == replicas[len(replicas)-1] {
				made.points = append(made.points, [2]float64{float64(result.Objects), phase.HandOver})
			}
		}
		pauses = append(pauses, made)
	}
	for _, each := range []struct {
		file, title string
		of          []curve
	}{
		{"simulation-bytes.svg", "MB that all replicas receive when one leaves", read},
		{"simulation-handover.svg", fmt.Sprintf("Seconds of a hand-over with %d replicas", replicas[len(replicas)-1]), pauses},
	} {
		svg, err := svgOf(each.title, each.of)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, each.file), svg, 0o644); err != nil {
			return fmt.Errorf("writing a picture: %w", err)
		}
	}
	return nil
}

func svgOf(title string, curves []curve) ([]byte, error) {
	low, high := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	for _, each := range curves {
		for _, point := range each.points {
			for axis := range point {
				low[axis] = min(low[axis], math.Floor(math.Log10(point[axis])))
				high[axis] = max(high[axis], math.Ceil(math.Log10(point[axis])))
			}
		}
	}
	for axis := range high {
		high[axis] = max(high[axis], low[axis]+1)
	}
	at := func(axis int, value, from, to float64) float64 {
		part := (math.Log10(value) - low[axis]) / (high[axis] - low[axis])
		return math.Round(10*(from+(to-from)*part)) / 10
	}
	p := picture{Title: title, Across: "objects", Left: plotLeft, Right: plotRight, Top: plotTop, Bottom: plotBottom}
	for power := low[0]; power <= high[0]; power++ {
		value := math.Pow(10, power)
		p.X = append(p.X, tick{at(0, value, plotLeft, plotRight), fmt.Sprintf("%.0f", value)})
	}
	for power := low[1]; power <= high[1]; power++ {
		value := math.Pow(10, power)
		p.Y = append(p.Y, tick{at(1, value, plotBottom, plotTop), fmt.Sprintf("%g", value)})
	}
	colours := []string{"#1a5fb4", "#b3261e", "#2b7a2b", "#c77700", "#613583"}
	for i, each := range curves {
		made := line{Name: each.name, Colour: colours[i%len(colours)], Legend: 20 * float64(i)}
		var path []string
		for _, point := range each.points {
			place := [2]float64{at(0, point[0], plotLeft, plotRight), at(1, point[1], plotBottom, plotTop)}
			made.Points, path = append(made.Points, place), append(path, fmt.Sprintf("%v,%v", place[0], place[1]))
		}
		made.Path = strings.Join(path, " ")
		p.Lines = append(p.Lines, made)
	}
	var svg bytes.Buffer
	if err := pictureTemplate.Execute(&svg, p); err != nil {
		return nil, fmt.Errorf("drawing a picture: %w", err)
	}
	return svg.Bytes(), nil
}
