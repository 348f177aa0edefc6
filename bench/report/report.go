package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/outcome"
)

// pointsInFile is how many points a line has in report.html, which people send around.
const pointsInFile = 150

// Written is what Write left.
type Written struct {
	Files    []string `json:"files"`
	LeftOut  []string `json:"leftOut"` // why something is not there, and the way out
	*Summary `json:"summary"`
}

// Write writes report.html, pictures/ and report.md into the folder of a run. The time
// series need a Prometheus on the PATH and the data of the run, or a report.html from when
// those were there; the pictures need a Chromium. Without them they are left out, and it says so.
func Write(ctx context.Context, dir string) (Written, error) {
	run, rounds, err := read(dir)
	if err != nil {
		return Written{}, err
	}
	summary := Summarize(run, rounds)
	written := Written{Summary: &summary}

	page := filepath.Join(dir, "report.html")
	text := pageText{Summary: summary, Data: dataOf(summary, rounds)}
	all := text.Data.Groups
	text.Data.Groups = fullest(all)
	err = withPrometheus(ctx, dir, func(ctx context.Context, prometheus running) (err error) {
		text.Data.Series, err = prometheus.querier.all(ctx, text.Data.Groups)
		return err
	})
	if errors.Is(err, errNoSeries) {
		if text.Data.Series = seriesIn(page); text.Data.Series != nil {
			text.Data.Groups = slices.DeleteFunc(all, func(g group) bool { return text.Data.Series[g.Key] == nil })
		} else {
			text.Without, text.Data.Panels, text.Data.Groups = err.Error(), nil, nil
			written.LeftOut = append(written.LeftOut, err.Error())
		}
	} else if err = errors.Join(err, ctx.Err()); err != nil {
		return written, err
	}
	if err := save(page, text.write); err != nil {
		return written, err
	}
	written.Files = append(written.Files, page)

	pictures, err := drawPictures(ctx, dir, page, text.Data)
	if errors.Is(err, errNoPictures) {
		written.LeftOut = append(written.LeftOut, err.Error())
	} else if err != nil {
		return written, err
	}
	for i, table := range summary.Tables {
		for _, picture := range pictures[table.Name()] {
			summary.Tables[i].Pictures = append(summary.Tables[i].Pictures, filepath.ToSlash(picture))
			written.Files = append(written.Files, filepath.Join(dir, picture))
		}
	}
	plain := filepath.Join(dir, "report.md")
	if err := save(plain, summary.Markdown); err != nil {
		return written, err
	}
	written.Files = append(written.Files, plain)
	return written, nil
}

// fullest takes of each scenario and setting, cold and warm, the turn with the most rounds that
// count; of these the first.
func fullest(groups []group) []group {
	var taken []group
	for _, candidate := range groups {
		last := len(taken) - 1
		switch {
		case last < 0 || taken[last].Name != candidate.Name:
			taken = append(taken, candidate)
		case counting(candidate.rounds) > counting(taken[last].rounds):
			taken[last] = candidate
		}
	}
	return taken
}

func counting(rounds []outcome.Round) (count int) {
	for _, round := range rounds {
		if round.Counts() {
			count++
		}
	}
	return count
}

// all asks for every panel of some groups, for a page that has no server.
func (q querier) all(ctx context.Context, groups []group) (map[string]map[string][]line, error) {
	series := map[string]map[string][]line{}
	for _, group := range groups {
		series[group.Key] = map[string][]line{}
		for _, panel := range panels {
			found, err := q.lines(ctx, group, panel.Record, pointsInFile)
			if err != nil {
				return nil, err
			}
			series[group.Key][panel.Record] = found
		}
	}
	return series, nil
}

// save writes a file whole or not at all: a report may hold the only copy of its series.
func save(file string, write func(io.Writer) error) error {
	out, err := os.Create(file + ".new")
	if err != nil {
		return fmt.Errorf("writing a report: %w", err)
	}
	if err := errors.Join(write(out), out.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", file, errors.Join(err, os.Remove(out.Name())))
	}
	if err := os.Rename(out.Name(), file); err != nil {
		return fmt.Errorf("writing a report: %w", err)
	}
	return nil
}
