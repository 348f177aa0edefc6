package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// pointsInFile bounds the points of a line in report.html, because people send that file around.
const pointsInFile = 150

// Written lists the files that Write wrote.
type Written struct {
	Files    []string `json:"files"`
	LeftOut  []string `json:"leftOut"` // why a part is missing, and how to get it
	*Summary `json:"summary"`
}

// Write writes report.md, report.html, the dashboard and pictures/ into the folder of a run.
//
// The time series come from a Prometheus on the data of the run. Write keeps them in the file of
// SeriesFile, because that data is too large to be kept. Without a Prometheus or its data, Write
// reads that file. The pictures need a Chromium. Written.LeftOut names the parts that are missing.
func Write(ctx context.Context, dir string) (Written, error) {
	run, rounds, err := read(dir)
	if err != nil {
		return Written{}, err
	}
	summary := Summarize(run, rounds)
	written := Written{Summary: &summary}
	wrote := func(name string, write func(io.Writer) error) error {
		file := filepath.Join(dir, name)
		if err := save(file, write); err != nil {
			return err
		}
		written.Files = append(written.Files, file)
		return nil
	}
	if err := wrote("report.md", summary.Markdown); err != nil {
		return written, err
	}

	text := pageText{Summary: summary, Data: dataOf(summary, rounds)}
	all := text.Data.Groups
	text.Data.Groups = fullest(all)
	from, err := completeData(dir, text.Data.Groups)
	if err == nil {
		err = withPrometheus(ctx, from, func(ctx context.Context, prometheus running) (err error) {
			text.Data.Series, err = prometheus.querier.all(ctx, text.Data.Groups)
			return err
		})
	}
	switch {
	case errors.Is(err, errNoSeries):
		kept, readErr := readSeries(dir, all)
		if readErr != nil {
			return written, readErr
		}
		if text.Data.Series = kept; kept != nil {
			text.Data.Groups = slices.DeleteFunc(all, func(g group) bool { return kept[g.Key] == nil })
		} else {
			text.Without, text.Data.Panels, text.Data.Groups = err.Error(), nil, nil
			written.LeftOut = append(written.LeftOut, err.Error())
		}
	case errors.Join(err, ctx.Err()) != nil:
		return written, errors.Join(err, ctx.Err())
	default:
		keep := func(out io.Writer) error { return text.Data.Series.write(out, text.Data.Groups) }
		if err := wrote(SeriesFile, keep); err != nil {
			return written, err
		}
	}
	if err := wrote("report.html", text.write); err != nil {
		return written, err
	}
	if text.Data.Series != nil {
		if err := wrote(DashboardFile, func(out io.Writer) error { return writeDashboard(out, run, text.Data) }); err != nil {
			return written, err
		}
	}

	pictures, err := drawPictures(ctx, dir, filepath.Join(dir, "report.html"), text.Data)
	if errors.Is(err, errNoPictures) {
		written.LeftOut = append(written.LeftOut, err.Error())
	} else if err != nil {
		return written, err
	}
	written.Files = append(written.Files, pictures...)
	return written, nil
}

// fullest selects one turn of each scenario and setting, cold and warm: the turn with the most
// rounds that count. Among equals it selects the first.
func fullest(groups []group) []group {
	var selected []group
	for _, candidate := range groups {
		last := len(selected) - 1
		switch {
		case last < 0 || selected[last].Name != candidate.Name:
			selected = append(selected, candidate)
		case counting(candidate.rounds) > counting(selected[last].rounds):
			selected[last] = candidate
		}
	}
	return selected
}

// counting returns how many rounds count.
func counting(rounds []rundir.Round) (count int) {
	for _, round := range rounds {
		if round.IsComplete() {
			count++
		}
	}
	return count
}

// isGauged reports whether an ideal client ran before one of the rounds, as a gauge of the machine's speed.
func isGauged(rounds []rundir.Round) bool {
	return slices.ContainsFunc(rounds, func(round rundir.Round) bool { return round.Measured[rundir.IdealConverge] > 0 })
}

// save replaces a file atomically: a kept file of time series may be their only copy.
func save(file string, write func(io.Writer) error) error {
	out, err := os.Create(file + ".new")
	if err != nil {
		return fmt.Errorf("write a report: %w", err)
	}
	if err := errors.Join(write(out), out.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, errors.Join(err, os.Remove(out.Name())))
	}
	if err := os.Rename(out.Name(), file); err != nil {
		return fmt.Errorf("write a report: %w", err)
	}
	return nil
}
