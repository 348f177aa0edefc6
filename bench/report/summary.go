package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// Ours is the name of the contender that all others are compared with.
const Ours = "bellerophon"

// Summary is the whole report of a run. --json prints it.
type Summary struct {
	Run    rundir.Run `json:"run"`
	Rounds int        `json:"rounds"`         // all completed rounds
	Counts int        `json:"roundsCounting"` // complete rounds: all of them are in the medians
	Heat   Heat       `json:"heat"`
	Goals  []Goal     `json:"goals"`
	Reads  string     `json:"reads"`            // how this run counts reads
	Ended  string     `json:"ended,omitempty"`  // the rule by which scenarios ended, and when they did
	Tails  string     `json:"tails"`            // what this run kept of its latencies
	Losses []Finding  `json:"losses"`           // where Bellerophon's median is worse
	Wins   []Finding  `json:"wins"`             // where it is better
	Limits []Limits   `json:"limits,omitempty"` // one per scenario with memory limits
	Tables []Table    `json:"tables"`           // in the requested order of the scenarios
	Left   []Left     `json:"leftOut"`
	Noisy  []Left     `json:"noisy"`  // complete rounds during which the machine may have been busy
	Gauged bool       `json:"gauged"` // an ideal client ran before rounds; otherwise none can be marked as noisy
}

// Table is one scenario in one variant.
type Table struct {
	Scenario string  `json:"scenario"`
	Variant  string  `json:"variant"`
	Blocks   []Block `json:"measures"`
}

// Name returns the scenario and its variant.
func (t Table) Name() string { return strings.TrimSpace(t.Scenario + " " + t.Variant) }

// Block has one measure of all contenders.
type Block struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Unit  string `json:"unit"` // s, bytes, or "" for a plain number
	// IsFact reports that the measure describes the round and is not compared.
	IsFact bool  `json:"isFact,omitempty"`
	Rows   []Row `json:"rows"`
}

// Row has one contender with one setting.
type Row struct {
	Label     string `json:"label"` // contender, setting if not the default, and warmth
	Contender string `json:"contender"`
	Setting   string `json:"setting"`
	Warm      bool   `json:"warm"`
	// Settings are the contender's settings in these rounds.
	Settings rundir.Settings `json:"settings"`
	Measured Statistic       `json:"measured"`
	Noisy    int             `json:"noisy,omitempty"`       // noisy rounds among them
	Ratio    float64         `json:"ratioToOurs,omitempty"` // its median divided by Bellerophon's; 0 if there is none
	Verdict  string          `json:"verdict"`               // Bellerophon in comparison, such as "1.52x faster"
	Median   string          `json:"-"`
	Spread   string          `json:"-"`
}

// label returns the name of a contender with its setting, if not the default, and its warmth.
func label(contender, setting string, warm bool) string {
	if !isDefault(setting) {
		contender += " " + setting
	}
	if warm {
		contender += " (warm)"
	}
	return contender
}

// settingsOf returns the settings of a contender in rounds with a setting.
func settingsOf(run rundir.Run, contender, setting string) rundir.Settings {
	const unknown = "not recorded"
	is, known := run.Settings[contender]
	if !known {
		is = rundir.Settings{Workers: unknown, HeapLimit: unknown, Processors: unknown}
	}
	if workers, swept := strings.CutPrefix(setting, "workers="); swept {
		is.Workers = workers
	}
	if limit := limitOf(setting); limit > 0 {
		is.HeapLimit = fmt.Sprintf("%d MiB", limit)
	}
	return is
}

// Finding is one comparison with one contender.
type Finding struct {
	Table, Measure, Contender, Verdict string
}

// Left is a round that is not complete, or a complete one that is noisy.
type Left struct {
	Round, Fate, Reason string
}

// Summarize makes the report of a run from its rounds, which are in the order of their start.
func Summarize(run rundir.Run, rounds []rundir.Round) Summary {
	summary := Summary{Run: run, Rounds: len(rounds), Heat: heatOf(run, rounds), Goals: judge(run, rounds)}
	var counting []rundir.Round
	for _, round := range rounds {
		name := strings.Join([]string{round.Scenario, round.Variant, label(round.Contender, round.Setting, round.Warm), "turn " + strconv.Itoa(round.Turn)}, ", ")
		switch {
		case round.Failed != "":
			summary.Left = append(summary.Left, Left{name, "failed", round.Failed})
		case !round.IsComplete():
			summary.Left = append(summary.Left, Left{name, "rejected", round.Rejected})
		case round.Noise() != "":
			summary.Noisy = append(summary.Noisy, Left{name, "noisy", round.Noise()})
			counting = append(counting, round)
		default:
			counting = append(counting, round)
		}
	}
	summary.Counts, summary.Gauged = len(counting), isGauged(counting)
	summary.Limits = limitsOf(run, rounds)
	summary.Ended, summary.Reads, summary.Tails = howScenariosEnded(run, rounds), whatReadsAre(rounds), whatTailsAre(rounds)
	for _, kind := range kindsOf(run, counting) {
		table := Table{Scenario: kind.scenario, Variant: kind.variant}
		for _, measure := range measures {
			block := compare(measure, run, ofKind(counting, kind))
			if len(block.Rows) > 0 {
				table.Blocks = append(table.Blocks, block)
			}
		}
		summary.Tables = append(summary.Tables, table)
		summary.find(table)
	}
	return summary
}

// whatReadsAre defines reads. Runs from before calls were counted by verb also count some lists.
func whatReadsAre(rounds []rundir.Round) string {
	if slices.ContainsFunc(rounds, func(round rundir.Round) bool { _, is := round.Measured[rundir.ListCalls]; return is }) {
		return "Reads are gets and lists, without the lists that fill a cache before the first watch of the same resource."
	}
	return "Reads are gets and lists, including the lists that fill a cache, unless a watch streams them."
}

// find collects the wins and losses of a table.
func (s *Summary) find(table Table) {
	for _, block := range table.Blocks {
		for _, row := range block.Rows {
			ours, is := baseline(block.Rows, row)
			if !is || row.Contender == Ours || block.IsFact {
				continue
			}
			finding := Finding{table.Name(), block.Title, row.Label, row.Verdict}
			switch {
			case ours.Measured.Median > row.Measured.Median:
				s.Losses = append(s.Losses, finding)
			case ours.Measured.Median < row.Measured.Median:
				s.Wins = append(s.Wins, finding)
			}
		}
	}
}

// kind is a scenario with a variant.
type kind struct{ scenario, variant string }

func (k kind) String() string { return strings.TrimSpace(k.scenario + " " + k.variant) }

// ofKind returns the rounds of one kind.
func ofKind(rounds []rundir.Round, wanted kind) []rundir.Round {
	return slices.DeleteFunc(slices.Clone(rounds), func(round rundir.Round) bool {
		return kind{round.Scenario, round.Variant} != wanted
	})
}

// kindsOf returns the kinds of the rounds in the requested order. Kinds that were not requested come
// last, by name and numbers.
func kindsOf(run rundir.Run, rounds []rundir.Round) []kind {
	seen := map[kind]bool{}
	for _, round := range rounds {
		seen[kind{round.Scenario, round.Variant}] = true
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b kind) int {
		return cmp.Or(cmp.Compare(place(run.Scenarios, a.String()), place(run.Scenarios, b.String())), cmp.Compare(a.scenario, b.scenario), byNumbers(a.variant, b.variant))
	})
}

// byPlace orders by the position in a list. Names outside of the list come last, by name.
func byPlace(order []string, a, b string) int {
	return cmp.Or(cmp.Compare(place(order, a), place(order, b)), cmp.Compare(a, b))
}

// place returns the position of a name in a list, or the length of the list.
func place(order []string, name string) int {
	if at := slices.Index(order, name); at >= 0 {
		return at
	}
	return len(order)
}

// byNumbers orders n=500 before n=5000 and n=50 before n=500.
func byNumbers(a, b string) int {
	return cmp.Or(cmp.Compare(variantValue(a, "n"), variantValue(b, "n")), cmp.Compare(variantValue(a, "load"), variantValue(b, "load")), cmp.Compare(a, b))
}

// bySetting orders the default before memory limits, and these before numbers of workers, each by
// size.
func bySetting(a, b string) int {
	if isDefault(a) || isDefault(b) {
		return cmp.Compare(fmt.Sprint(isDefault(b)), fmt.Sprint(isDefault(a)))
	}
	return cmp.Or(cmp.Compare(variantValue(a, "workers"), variantValue(b, "workers")), cmp.Compare(limitOf(a), limitOf(b)), cmp.Compare(a, b))
}

// byWarmth orders cold before warm.
func byWarmth(a, b bool) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }

// compare creates the block of one measure from the rounds of one kind.
func compare(by measure, run rundir.Run, rounds []rundir.Round) Block {
	type side struct {
		contender, setting string
		warm               bool
	}
	its, noisy := map[side][]rundir.Round{}, map[side]int{}
	isShown := by.shown == nil || by.shown(rounds)
	for _, round := range rounds {
		if _, has := by.of(round); has && isShown {
			of := side{round.Contender, round.Setting, round.Warm}
			its[of] = append(its[of], round)
			if round.Noise() != "" {
				noisy[of]++
			}
		}
	}
	block := Block{Name: by.name, Title: by.title, Unit: string(by.unit), IsFact: by.isFact}
	for _, of := range slices.SortedFunc(maps.Keys(its), func(a, b side) int {
		return cmp.Or(contender.Compare(a.contender, b.contender), bySetting(a.setting, b.setting), byWarmth(a.warm, b.warm))
	}) {
		measured, is := by.statistic(its[of])
		if !is {
			continue
		}
		block.Rows = append(block.Rows, Row{
			Label: label(of.contender, of.setting, of.warm), Contender: of.contender, Setting: of.setting, Warm: of.warm, Settings: settingsOf(run, of.contender, of.setting),
			Measured: measured, Noisy: noisy[of],
			Median: by.unit.write(measured.Median), Spread: by.unit.write(measured.Min) + " to " + by.unit.write(measured.Max),
		})
	}
	for i, row := range block.Rows {
		ours, is := baseline(block.Rows, row)
		switch {
		case by.isFact:
		case !is:
			block.Rows[i].Verdict = "not measured"
		case ours.Label == row.Label:
			block.Rows[i].Verdict, block.Rows[i].Ratio = "ours", 1
		default:
			block.Rows[i].Verdict = by.verdict(ours.Measured, row.Measured)
			if ours.Measured.Median != 0 {
				block.Rows[i].Ratio = row.Measured.Median / ours.Measured.Median
			}
		}
	}
	return block
}

// baseline returns Bellerophon's row to compare a row with: the row with the same setting, else with
// the default, else any. Among these it prefers the same warmth.
func baseline(rows []Row, of Row) (Row, bool) {
	best, points := Row{}, 0
	for _, row := range rows {
		if row.Contender != Ours {
			continue
		}
		mine := 1
		switch {
		case row.Setting == of.Setting:
			mine += 4
		case isDefault(row.Setting):
			mine += 2
		}
		if row.Warm == of.Warm {
			mine++
		}
		if mine > points {
			best, points = row, mine
		}
	}
	return best, points > 0
}
