package report

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// SeriesFile is the name of the file in the folder of a run that keeps the time series of
// report.html, as compressed OpenMetrics text. It has one turn of each scenario and setting.
const SeriesFile = "series.openmetrics.gz"

// seriesOf holds the lines of groups, by the key of the group and the name of the record. A record has
// one line for each round of the group, in the order of the group.
type seriesOf map[string]map[string][]line

// labelsOf returns the labels that tell the rounds of a record apart. The harness gives its targets
// the same labels.
func labelsOf(round rundir.Round) [][2]string {
	return [][2]string{
		{"contender", round.Contender}, {"scenario", round.Scenario}, {"variant", round.Variant}, {"setting", round.Setting}, {"round", round.ID()},
	}
}

// families returns the series of groups as one family of metrics for each record.
func (s seriesOf) families(groups []group) []*dto.MetricFamily {
	var all []*dto.MetricFamily
	for _, panel := range panels {
		family := &dto.MetricFamily{Name: &panel.Record, Help: &panel.Title, Type: dto.MetricType_GAUGE.Enum()}
		for _, group := range groups {
			for i, line := range s[group.Key][panel.Record] {
				round := group.rounds[i]
				var its []*dto.LabelPair
				for _, pair := range labelsOf(round) {
					its = append(its, &dto.LabelPair{Name: &pair[0], Value: &pair[1]})
				}
				for _, point := range line.Points {
					at := timeOf(round, point).UnixMilli()
					family.Metric = append(family.Metric, &dto.Metric{Label: its, Gauge: &dto.Gauge{Value: &point[1]}, TimestampMs: &at})
				}
			}
		}
		if len(family.Metric) > 0 {
			all = append(all, family)
		}
	}
	return all
}

// timeOf returns the time of a point. Prometheus keeps milliseconds.
func timeOf(round rundir.Round, point [2]float64) time.Time {
	return round.Start.Add(time.Duration(point[0] * float64(time.Second))).Round(time.Millisecond)
}

// write writes the series of groups as compressed OpenMetrics text. Equal series give equal files.
func (s seriesOf) write(out io.Writer, groups []group) error {
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("compress the time series: %w", err)
	}
	for _, family := range s.families(groups) {
		if _, err := expfmt.MetricFamilyToOpenMetrics(compressed, family); err != nil {
			return fmt.Errorf("encode the time series %s: %w", family.GetName(), err)
		}
	}
	_, err = expfmt.FinalizeOpenMetrics(compressed)
	if err := errors.Join(err, compressed.Close()); err != nil {
		return fmt.Errorf("encode the time series: %w", err)
	}
	return nil
}

// readSeries returns the series that an earlier report kept, or nil if the run has none. A group
// without a sample is left out.
func readSeries(dir string, groups []group) (seriesOf, error) {
	text, err := readText(dir)
	if text == nil || err != nil {
		return nil, err
	}
	points, err := parse(text)
	if err != nil {
		return nil, keptError(dir, err)
	}
	kept := seriesOf{}
	for _, group := range groups {
		found, has := map[string][]line{}, false
		for _, panel := range panels {
			lines := make([]line, len(group.rounds))
			for i, round := range group.rounds {
				lines[i] = line{lineLabel(round), round.Contender, [][2]float64{}}
				for _, pair := range points[keptKey{panel.Record, round.ID()}] {
					lines[i].Points = append(lines[i].Points, pointOf(pair, round))
					has = true
				}
			}
			found[panel.Record] = lines
		}
		if has {
			kept[group.Key] = found
		}
	}
	return kept, nil
}

// readText returns the OpenMetrics text of the kept series, or nil if the run has none.
func readText(dir string) ([]byte, error) {
	opened, err := os.Open(filepath.Join(dir, SeriesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kept time series: %w", err)
	}
	defer opened.Close()
	plain, err := gzip.NewReader(opened)
	if err != nil {
		return nil, keptError(dir, err)
	}
	text, err := io.ReadAll(plain)
	if err != nil {
		return nil, keptError(dir, err)
	}
	return text, nil
}

func keptError(dir string, err error) error {
	return fmt.Errorf("read the kept time series in %s: %w; delete the file to make a report without them", filepath.Join(dir, SeriesFile), err)
}

// keptKey names a kept series: a record of a round.
type keptKey struct{ record, round string }

// parse reads OpenMetrics text.
func parse(text []byte) (map[keptKey][]model.SamplePair, error) {
	found := map[keptKey][]model.SamplePair{}
	if !bytes.HasSuffix(text, []byte("# EOF\n")) {
		return nil, errors.New("the text has no end")
	}
	parser := textparse.NewOpenMetricsParser(text, labels.NewSymbolTable())
	for {
		switch entry, err := parser.Next(); {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("parse OpenMetrics: %w", err)
		case entry == textparse.EntrySeries:
			series, at, value := parser.Series()
			if at == nil {
				return nil, fmt.Errorf("parse OpenMetrics: %s has no time", series)
			}
			var its labels.Labels
			parser.Labels(&its)
			one := keptKey{its.Get(model.MetricNameLabel), its.Get("round")}
			found[one] = append(found[one], model.SamplePair{Timestamp: model.Time(*at), Value: model.SampleValue(value)})
		}
	}
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
