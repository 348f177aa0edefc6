package faults

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/goals"
)

// Outcome is the result of one case.
type Outcome struct {
	// Struck reports whether the fault happened: the write or event of the case was reached.
	Struck bool `json:"struck"`
	// Failure says what is wrong afterwards; empty if the operator survived.
	Failure string `json:"failure,omitempty"`
	// Recovery is the time from the end of the fault to the wanted state.
	Recovery time.Duration `json:"recovery"`
	// Relists is the largest number of lists of one kind.
	Relists int `json:"relists,omitempty"`
	// Requests is the number of requests during the case.
	Requests int `json:"requests,omitempty"`
}

// Report is the result of a run of one pattern.
type Report struct {
	Subject, Pattern string
	// Outcomes holds the results by the names of the cases, and includes earlier slices.
	Outcomes map[string]Outcome
	// Left is the number of cases that were chosen and not run before the limit.
	Left int
	// Undisturbed are the differences that a run without a fault shows. There should be none.
	Undisturbed []string
	// Violations are writes to an object that the operator had seen in an older state only.
	Violations []string
	// LateWrites is the number of writes in the quiet time after the last case, and Last is one.
	LateWrites int
	Last       string
	// Quiet is the quiet time.
	Quiet time.Duration
	// Crashes is how often the operator ended by itself.
	Crashes int

	began time.Time // of the first case
}

// Struck returns the number of cases whose fault happened, and how many of them it survived.
func (r *Report) Struck() (struck, survived int) {
	for _, outcome := range r.Outcomes {
		if outcome.Struck {
			struck++
			if outcome.Failure == "" {
				survived++
			}
		}
	}
	return struck, survived
}

// Failures describes everything that is wrong.
func (r *Report) Failures() (failures []string) {
	for _, name := range slices.Sorted(maps.Keys(r.Outcomes)) {
		if outcome := r.Outcomes[name]; outcome.Struck && outcome.Failure != "" {
			failures = append(failures, name+": "+outcome.Failure)
		}
	}
	for _, difference := range r.Undisturbed {
		failures = append(failures, "without a fault: "+difference)
	}
	for _, violation := range r.Violations {
		failures = append(failures, "write on an older view: "+violation)
	}
	if r.LateWrites > 0 {
		failures = append(failures, fmt.Sprintf("%d writes in %v after the last case, such as %s", r.LateWrites, r.Quiet, r.Last))
	}
	if r.Crashes > 0 {
		failures = append(failures, fmt.Sprintf("it ended by itself %d times", r.Crashes))
	}
	return failures
}

// p99 returns the time within which 99 of 100 cases recovered. Faults that are found by time alone have a goal of their own.
func (r *Report) p99() time.Duration {
	var times []time.Duration
	for name, outcome := range r.Outcomes {
		if outcome.Struck && outcome.Recovery > 0 && !isSilent(name) {
			times = append(times, outcome.Recovery)
		}
	}
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)-1, len(times)*99/100)]
}

// Goal is one line of what was measured, and what it should be.
type Goal struct {
	Name, Measured, Target string
	Met                    bool
}

// Line returns the line goal<TAB>name<TAB>measured<TAB>target<TAB>met|missed.
func (g Goal) Line() string { return goals.Line(g.Name, g.Measured, g.Target, g.Met) }

// longestRecovery is the target for the time of recovery.
const longestRecovery = 5 * time.Second

// Goals returns the goals of a report, or none if no case was chosen.
func (r *Report) Goals() []Goal {
	if len(r.Outcomes) == 0 {
		return nil
	}
	name := func(what string) string { return r.Pattern + " " + r.Subject + ": " + what }
	struck, survived := r.Struck()
	share := 0.0
	if struck > 0 {
		share = 100 * float64(survived) / float64(struck)
	}
	found := []Goal{
		{name("survived"), fmt.Sprintf("%.1f %% (%d of %d)", share, survived, struck), "100 %", struck > 0 && survived == struck},
		{name("differences without a fault"), fmt.Sprint(len(r.Undisturbed)), "0", len(r.Undisturbed) == 0},
		{name("writes on an older view"), fmt.Sprint(len(r.Violations)), "0", len(r.Violations) == 0},
		{name("writes in " + r.Quiet.String() + " after quiet"), fmt.Sprint(r.LateWrites), "0", r.LateWrites == 0},
	}
	if r.Pattern == streamsAndWrites {
		relists, silence := 0, max(r.Outcomes[halfOpen].Recovery, r.Outcomes[tokenRefused].Recovery)
		for _, outcome := range r.Outcomes {
			relists = max(relists, outcome.Relists)
		}
		found = append(found,
			Goal{name("recovery p99"), r.p99().Round(time.Millisecond).String(), "<= " + longestRecovery.String(), r.p99() <= longestRecovery},
			Goal{name("longest silence"), silence.Round(time.Millisecond).String(), "<= " + longestSilence.String(), silence <= longestSilence},
			Goal{name("relists of a kind after a fault"), fmt.Sprint(relists), "<= 1", relists <= 1})
	}
	return found
}

// WriteGoals writes a line goal<TAB>name<TAB>measured<TAB>target<TAB>met|missed for each goal.
func WriteGoals(to io.Writer, reports ...*Report) error {
	for _, report := range reports {
		for _, goal := range report.Goals() {
			if _, err := io.WriteString(to, goal.Line()); err != nil {
				return err
			}
		}
	}
	return nil
}

// WriteTable writes what each subject survives, one line for each group of cases.
func WriteTable(to io.Writer, reports ...*Report) error {
	var subjects []string
	cells := map[string]map[string][2]int{}
	for _, report := range reports {
		if !slices.Contains(subjects, report.Subject) {
			subjects = append(subjects, report.Subject)
		}
		for name, outcome := range report.Outcomes {
			_, group, found := strings.Cut(name, ", ")
			if !found || report.Pattern == streamsAndWrites {
				group = name
			}
			group = report.Pattern + ": " + group
			if cells[group] == nil {
				cells[group] = map[string][2]int{}
			}
			counts := cells[group][report.Subject]
			if outcome.Struck {
				counts[1]++
				if outcome.Failure == "" {
					counts[0]++
				}
			}
			cells[group][report.Subject] = counts
		}
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "fault\t"+strings.Join(subjects, "\t"))
	for _, group := range slices.Sorted(maps.Keys(cells)) {
		line := group
		for _, subject := range subjects {
			counts, is := cells[group][subject]
			if !is || counts[1] == 0 {
				line += "\t-"
				continue
			}
			line += fmt.Sprintf("\t%d of %d", counts[0], counts[1])
		}
		fmt.Fprintln(table, line)
	}
	return table.Flush()
}

// load reads the outcomes of earlier slices, and save writes all.
func (r *Report) load(folder string) error {
	r.Outcomes = map[string]Outcome{}
	if folder == "" {
		return nil
	}
	content, err := os.ReadFile(r.file(folder))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(content, &r.Outcomes)
	}
	if err != nil {
		return fmt.Errorf("faults: read the state of the last slice: %w", err)
	}
	return nil
}

func (r *Report) save(folder string) error {
	if folder == "" {
		return nil
	}
	content, err := json.MarshalIndent(r.Outcomes, "", "\t")
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	temporary := r.file(folder) + ".new"
	if err == nil {
		err = os.WriteFile(temporary, content, 0o600)
	}
	if err == nil {
		err = os.Rename(temporary, r.file(folder))
	}
	if err != nil {
		return fmt.Errorf("faults: save the state: %w", err)
	}
	return nil
}

func (r *Report) file(folder string) string {
	return filepath.Join(folder, strings.ReplaceAll(r.Pattern, " ", "-")+"."+r.Subject+".json")
}

// chosen returns the cases of a run: a sample that is spread over all, and is always the same.
func (o Options) chosen(all []string) (cases []string) {
	if o.Only != nil {
		all = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !o.Only.MatchString(name) })
	}
	sample := cmp.Or(o.Sample, len(all))
	if sample >= len(all) {
		return all
	}
	for i := range sample {
		cases = append(cases, all[i*len(all)/sample])
	}
	return cases
}

// each runs the chosen cases that have no outcome yet, some at once, until the limit.
func (r *Report) each(options Options, all []string, atOnce int, run func(names []string) ([]Outcome, error)) error {
	if r.began.IsZero() {
		r.began = time.Now()
	}
	var left []string
	for _, name := range options.chosen(all) {
		if _, done := r.Outcomes[name]; !done {
			left = append(left, name)
		}
	}
	for names := range slices.Chunk(left, atOnce) {
		if struck, _ := r.Struck(); struck > 0 && options.Limit > 0 && time.Since(r.began) > options.Limit {
			r.Left += len(names)
			continue
		}
		outcomes, err := run(names)
		if err != nil {
			return fmt.Errorf("faults: %s: %s, cases %q: %w", r.Subject, r.Pattern, names, err)
		}
		for i, name := range names {
			r.Outcomes[name] = outcomes[i]
			options.Progress(fmt.Sprintf("%s: %s: %s: %s", r.Subject, r.Pattern, name, outcomes[i]))
		}
		if err := r.save(options.Folder); err != nil {
			return err
		}
	}
	return nil
}

// String describes an outcome in one line.
func (o Outcome) String() string {
	switch {
	case !o.Struck:
		return "not reached"
	case o.Failure != "":
		return "FAILED: " + o.Failure
	}
	if o.Recovery == 0 {
		return "survived"
	}
	return fmt.Sprintf("survived, recovered in %v with %d requests and at most %d relists of a kind", o.Recovery.Round(time.Millisecond), o.Requests, o.Relists)
}
