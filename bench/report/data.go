package report

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// lookback is how long a value lasts in a query. It must not extend beyond its round.
const lookback = 5 * time.Second

// data is the data of a run for a Prometheus.
type data struct {
	groups   []group // groups that the data may have
	lookback time.Duration
	// copyTo puts a copy of the data into a folder.
	copyTo func(ctx context.Context, folder string) error
	// query returns the samples of a record in a round, at most some number of them for each stream if they
	// are complete.
	query func(ctx context.Context, api prometheus.API, record string, round rundir.Round, points int) (model.Value, error)
}

// dataIn returns the complete data of a run, or else the series that it keeps.
func dataIn(dir string, groups []group) (data, error) {
	whole, err := completeData(dir, groups)
	if !errors.Is(err, errNoSeries) {
		return whole, err
	}
	kept, keptErr := keptData(dir, groups)
	if errors.Is(keptErr, errNoSeries) {
		return data{}, err
	}
	return kept, keptErr
}

// completeData returns the data of the Prometheus that scraped a run. Its queries are the expressions of the
// rules and not their names, because some Prometheus recorded nothing.
func completeData(dir string, groups []group) (data, error) {
	if _, err := find("prometheus"); err != nil {
		return data{}, err // Without a Prometheus, a repeated run would have no data either.
	}
	folder := filepath.Join(dir, "prometheus")
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return data{}, fmt.Errorf("%w: find %s: the run was not scraped, or its data was not kept; repeat the run with Prometheus installed", errNoSeries, folder)
	}
	expressions, err := expressions()
	if err != nil {
		return data{}, err
	}
	return data{groups, lookback, func(_ context.Context, to string) error {
		if err := os.CopyFS(to, os.DirFS(folder)); err != nil {
			return fmt.Errorf("copy %s: %w", folder, err)
		}
		return nil
	}, func(ctx context.Context, api prometheus.API, record string, round rundir.Round, points int) (model.Value, error) {
		from := round.Start.Add(rateRange)
		if !round.End.After(from) {
			return model.Matrix{}, nil
		}
		answer, _, _, err := api.QueryRange(ctx, expressions[record], prometheus.Range{Start: from, End: round.End, Step: step(round, points)})
		return answer, err
	}}, nil
}

// keptData returns the series that a run keeps. promtool makes blocks of a Prometheus from them. The
// answers have each sample as it is in the file.
func keptData(dir string, groups []group) (data, error) {
	text, err := readText(dir)
	if err != nil {
		return data{}, err
	}
	if text == nil {
		return data{}, fmt.Errorf("%w: find %s in %s: the run keeps no series", errNoSeries, SeriesFile, dir)
	}
	series, err := readSeries(dir, groups)
	if err != nil {
		return data{}, err
	}
	kept := data{lookback: lookback, copyTo: func(ctx context.Context, to string) error { return importText(ctx, text, to) }, query: queryKept}
	for _, group := range groups {
		if series[group.Key] == nil {
			continue
		}
		kept.groups = append(kept.groups, group)
		for _, round := range group.rounds {
			kept.lookback = max(kept.lookback, time.Second*time.Duration(math.Ceil(step(round, pointsInFile).Seconds())))
		}
	}
	return kept, nil
}

func queryKept(ctx context.Context, api prometheus.API, record string, round rundir.Round, _ int) (model.Value, error) {
	selector := fmt.Sprintf("%s{round=%q}[%ds]", record, round.ID(), int(math.Ceil(round.End.Sub(round.Start).Seconds())+1))
	answer, _, _, err := api.Query(ctx, selector, round.End)
	return answer, err
}

// step returns the distance between the points of a line.
func step(round rundir.Round, points int) time.Duration {
	return max(time.Second, round.End.Sub(round.Start.Add(rateRange))/time.Duration(points)).Truncate(time.Millisecond)
}

// importText makes the data of a Prometheus from OpenMetrics text.
func importText(ctx context.Context, text []byte, to string) error {
	program, err := find("promtool")
	if err != nil {
		return err
	}
	file := to + ".openmetrics"
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("write the kept series for promtool: %w", err)
	}
	output, err := exec.CommandContext(ctx, program, "tsdb", "create-blocks-from", "openmetrics", "--quiet", file, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("import the kept series with %s: %w; its output:\n%s", program, err, strings.TrimSpace(string(output)))
	}
	return nil
}
