package report

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// SeriesFile is the name of the file in the folder of a run that keeps the time series of
// report.html. It has one turn of each scenario and setting.
const SeriesFile = "series.json.gz"

// seriesOf holds the lines of groups, by the key of the group and the name of the record.
type seriesOf map[string]map[string][]line

// write writes the series as compressed JSON. Equal series give equal files.
func (s seriesOf) write(out io.Writer) error {
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("compress the time series: %w", err)
	}
	if err := errors.Join(json.NewEncoder(compressed).Encode(s), compressed.Close()); err != nil {
		return fmt.Errorf("encode the time series: %w", err)
	}
	return nil
}

// readSeries returns the series that an earlier report kept, or nil if the run has none.
func readSeries(dir string) (seriesOf, error) {
	file := filepath.Join(dir, SeriesFile)
	opened, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kept time series: %w", err)
	}
	defer opened.Close()
	var kept seriesOf
	plain, err := gzip.NewReader(opened)
	if err == nil {
		err = json.NewDecoder(plain).Decode(&kept)
	}
	if err != nil {
		return nil, fmt.Errorf("read the kept time series in %s: %w; delete the file to make a report without them", file, err)
	}
	return kept, nil
}

// all queries every panel of some groups, for a page that has no server.
func (q querier) all(ctx context.Context, groups []group) (seriesOf, error) {
	series := seriesOf{}
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
