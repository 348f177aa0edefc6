// Package top shows what the controllers of a running operator do.
package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
)

// mostKeys bounds the keys of a list.
const mostKeys = 10

// mostControllers bounds the controllers that are shown.
const mostControllers = 50

// replacedFor is how long the table says that another manager answers.
const replacedFor = 30 * time.Second

// sampled is the time between the two states of a table that is printed once.
const sampled = time.Second

// Question returns the question for the state of an operator. Without follow, it asks for two states, because rates need two.
func Question(follow bool) ask.Question {
	made := ask.Question{Path: "/debug/manager", Follow: follow}
	if !follow {
		made.Again = sampled
	}
	return made
}

// Leads reports whether the replica of one state leads, and the replica of another state does not.
func Leads(one, than introspection.State) bool {
	leads := func(of introspection.State) bool { return of.Leader != nil && of.Leader.Leads }
	return leads(one) && !leads(than)
}

// Table makes lines of states. It keeps earlier states for the rates.
type Table struct {
	screen   *screen.Screen
	states   []introspection.State
	replaced time.Time // when another manager began to answer
}

// NewTable creates a table. The screen knows whether it has colours.
func NewTable(on *screen.Screen) *Table { return &Table{screen: on} }

// Lines returns the lines for the last state, the most important ones first. They have at most width columns, where 0 is no limit. At
// least one state must have been added.
func (t *Table) Lines(width int) []string {
	now := t.last()
	lines := []string{t.head(now)}
	if !t.replaced.IsZero() && now.Time.Sub(t.replaced) < replacedFor {
		lines = append(lines, t.screen.Paint(screen.Yellow, "another process of the operator answers, which began at "+now.Started.Local().Format("15:04:05")))
	}
	if leader := now.Leader; leader != nil && leader.Leads {
		lines = append(lines, "this replica leads: "+screen.Clean(leader.Identity))
	} else if leader != nil {
		lines = append(lines, t.screen.Paint(screen.Yellow, "this replica stands by: "+screen.Clean(cmp.Or(leader.Holder, "no replica"))+" leads"))
	}
	for _, note := range now.Notes {
		lines = append(lines, t.screen.Paint(screen.Yellow, screen.Clean(note)))
	}
	lines = append(append(lines, ""), t.controllers(now, width)...)
	lines = append(lines, t.patterns(now, width)...)
	lines = append(lines, t.backoffs(now, width)...)
	lines = append(lines, t.slowest(now, width)...)
	return append(lines, t.stages(now, width)...)
}

func (t *Table) head(now introspection.State) string {
	line := fmt.Sprintf("%s  level %s", now.Time.Local().Format("15:04:05"), t.screen.Paint(screen.Bold, now.Level.String()))
	if now.Next != nil {
		line += fmt.Sprintf(", %s waits for %s", now.Next.Level, screen.Clean(strings.Join(now.Next.Missing, ", ")))
	}
	return line + fmt.Sprintf("; %d workers, loop %s, quiet after %s", now.Workers, short(now.Loop), short(now.Quiet))
}

func (t *Table) controllers(now introspection.State, width int) []string {
	made := rows{{"CONTROLLER", "STATE", "LEVEL", "QUEUED", "IN FLIGHT", "RECONCILES/S", "WRITES/S", "FAILURES/S", "FAILING", "TERMINAL", "NEXT LEVEL WAITS FOR"}}
	waits := width == 0 // The columns on a pipe are always the same.
	for i := range now.Controllers[:min(len(now.Controllers), mostControllers)] {
		made = append(made, t.controller(&now.Controllers[i]))
		waits = waits || now.Controllers[i].Next != nil
	}
	if !waits {
		for i := range made {
			made[i] = made[i][:len(made[i])-1]
		}
	}
	lines, leftOut := made.aligned(width, "NEXT LEVEL WAITS FOR", "LEVEL", "STATE", "TERMINAL", "IN FLIGHT", "WRITES/S", "FAILING", "QUEUED")
	if more := len(now.Controllers) - mostControllers; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more controllers, later by name", more))
	}
	if len(leftOut) > 0 {
		lines = append(lines, t.screen.Paint(screen.Dim, "too narrow for "+strings.Join(leftOut, ", ")))
	}
	return lines
}

func (t *Table) controller(of *introspection.Controller) []string {
	waits := ""
	if of.Next != nil {
		waits = strings.Join(of.Next.Missing, ", ")
	}
	reconciles, writes, failures := "-", "-", "-"
	if rates := t.rates(of); rates != nil {
		reconciles, writes, failures = tenth(rates.Reconciles), tenth(rates.Writes), tenth(rates.Failures)
	}
	return []string{
		of.Name, of.State, of.Level.String(), strconv.FormatInt(of.Queued, 10), strconv.Itoa(len(of.InFlight)), reconciles, writes, failures,
		strconv.Itoa(of.Failing), strconv.Itoa(of.Terminal), waits,
	}
}

func tenth(number float64) string { return strconv.FormatFloat(number, 'f', 1, 64) }

func (t *Table) patterns(now introspection.State, width int) []string {
	var made rows
	for i := range now.Controllers {
		for _, found := range now.Controllers[i].Patterns {
			with := ""
			if len(found.Managers) > 0 {
				with = "with " + strings.Join(found.Managers, ", ")
			}
			made = append(made, []string{now.Controllers[i].Name, found.Key, strings.ReplaceAll(found.Pattern, "_", " "), tenth(found.PerSecond),
				strings.TrimSpace(found.Written + " " + strings.Join(found.Fields, ", ")), with})
		}
	}
	return t.section(width, screen.Red, []string{"FIGHTS AND HOT LOOPS", "KEY", "PATTERN", "ROUNDS/S", "WRITTEN", ""}, made, len(made), "later by controller and key", "", "WRITTEN", "ROUNDS/S")
}

func (t *Table) backoffs(now introspection.State, width int) []string {
	var made rows
	all := 0
	for i := range now.Controllers {
		all += max(now.Controllers[i].Failed, len(now.Controllers[i].Backoffs))
		for _, failed := range now.Controllers[i].Backoffs {
			due := "ended"
			if failed.Due != nil {
				due = short(max(0, failed.Due.Sub(now.Time).Seconds()))
			}
			made = append(made, []string{now.Controllers[i].Name, failed.Key, strconv.Itoa(failed.Failures), due, failed.Reason})
		}
	}
	return t.section(width, screen.Yellow, []string{"BACKING OFF", "KEY", "FAILURES", "AGAIN IN", "REASON"}, made, all, "later by controller and key", "AGAIN IN", "FAILURES")
}

func (t *Table) slowest(now introspection.State, width int) []string {
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
	var made rows
	for _, one := range all {
		made = append(made, []string{one.controller, one.Key, short(one.Seconds), short(max(0, now.Time.Sub(one.Ended).Seconds())) + " ago", one.ID})
	}
	return t.section(width, "", []string{"SLOWEST", "KEY", "LAST ATTEMPT", "ENDED", "ID"}, made, len(made), "faster", "ID", "ENDED")
}

func (t *Table) stages(now introspection.State, width int) []string {
	made := rows{{"STAGE", "IN", "OUT", "WAITING"}}
	for _, stage := range now.Stages {
		made = append(made, []string{stage.Name, strconv.FormatInt(stage.In, 10), strconv.FormatInt(stage.Out, 10), strconv.FormatInt(stage.Waiting, 10)})
	}
	if len(made) == 1 {
		return nil
	}
	lines, _ := made.aligned(width, "OUT", "IN")
	return append([]string{""}, lines...)
}

// section returns a list with its head, or nothing if it is empty. It has the first keys of all, and says which ones it leaves out.
func (t *Table) section(width int, colour screen.Colour, head []string, keys rows, all int, others string, spare ...string) []string {
	if len(keys) == 0 {
		return nil
	}
	keys = keys[:min(len(keys), mostKeys)]
	lines, _ := append(rows{head}, keys...).aligned(width, spare...)
	if colour != "" {
		lines[0] = t.screen.Paint(colour, lines[0])
	}
	if more := all - len(keys); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more, %s", more, others))
	}
	return append([]string{""}, lines...)
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
