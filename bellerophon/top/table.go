// Package top shows what the controllers of a running operator do.
package top

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
)

// mostKeys bounds the keys of a list.
const mostKeys = 10

// window is the time over which rates are taken.
const window = 5 * time.Second

// Question returns the question for the state of an operator.
func Question(follow bool) ask.Question { return ask.Question{Path: "/debug/manager", Follow: follow} }

// Leads reports whether the replica of one state leads, and the replica of another state does not.
func Leads(one, than introspection.State) bool {
	leads := func(of introspection.State) bool { return of.Leader != nil && of.Leader.Leads }
	return leads(one) && !leads(than)
}

// Table makes lines of states. It keeps earlier states for the rates.
type Table struct {
	screen *screen.Screen
	before []introspection.State
}

// NewTable creates a table. The screen knows whether it has colours.
func NewTable(on *screen.Screen) *Table { return &Table{screen: on} }

// Lines returns the lines for a state, the most important ones first. Rates are unknown in the first state.
func (t *Table) Lines(now introspection.State) []string {
	for len(t.before) > 1 && now.Time.Sub(t.before[1].Time) >= window {
		t.before = t.before[1:]
	}
	lines := []string{t.head(now)}
	if leader := now.Leader; leader != nil && leader.Leads {
		lines = append(lines, "this replica leads: "+screen.Clean(leader.Identity))
	} else if leader != nil {
		lines = append(lines, t.screen.Paint(screen.Yellow, "this replica stands by: "+screen.Clean(cmp.Or(leader.Holder, "no replica"))+" leads"))
	}
	for _, note := range now.Notes {
		lines = append(lines, t.screen.Paint(screen.Yellow, screen.Clean(note)))
	}
	rows := [][]string{{"CONTROLLER", "STATE", "LEVEL", "QUEUED", "IN FLIGHT", "ATTEMPTS/S", "ERRORS/S", "FAILING", "TERMINAL", "NEXT LEVEL WAITS FOR"}}
	for i := range now.Controllers {
		rows = append(rows, t.controller(&now, &now.Controllers[i]))
	}
	lines = append(append(lines, ""), table(rows)...)
	lines = append(lines, t.patterns(now)...)
	lines = append(lines, t.backoffs(now)...)
	lines = append(lines, t.slowest(now)...)
	lines = append(lines, t.stages(now)...)
	t.before = append(t.before, now)
	return lines
}

func (t *Table) head(now introspection.State) string {
	line := fmt.Sprintf("%s  level %s", now.Time.Local().Format("15:04:05"), t.screen.Paint(screen.Bold, now.Level.String()))
	if now.Next != nil {
		line += fmt.Sprintf(", %s waits for %s", now.Next.Level, screen.Clean(strings.Join(now.Next.Missing, ", ")))
	}
	return line + fmt.Sprintf("; %d workers, loop %s, quiet after %s", now.Workers, short(now.Loop), short(now.Quiet))
}

func (t *Table) controller(now *introspection.State, of *introspection.Controller) []string {
	waits := ""
	if of.Next != nil {
		waits = strings.Join(of.Next.Missing, ", ")
	}
	attempts, errors := t.rates(now, of)
	return []string{
		of.Name, of.State, of.Level.String(), strconv.FormatInt(of.Queued, 10), strconv.Itoa(len(of.InFlight)), attempts, errors,
		strconv.Itoa(of.Failing), strconv.Itoa(of.Terminal), waits,
	}
}

// rates returns the attempts and errors a second since the oldest state that is kept.
func (t *Table) rates(now *introspection.State, of *introspection.Controller) (attempts, errors string) {
	if len(t.before) == 0 {
		return "-", "-"
	}
	oldest := t.before[0]
	i := slices.IndexFunc(oldest.Controllers, func(known introspection.Controller) bool { return known.Name == of.Name })
	took := now.Time.Sub(oldest.Time).Seconds()
	if i < 0 || took <= 0 || of.Attempts < oldest.Controllers[i].Attempts {
		return "-", "-"
	}
	rate := func(more int64) string { return strconv.FormatFloat(float64(more)/took, 'f', 1, 64) }
	return rate(of.Attempts - oldest.Controllers[i].Attempts), rate(of.Errors - oldest.Controllers[i].Errors)
}

func (t *Table) patterns(now introspection.State) []string {
	var rows [][]string
	for i := range now.Controllers {
		for _, found := range now.Controllers[i].Patterns {
			with := ""
			if len(found.Managers) > 0 {
				with = "with " + strings.Join(found.Managers, ", ")
			}
			rows = append(rows, []string{now.Controllers[i].Name, found.Key, strings.ReplaceAll(found.Pattern, "_", " "), strconv.FormatFloat(found.PerSecond, 'f', 1, 64),
				strings.TrimSpace(found.Written + " " + strings.Join(found.Fields, ", ")), with})
		}
	}
	return t.section(screen.Red, []string{"FIGHTS AND HOT LOOPS", "KEY", "PATTERN", "ROUNDS/S", "WRITTEN", ""}, rows)
}

func (t *Table) backoffs(now introspection.State) []string {
	var rows [][]string
	for i := range now.Controllers {
		for _, failed := range now.Controllers[i].Backoffs {
			due := "ended"
			if failed.Due != nil {
				due = short(max(0, failed.Due.Sub(now.Time).Seconds()))
			}
			rows = append(rows, []string{now.Controllers[i].Name, failed.Key, strconv.Itoa(failed.Failures), due, failed.Reason})
		}
	}
	return t.section(screen.Yellow, []string{"BACKING OFF", "KEY", "FAILURES", "AGAIN IN", "REASON"}, rows)
}

func (t *Table) slowest(now introspection.State) []string {
	type slow struct {
		controller string
		introspection.Slow
	}
	var all []slow
	for i := range now.Controllers {
		for _, one := range now.Controllers[i].Slowest {
			all = append(all, slow{now.Controllers[i].Name, one})
		}
	}
	slices.SortStableFunc(all, func(a, b slow) int { return cmp.Compare(b.Seconds, a.Seconds) })
	var rows [][]string
	for _, one := range all {
		rows = append(rows, []string{one.controller, one.Key, short(one.Seconds), short(max(0, now.Time.Sub(one.Ended).Seconds())) + " ago", one.ID})
	}
	return t.section("", []string{"SLOWEST", "KEY", "LAST ATTEMPT", "ENDED", "ID"}, rows)
}

func (t *Table) stages(now introspection.State) []string {
	rows := make([][]string, 0, len(now.Stages))
	for _, stage := range now.Stages {
		rows = append(rows, []string{stage.Name, strconv.FormatInt(stage.In, 10), strconv.FormatInt(stage.Out, 10), strconv.FormatInt(stage.Waiting, 10)})
	}
	return t.section("", []string{"STAGE", "IN", "OUT", "WAITING"}, rows)
}

// section returns a list with its head, or nothing if it is empty. Of keys, it has the first ones.
func (t *Table) section(colour screen.Colour, head []string, rows [][]string) []string {
	if len(rows) == 0 {
		return nil
	}
	more := 0
	if head[0] != "STAGE" && len(rows) > mostKeys {
		more = len(rows) - mostKeys
		rows = rows[:mostKeys]
	}
	lines := table(append([][]string{head}, rows...))
	if colour != "" {
		lines[0] = t.screen.Paint(colour, lines[0])
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return append([]string{""}, lines...)
}

// table aligns the columns of rows.
func table(rows [][]string) []string {
	var text bytes.Buffer
	writer := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = screen.Clean(row[i])
		}
		fmt.Fprintln(writer, strings.Join(row, "\t"))
	}
	_ = writer.Flush() // A buffer takes everything.
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// short formats seconds.
func short(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d min", int(d.Minutes()))
}
