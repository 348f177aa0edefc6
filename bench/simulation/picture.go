package simulation

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/figure"
)

// draw writes the pictures of results into a folder: the bytes of a hand-over, and the pauses.
func draw(results []Result, dir string) error {
	results = slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Real })
	var replicas []int
	for _, result := range results {
		replicas = append(replicas, result.Replicas)
	}
	slices.Sort(replicas)
	replicas = slices.Compact(replicas)
	var read, pauses []figure.Line
	for _, count := range replicas {
		made := figure.Line{Name: fmt.Sprintf("%d replicas", count)}
		if count == 1 {
			made.Name = "1 replica"
		}
		for _, result := range results {
			if phase, has := result.phase(left); has && result.Replicas == count {
				made.Points = append(made.Points, [2]float64{float64(result.Objects), megabytes(phase.All.Bytes())})
			}
		}
		read = append(read, made)
	}
	for _, name := range []string{joined, left, crashed} {
		made := figure.Line{Name: name}
		for _, result := range results {
			if phase, has := result.phase(name); has && phase.Moved > 0 && result.Replicas == replicas[len(replicas)-1] {
				made.Points = append(made.Points, [2]float64{float64(result.Objects), phase.HandOver})
			}
		}
		pauses = append(pauses, made)
	}
	for _, each := range []struct {
		file, title string
		of          []figure.Line
	}{
		{"simulation-bytes.svg", "MB that all replicas receive when one leaves", read},
		{"simulation-handover.svg", fmt.Sprintf("Seconds of a hand-over with %d replicas", replicas[len(replicas)-1]), pauses},
	} {
		if err := figureOf(each.title, each.of).WriteFile(filepath.Join(dir, each.file)); err != nil {
			return err
		}
	}
	return nil
}

// figureOf returns a figure of lines over the number of objects. Both axes are logarithmic.
func figureOf(title string, lines []figure.Line) figure.Figure {
	var values [2][]float64
	for _, line := range lines {
		for _, point := range line.Points {
			values[0], values[1] = append(values[0], point[0]), append(values[1], point[1])
		}
	}
	return figure.Figure{Title: title, Panels: []figure.Panel{{
		X:     figure.Log("objects", values[0], func(value float64) string { return fmt.Sprintf("%.0f", value) }),
		Y:     figure.Log("", values[1], func(value float64) string { return fmt.Sprintf("%g", value) }),
		Lines: lines,
	}}}
}
