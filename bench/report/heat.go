package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// Heat compares Bellerophon with the other contenders at a glance: default settings, the measures that
// people ask for first, and no ideal client.
type Heat struct {
	Contenders []string  `json:"contenders"` // the columns, with "(warm)" if they were, and "(cold JVM)" if that was not
	Totals     []Total   `json:"totals"`     // one for each contender
	Rows       []HeatRow `json:"rows"`
	Wins       []string  `json:"wins"`   // three large decided ones
	Losses     []string  `json:"losses"` // three large decided ones
	Total                // of all contenders
	Few        int       `json:"few"` // undecided ones with too few turns
}

// Total counts cells. Better and Worse are the decided ones.
type Total struct {
	Better    int `json:"better"`
	Worse     int `json:"worse"`
	Undecided int `json:"undecided"`
}

// Words returns the three numbers.
func (t Total) Words() string { return fmt.Sprintf("%d, %d, %d", t.Better, t.Worse, t.Undecided) }

func (t *Total) count(cell HeatCell) {
	switch cell.Class() {
	case "better":
		t.Better++
	case "worse":
		t.Worse++
	case "undecided":
		t.Undecided++
	}
}

// HeatRow has one measure in one scenario.
type HeatRow struct {
	Table   string     `json:"table"`
	Measure string     `json:"measure"`
	Ours    string     `json:"bellerophon"` // its median with its unit
	Cells   []HeatCell `json:"cells"`       // one for each contender
}

// HeatCell is a ratio within turns, the contender's value divided by Bellerophon's. Above 1, Bellerophon is
// better.
type HeatCell struct {
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Turns int     `json:"turns"` // 0 without a ratio
}

// level is by how much a ratio may differ from 1 and count as 1, as which it is written.
const level = 0.005

// Class returns better or worse if the interval says so, undecided otherwise, or "" without a ratio.
func (c HeatCell) Class() string {
	switch {
	case c.Turns == 0:
		return ""
	case c.Turns >= enough && c.Low > 1+level:
		return "better"
	case c.Turns >= enough && c.High < 1-level:
		return "worse"
	}
	return "undecided"
}

// Mark returns a sign of the class, for a page without colours.
func (c HeatCell) Mark() string {
	return map[string]string{"better": "▲ ", "worse": "▼ "}[c.Class()]
}

// Words returns the ratio with its interval, and the turns if they are too few. Without a ratio it returns a dash.
func (c HeatCell) Words() string {
	switch {
	case c.Turns == 0:
		return "–"
	case c.Turns < enough:
		return fmt.Sprintf("%s (%s)", short(c.Ratio), interval{turns: c.Turns}.count())
	}
	return fmt.Sprintf("%s (%s to %s)", short(c.Ratio), short(c.Low), short(c.High))
}

// short formats a ratio with three digits.
func short(ratio float64) string {
	switch {
	case ratio >= 100:
		return fmt.Sprintf("%.0f", ratio)
	case ratio >= 10:
		return fmt.Sprintf("%.1f", ratio)
	}
	return fmt.Sprintf("%.2f", ratio)
}

// Sentence returns who wins how often.
func (h Heat) Sentence() string {
	all := h.Better + h.Worse + h.Undecided
	if all == 0 {
		return "No other contender has a value beside Bellerophon's."
	}
	text := fmt.Sprintf("Of %d comparisons, Bellerophon is better in %d and worse in %d; %d are undecided", all, h.Better, h.Worse, h.Undecided)
	if h.Few > 0 {
		text += fmt.Sprintf(", %d of them for lack of turns", h.Few)
	}
	return text + "."
}

// firstAsked returns the names of the measures of the heat map, in their order.
func firstAsked() []string {
	names := []string{string(rundir.Converge), string(rundir.ReadyMedian)}
	for _, tail := range tailsOf(string(rundir.Reaction99)) {
		names = append(names, tail.name)
	}
	return append(names, string(rundir.FirstWrite), string(rundir.ExecReadyMedian), string(rundir.ExecReadyLast), string(rundir.Recovery),
		"contender_cpu_seconds_per_1000", "server_cpu_seconds_per_object", string(rundir.PeakMemory), string(rundir.SettledMemory), "writes_per_object")
}

// column is a contender of the heat map, cold or warm.
type column struct {
	contender string
	warm      bool
}

func (c column) String() string {
	if contender.Facts(c.contender).JVM && !c.warm {
		return c.contender + " (cold JVM)"
	}
	return label(c.contender, "", c.warm)
}

// compared returns the complete rounds of operators with their default settings.
func compared(rounds []rundir.Round) []rundir.Round {
	return slices.DeleteFunc(slices.Clone(rounds), func(round rundir.Round) bool {
		return !round.IsComplete() || !isDefault(round.Setting) || contender.Facts(round.Contender).CreatesOnly
	})
}

// columnsOf returns the contenders that Bellerophon is compared with, the equal forms first.
func columnsOf(rounds []rundir.Round) []column {
	taking := map[column]bool{}
	for _, round := range rounds {
		if round.Contender != Ours {
			taking[column{round.Contender, round.Warm}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(taking), func(a, b column) int {
		return cmp.Or(contender.CompareEqualFirst(a.contender, b.contender), byWarmth(a.warm, b.warm))
	})
}

// heatOf makes the heat map of a run from all complete rounds.
func heatOf(run rundir.Run, rounds []rundir.Round) Heat {
	complete := compared(rounds)
	columns := columnsOf(complete)
	heat := Heat{Totals: make([]Total, len(columns))}
	for _, column := range columns {
		heat.Contenders = append(heat.Contenders, column.String())
	}
	var decided []finding
	for _, kind := range kindsOf(run, complete) {
		of := ofKind(complete, kind)
		for _, name := range firstAsked() {
			by := measureNamed(name)
			if by.shown != nil && !by.shown(of) {
				continue
			}
			row := HeatRow{Table: kind.String(), Measure: by.title, Ours: by.written(of, column{Ours, false})}
			for i, column := range columns {
				cell := by.cell(turnsOf(by, of, column), turnsOf(by, of, column.ours()))
				row.Cells = append(row.Cells, cell)
				heat.Totals[i].count(cell)
				heat.count(cell)
				switch cell.Class() {
				case "":
					continue
				case "undecided":
					if cell.Turns < enough {
						heat.Few++
					}
					continue
				}
				values := fmt.Sprintf("Bellerophon %s, %s %s", by.written(of, column.ours()), column, by.written(of, column))
				decided = append(decided, finding{fmt.Sprintf("%s, %s: %s, which is %s times as much", kind, by.title, values, cell.Words()), column.contender, cell.Ratio})
			}
			if slices.ContainsFunc(row.Cells, func(cell HeatCell) bool { return cell.Turns > 0 }) {
				heat.Rows = append(heat.Rows, row)
			}
		}
	}
	heat.choose(decided)
	return heat
}

// finding is a decided cell.
type finding struct {
	text, contender string
	ratio           float64
}

// choose keeps three wins and three losses: the largest of each contender, and then the next ones. So one
// contender that loses everywhere does not hide the others.
func (h *Heat) choose(decided []finding) {
	size := func(f finding) float64 { return math.Abs(math.Log(f.ratio)) }
	slices.SortStableFunc(decided, func(a, b finding) int { return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a.text, b.text)) })
	pick := func(wins bool) (texts []string) {
		place := map[finding]int{} // among the findings of the contender
		seen := map[string]int{}
		some := slices.DeleteFunc(slices.Clone(decided), func(f finding) bool { return f.ratio > 1 != wins })
		for _, f := range some {
			place[f] = seen[f.contender]
			seen[f.contender]++
		}
		slices.SortStableFunc(some, func(a, b finding) int { return cmp.Compare(place[a], place[b]) })
		for _, f := range some[:min(3, len(some))] {
			texts = append(texts, f.text)
		}
		return texts
	}
	h.Wins, h.Losses = pick(true), pick(false)
}

// ours returns Bellerophon's rounds that a column is compared with.
func (c column) ours() column { return column{Ours, c.warm} }

// turnsOf returns the rounds of one contender that have a value.
func turnsOf(by measure, rounds []rundir.Round, of column) turns {
	its := turns{}
	for _, round := range rounds {
		if _, has := by.of(round); has && round.Contender == of.contender && round.Warm == of.warm {
			its[round.Turn] = round
		}
	}
	return its
}

func (m measure) cell(theirs, ours turns) HeatCell {
	is, has := m.ratio(theirs, ours)
	if !has {
		return HeatCell{}
	}
	return HeatCell{is.median, is.low, is.high, is.turns}
}

// written returns the median of a contender with its unit, or "" if it has none.
func (m measure) written(rounds []rundir.Round, of column) string {
	its := slices.Collect(maps.Values(turnsOf(m, rounds, of)))
	if len(its) == 0 {
		return ""
	}
	median, is := m.statistic(its)
	if !is {
		return ""
	}
	return m.unit.write(median.Median)
}
