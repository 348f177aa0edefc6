package report

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// group is the rounds whose lines are drawn side by side: one turn of one scenario with one
// setting. All its contenders are cold, or all are warm.
type group struct {
	Key  string `json:"key"`
	Name string `json:"name"` // scenario, variant, setting if not the default, and warmth
	Turn int    `json:"turn"`
	// Seconds is the duration of the longest round.
	Seconds float64 `json:"seconds"`
	// Execs has when contenders were started, in seconds since the start of their round, by label. Kept
	// runs lack it.
	Execs map[string]float64 `json:"execs,omitempty"`

	kind    kind
	setting string
	warm    bool
	rounds  []rundir.Round // including rejected and failed rounds
}

// groupOf returns the group of a round, still without rounds.
func groupOf(round rundir.Round) group {
	g := group{Turn: round.Turn, kind: kind{round.Scenario, round.Variant}, setting: round.Setting, warm: round.Warm}
	g.Name = g.kind.String()
	if !isDefault(g.setting) {
		g.Name += ", " + g.setting
	}
	if g.warm {
		g.Name += ", warm"
	}
	g.Key = fmt.Sprintf("%s, turn %d", g.Name, g.Turn)
	return g
}

// compareGroups orders the groups of one kind by setting with the default first, then cold before
// warm, then by turn.
func compareGroups(a, b group) int {
	return cmp.Or(bySetting(a.setting, b.setting), byWarmth(a.warm, b.warm), cmp.Compare(a.Turn, b.Turn))
}

// line is one contender in a group.
type line struct {
	Label     string       `json:"label"`
	Contender string       `json:"contender"`
	Points    [][2]float64 `json:"points"` // second since the round's start, value
}

// groupsOf returns the groups in the order of the tables.
func groupsOf(run rundir.Run, rounds []rundir.Round) []group {
	var groups []group
	for _, kind := range kindsOf(run, rounds) {
		at := len(groups)
		for _, round := range ofKind(rounds, kind) {
			its := groupOf(round)
			i := slices.IndexFunc(groups[at:], func(g group) bool { return g.Key == its.Key }) + at
			if i < at {
				i = len(groups)
				groups = append(groups, its)
			}
			groups[i].rounds = append(groups[i].rounds, round)
		}
		slices.SortFunc(groups[at:], compareGroups)
	}
	for i, group := range groups {
		for _, round := range group.rounds {
			if !round.Exec.IsZero() {
				if groups[i].Execs == nil {
					groups[i].Execs = map[string]float64{}
				}
				groups[i].Execs[lineLabel(round)] = round.Exec.Sub(round.Start).Seconds()
			}
			groups[i].Seconds = max(groups[i].Seconds, round.End.Sub(round.Start).Seconds())
		}
		slices.SortStableFunc(group.rounds, func(a, b rundir.Round) int { return contender.Compare(a.Contender, b.Contender) })
	}
	return groups
}

// querier queries a Prometheus. Its methods may be called from any goroutine.
type querier struct {
	api   prometheus.API
	query func(ctx context.Context, api prometheus.API, record string, round rundir.Round, points int) (model.Value, error)
}

// rateRange is the range of the rates of the rules. Earlier in a round, a rate could include the
// previous round of the same contender. No cluster is ready that early, so nothing is lost.
const rateRange = 5 * time.Second

// lines queries a record over the time of each round of a group. Each line has at most the given
// number of points.
func (q querier) lines(ctx context.Context, of group, record string, points int) ([]line, error) {
	if !slices.ContainsFunc(panels, func(p panel) bool { return p.Record == record }) {
		return nil, fmt.Errorf("query %q: there is no series with this name", record)
	}
	found := make([]line, len(of.rounds))
	for i, round := range of.rounds {
		found[i] = line{lineLabel(round), round.Contender, [][2]float64{}}
		answer, err := q.query(ctx, q.api, record, round, points)
		if err != nil {
			return nil, fmt.Errorf("query %s of %s: %w", record, found[i].Label, err)
		}
		matrix, is := answer.(model.Matrix)
		if !is {
			return nil, fmt.Errorf("query %s: Prometheus answered with a %s instead of a matrix", record, answer.Type())
		}
		found[i].Points = pointsOf(matrix, round)
	}
	return found, nil
}

// lineLabel returns the name of the line of a round.
func lineLabel(round rundir.Round) string {
	return label(round.Contender, round.Setting, round.Warm) + fate(round)
}

// fate returns the mark of a round that does not count, or "".
func fate(round rundir.Round) string {
	switch {
	case round.Failed != "":
		return " (failed)"
	case !round.IsComplete():
		return " (rejected)"
	}
	return ""
}

// pointsOf returns the points of the contender's stream, or else of the stream without a contender,
// which comes from the servers. It drops NaN, such as the quantile of an empty histogram.
func pointsOf(matrix model.Matrix, round rundir.Round) [][2]float64 {
	points := [][2]float64{}
	at := slices.IndexFunc(matrix, func(s *model.SampleStream) bool { return string(s.Metric["contender"]) == round.Contender })
	if at < 0 {
		at = slices.IndexFunc(matrix, func(s *model.SampleStream) bool { return s.Metric["contender"] == "" })
	}
	if at < 0 {
		return points
	}
	for _, pair := range matrix[at].Values {
		if value := float64(pair.Value); !math.IsNaN(value) && !math.IsInf(value, 0) {
			points = append(points, pointOf(pair, round))
		}
	}
	return points
}

// pointOf returns a sample as a point of a line.
func pointOf(pair model.SamplePair, round rundir.Round) [2]float64 {
	return [2]float64{pair.Timestamp.Time().Sub(round.Start).Seconds(), rounded(float64(pair.Value))}
}

// rounded keeps four digits. More digits are invisible and make the page large. A rounded value stays as it is.
func rounded(value float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 4, 64), 64)
	if err != nil {
		return value // The largest float rounds up to infinity.
	}
	return short
}
