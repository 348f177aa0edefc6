package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/outcome"
)

// Ours is the contender that all others are compared with.
const Ours = "bellerophon"

// Summary is all that a run says. It is what --json prints.
type Summary struct {
	Run    outcome.Run `json:"run"`
	Rounds int         `json:"rounds"`         // all that are over
	Counts int         `json:"roundsCounting"` // those in the medians
	Goals  []Goal      `json:"goals"`
	Reads  string      `json:"reads"`            // what they are
	Losses []Finding   `json:"losses"`           // wherever Bellerophon's median is worse
	Wins   []Finding   `json:"wins"`             // wherever it is better
	Limits []Limits    `json:"limits,omitempty"` // of scenarios in which limits of the memory were swept
	Tables []Table     `json:"tables"`           // in the order in which the scenarios were asked for
	Left   []Left      `json:"leftOut"`
	Noisy  []Left      `json:"noisy"` // rounds that are in medians though the machine was busy
}

// Table is one scenario in one variant.
type Table struct {
	Scenario string  `json:"scenario"`
	Variant  string  `json:"variant"`
	Blocks   []Block `json:"measures"`
}

// Name is the scenario and its variant.
func (t Table) Name() string { return strings.TrimSpace(t.Scenario + " " + t.Variant) }

// Block is one measure of all contenders.
type Block struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Unit  string `json:"unit"` // s, bytes, or nothing for a number
	// IsFact says that it is of the round, and nobody's merit.
	IsFact bool  `json:"isFact,omitempty"`
	Rows   []Row `json:"rows"`
}

// Row is one contender with one setting.
type Row struct {
	Label     string    `json:"label"` // the contender, its setting unless that is the default, and whether it was warm
	Contender string    `json:"contender"`
	Setting   string    `json:"setting"`
	Warm      bool      `json:"warm"`
	Measured  Statistic `json:"measured"`
	Noisy     int       `json:"noisy,omitempty"`       // of its rounds
	Ratio     float64   `json:"ratioToOurs,omitempty"` // its median by ours; 0 where there is none
	Verdict   string    `json:"verdict"`               // in words: what Bellerophon is beside it
	Median    string    `json:"-"`
	Spread    string    `json:"-"`
}

// label names a contender, its setting unless that is the default, and whether it was warm.
func label(contender, setting string, warm bool) string {
	if !isDefault(setting) {
		contender += " " + setting
	}
	if warm {
		contender += " (warm)"
	}
	return contender
}

// Finding is one comparison with one contender.
type Finding struct {
	Table, Measure, Contender, Verdict string
}

// Left is a round that is in no median, or should not be.
type Left struct {
	Round, Fate, Reason string
}

// Summarize sums up a run. The rounds are in the order of their start.
func Summarize(run outcome.Run, rounds []outcome.Round) Summary {
	summary := Summary{Run: run, Rounds: len(rounds), Goals: judge(run, rounds)}
	var counting []outcome.Round
	for _, round := range rounds {
		name := strings.Join([]string{round.Scenario, round.Variant, label(round.Contender, round.Setting, round.Warm), "turn " + strconv.Itoa(round.Turn)}, ", ")
		switch {
		case round.Failed != "":
			summary.Left = append(summary.Left, Left{name, "failed", round.Failed})
		case round.Rejected != "":
			summary.Left = append(summary.Left, Left{name, "rejected", round.Rejected})
		case round.Noisy != "":
			summary.Noisy = append(summary.Noisy, Left{name, "noisy", round.Noisy})
			counting = append(counting, round)
		default:
			counting = append(counting, round)
		}
	}
	summary.Counts = len(counting)
	summary.Limits = limitsOf(run, rounds)
	summary.Reads = whatReadsAre(rounds)
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

// whatReadsAre differs in runs from before calls were counted by verb.
func whatReadsAre(rounds []outcome.Round) string {
	if slices.ContainsFunc(rounds, func(round outcome.Round) bool { _, is := round.Measured[outcome.ListCalls]; return is }) {
		return "Reads are gets and lists; the lists with which a cache begins, before the first watch of the same resource, are none, however they come."
	}
	return "Reads are gets and lists, also the lists with which a cache begins, but not where a watch streams them."
}

// find collects where Bellerophon is worse and where it is better.
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

// kind is a scenario in a variant.
type kind struct{ scenario, variant string }

func (k kind) String() string { return strings.TrimSpace(k.scenario + " " + k.variant) }

func ofKind(rounds []outcome.Round, wanted kind) []outcome.Round {
	return slices.DeleteFunc(slices.Clone(rounds), func(round outcome.Round) bool {
		return kind{round.Scenario, round.Variant} != wanted
	})
}

// kindsOf lists the scenarios and variants, as they were asked for; what was not asked for
// comes last, by name and numbers.
func kindsOf(run outcome.Run, rounds []outcome.Round) []kind {
	seen := map[kind]bool{}
	for _, round := range rounds {
		seen[kind{round.Scenario, round.Variant}] = true
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b kind) int {
		return cmp.Or(cmp.Compare(place(run.Scenarios, a.String()), place(run.Scenarios, b.String())), cmp.Compare(a.scenario, b.scenario), byNumbers(a.variant, b.variant))
	})
}

// byPlace orders by a list, and what is not in it after that, by name.
func byPlace(order []string, a, b string) int {
	return cmp.Or(cmp.Compare(place(order, a), place(order, b)), cmp.Compare(a, b))
}

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

// bySetting orders the default first, then limits of the memory, then numbers of workers, each
// by size.
func bySetting(a, b string) int {
	if isDefault(a) || isDefault(b) {
		return cmp.Compare(fmt.Sprint(isDefault(b)), fmt.Sprint(isDefault(a)))
	}
	return cmp.Or(cmp.Compare(variantValue(a, "workers"), variantValue(b, "workers")), cmp.Compare(limitOf(a), limitOf(b)), cmp.Compare(a, b))
}

func byWarmth(a, b bool) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }

// compare makes the block of one measure of the rounds of one kind.
func compare(by measure, run outcome.Run, rounds []outcome.Round) Block {
	type side struct {
		contender, setting string
		warm               bool
	}
	values, noisy := map[side][]float64{}, map[side]int{}
	for _, round := range rounds {
		if value, is := by.of(round); is {
			of := side{round.Contender, round.Setting, round.Warm}
			values[of] = append(values[of], value)
			if round.Noisy != "" {
				noisy[of]++
			}
		}
	}
	block := Block{Name: by.name, Title: by.title, Unit: string(by.unit), IsFact: by.isFact}
	order := append([]string{Ours}, run.Contenders...)
	for _, of := range slices.SortedFunc(maps.Keys(values), func(a, b side) int {
		return cmp.Or(byPlace(order, a.contender, b.contender), bySetting(a.setting, b.setting), byWarmth(a.warm, b.warm))
	}) {
		measured := statisticOf(values[of])
		block.Rows = append(block.Rows, Row{
			Label: label(of.contender, of.setting, of.warm), Contender: of.contender, Setting: of.setting, Warm: of.warm, Measured: measured, Noisy: noisy[of],
			Median: by.unit.write(measured.Median), Spread: by.unit.write(measured.Min) + " to " + by.unit.write(measured.Max),
		})
	}
	for i, row := range block.Rows {
		ours, is := baseline(block.Rows, row)
		switch {
		case by.isFact:
		case !is:
			block.Rows[i].Verdict = "nothing of ours to compare"
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

// baseline is our row that a row is compared with: that of the same setting, else the
// default one, else any; and of these that which is as warm.
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
