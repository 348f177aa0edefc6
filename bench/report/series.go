package report

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/outcome"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// group is the rounds whose lines are drawn side by side: one turn of one scenario, with one
// setting of the contenders, which are all cold or all warm.
type group struct {
	Key  string `json:"key"`
	Name string `json:"name"` // scenario, variant, the setting unless that is the default, and whether it is warm
	Turn int    `json:"turn"`
	// Seconds is how long the longest round took.
	Seconds float64 `json:"seconds"`

	kind    kind
	setting string
	warm    bool
	rounds  []outcome.Round // also those that do not count
}

// groupOf is the group of a round, without rounds.
func groupOf(round outcome.Round) group {
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

// compareGroups orders those of one kind: the defaults first, of these the cold ones, and then
// by turns.
func compareGroups(a, b group) int {
	return cmp.Or(bySetting(a.setting, b.setting), byWarmth(a.warm, b.warm), cmp.Compare(a.Turn, b.Turn))
}

// line is one contender in a group.
type line struct {
	Label     string       `json:"label"`
	Contender string       `json:"contender"`
	Points    [][2]float64 `json:"points"` // second since the round's start, value
}

// groupsOf finds the groups, in the order of the tables.
func groupsOf(run outcome.Run, rounds []outcome.Round) []group {
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
			groups[i].Seconds = max(groups[i].Seconds, round.End.Sub(round.Start).Seconds())
		}
		order := append([]string{Ours}, run.Contenders...)
		slices.SortStableFunc(group.rounds, func(a, b outcome.Round) int { return byPlace(order, a.Contender, b.Contender) })
	}
	return groups
}

// querier asks a Prometheus. Its methods may be called from any goroutine.
type querier struct {
	api         prometheus.API
	expressions map[string]string
}

// rateRange is how far back the rates of the rules look. Sooner after its start, those of a round
// would be of the one before it too, if that was of the same contender: no cluster is up by then.
const rateRange = 5 * time.Second

// lines asks for a record in the time of each round of a group, with no more than the
// given number of points in each line.
func (q querier) lines(ctx context.Context, of group, record string, points int) ([]line, error) {
	expression, is := q.expressions[record]
	if !is {
		return nil, fmt.Errorf("there is no series %q", record)
	}
	found := make([]line, len(of.rounds))
	for i, round := range of.rounds {
		found[i] = line{label(round.Contender, round.Setting, round.Warm) + fate(round), round.Contender, [][2]float64{}}
		from := round.Start.Add(rateRange)
		if !round.End.After(from) {
			continue
		}
		step := max(time.Second, round.End.Sub(from)/time.Duration(points)).Truncate(time.Millisecond)
		answer, _, _, err := q.api.QueryRange(ctx, expression, prometheus.Range{Start: from, End: round.End, Step: step})
		if err != nil {
			return nil, fmt.Errorf("asking Prometheus for %s of %s: %w", record, found[i].Label, err)
		}
		matrix, is := answer.(model.Matrix)
		if !is {
			return nil, fmt.Errorf("asking Prometheus for %s: it answers with a %s, not with a range", record, answer.Type())
		}
		found[i].Points = pointsOf(matrix, round)
	}
	return found, nil
}

// fate marks the line of a round that does not count.
func fate(round outcome.Round) string {
	switch {
	case round.Failed != "":
		return " (failed)"
	case round.Rejected != "":
		return " (rejected)"
	}
	return ""
}

// pointsOf takes the stream of the round's contender, or else the one that is of nobody:
// that of the servers. NaN, such as a quantile of nothing, is no point.
func pointsOf(matrix model.Matrix, round outcome.Round) [][2]float64 {
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
			points = append(points, [2]float64{pair.Timestamp.Time().Sub(round.Start).Seconds(), rounded(value)})
		}
	}
	return points
}

// rounded keeps four digits: more cannot be seen, and make the page large.
func rounded(value float64) float64 {
	if value == 0 {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(value))))
	if scale == 0 || math.IsInf(scale, 0) {
		return value
	}
	return math.Round(value*scale) / scale
}
