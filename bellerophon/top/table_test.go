package top_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/top"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local)

func state(after time.Duration, attempts int64) introspection.State {
	now := noon.Add(after)
	due := now.Add(90 * time.Second)
	return introspection.State{
		Time: now, Level: cache.Current, Started: noon.Add(-time.Hour), Next: &introspection.NextLevel{Level: cache.OwnWritesVisible, Missing: []string{"a\x1b[2Jrider"}}, Workers: 8, Loop: .012, Quiet: .12,
		Leader: &introspection.Leader{Identity: "pod-1", Holder: "pod-0"},
		Controllers: []introspection.Controller{{
			Name: "riders", State: "working", Level: cache.Current, Queued: 3, InFlight: []introspection.Attempt{{Key: "a/b"}}, Attempts: attempts, Errors: attempts / 10, Writes: attempts / 2, Failing: 1, Terminal: 1,
			Backoffs: []introspection.Failure{{Key: "a/ends", Failures: 1, Reason: "Invalid", Terminal: true}, {Key: "a/fails", Failures: 4, Reason: "an error", Due: &due}},
			Slowest:  []introspection.Slow{{Key: "a/slow", Seconds: 3.5, ID: "0123456789abcdef", Ended: now.Add(-5 * time.Minute)}},
			Patterns: []introspection.Pattern{{Key: "a/b", Pattern: "hot_loop", Written: "Pod a/b", PerSecond: 25}, {Key: "a/c", Pattern: "fight", Written: "Pod a/c", Fields: []string{"spec.x"}, Managers: []string{"kubectl"}, PerSecond: .5}},
		}},
		Stages: []introspection.Stage{{Name: "reconcile", In: 12, Out: 10, Waiting: 2}},
	}
}

const wanted = `12:00:02  level Current, OwnWritesVisible waits for a [2Jrider; 8 workers, loop 12 ms, quiet after 120 ms
this replica stands by: pod-0 leads

CONTROLLER  STATE    LEVEL    QUEUED  IN FLIGHT  RECONCILES/S  WRITES/S  FAILURES/S  FAILING  TERMINAL  NEXT LEVEL WAITS FOR
riders      working  Current  3       1          50.0          25.0      5.0         1        1

FIGHTS AND HOT LOOPS  KEY  PATTERN   ROUNDS/S  WRITTEN
riders                a/b  hot loop  25.0      Pod a/b
riders                a/c  fight     0.5       Pod a/c spec.x  with kubectl

BACKING OFF  KEY      FAILURES  AGAIN IN  REASON
riders       a/ends   1         ended     Invalid
riders       a/fails  4         90.0 s    an error

SLOWEST  KEY     LAST ATTEMPT  ENDED      ID
riders   a/slow  3.5 s         5 min ago  0123456789abcdef

STAGE      IN  OUT  WAITING
reconcile  12  10   2`

// lines adds a state, and returns the lines of the table.
func lines(t *testing.T, table *top.Table, shown introspection.State, width int) string {
	t.Helper()
	if err := table.Add(shown); err != nil {
		t.Fatal(err)
	}
	return strings.Join(table.Lines(width), "\n")
}

func TestATableShowsControllersAndRatesAndNoControlCharacters(t *testing.T) {
	table := top.NewTable(screen.To(io.Discard))
	if first := lines(t, table, state(0, 100), 0); !strings.Contains(first, "1          -             -         -           1") || table.HasRates() {
		t.Errorf("the first table has rates:\n%s", first)
	}
	if got := lines(t, table, state(2*time.Second, 200), 0); got != wanted || !table.HasRates() {
		t.Errorf("the table is\n%s\nwant\n%s", got, wanted)
	}
	lines(t, table, state(9*time.Second, 200), 0)
	if last := lines(t, table, state(14*time.Second, 200), 0); !strings.Contains(last, "1          0.0           0.0       0.0 ") {
		t.Errorf("the rates are of the whole past:\n%s", last)
	}
}

func TestRatesAreUnknownWhereNoTwoStatesAreOfOneCount(t *testing.T) {
	for name, second := range map[string]func() introspection.State{
		"another process": func() introspection.State {
			shown := state(2*time.Second, 500)
			shown.Started = noon.Add(time.Second)
			return shown
		},
		"a controller that came again": func() introspection.State { return state(2*time.Second, 1) },
		"a clock that was set back":    func() introspection.State { return state(-time.Hour, 500) },
		"another controller": func() introspection.State {
			shown := state(2*time.Second, 500)
			shown.Controllers[0].Name = "stables"
			return shown
		},
	} {
		table := top.NewTable(screen.To(io.Discard))
		lines(t, table, state(0, 100), 0)
		text := lines(t, table, second(), 0)
		if !strings.Contains(text, "1          -             -         -           1") || table.Shown().Controllers[0].Rates != nil {
			t.Errorf("with %s, the table is\n%s", name, text)
		}
		if said := strings.Contains(text, "another process of the operator answers, which began at 12:00:01"); said != (name == "another process") {
			t.Errorf("with %s, the table says\n%s", name, text)
		}
	}
}

func TestTheJSONOfAStateHasRates(t *testing.T) {
	table := top.NewTable(screen.To(io.Discard))
	lines(t, table, state(0, 100), 0)
	lines(t, table, state(2*time.Second, 200), 0)
	encoded, err := json.Marshal(table.Shown())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"rates":{"seconds":2,"reconcilesPerSecond":50,"writesPerSecond":25,"failuresPerSecond":5}`, `"controllers":[{"name":"riders"`, `"workers":8`} {
		if strings.Count(string(encoded), want) != 1 {
			t.Errorf("it has no %s:\n%s", want, encoded)
		}
	}
}

func TestNonsenseIsNoState(t *testing.T) {
	if err := top.NewTable(screen.To(io.Discard)).Add(introspection.State{}); err == nil {
		t.Error("a state without a time is shown")
	}
}

// The enemies are 5,000 keys that back off, and many controllers.
func TestALongListIsCutAndSaysWhatIsLeftOut(t *testing.T) {
	shown := state(0, 1)
	first := shown.Controllers[0].Backoffs[0]
	shown.Controllers[0].Failed = 5000
	for range 98 {
		shown.Controllers[0].Backoffs = append(shown.Controllers[0].Backoffs, first)
		shown.Controllers[0].Patterns = append(shown.Controllers[0].Patterns, shown.Controllers[0].Patterns[0])
	}
	for range 70 {
		shown.Controllers = append(shown.Controllers, introspection.Controller{Name: "other"})
	}
	text := lines(t, top.NewTable(screen.To(io.Discard)), shown, 0)
	for _, want := range []string{"and 4990 more, later by controller and key", "and 90 more, later by controller and key", "and 21 more controllers, later by name"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table does not say %q:\n%s", want, text)
		}
	}
	if count := strings.Count(text, "\n"); count > 100 {
		t.Errorf("the table has %d lines", count)
	}
}

const narrow = `CONTROLLER  RECONCILES/S  FAILURES/S
riders      50.0          5.0
too narrow for LEVEL, STATE, TERMINAL, IN FLIGHT, WRITES/S, FAILING, QUEUED

FIGHTS AND HOT LOOPS  KEY  PATTERN
riders                a/b  hot loop
riders                a/c  fight

BACKING OFF  KEY      FAILURES  REASON
riders       a/ends   1         Invalid
riders       a/fails  4         an error

SLOWEST  KEY     LAST ATTEMPT  ENDED
riders   a/slow  3.5 s         5 min ago

STAGE      IN  OUT  WAITING
reconcile  12  10   2`

func TestANarrowTableLeavesOutColumnsAndSaysSo(t *testing.T) {
	table := top.NewTable(screen.To(io.Discard))
	lines(t, table, state(0, 100), 40)
	if text := lines(t, table, state(2*time.Second, 200), 40); !strings.HasSuffix(text, narrow) {
		t.Errorf("the table is\n%s", text)
	}
	long := state(3*time.Second, 200)
	long.Controllers[0].Backoffs[0].Key = "a-namespace-with-a-long-name/and-an-object-with-a-name-that-is-longer-0815"
	text := lines(t, table, long, 40)
	if !strings.Contains(text, "…") || !strings.Contains(text, "0815") {
		t.Errorf("a long key is not shortened in its middle:\n%s", text)
	}
	_, lists, _ := strings.Cut(text, "BACKING OFF")
	for line := range strings.SplitSeq(lists, "\n") {
		if len([]rune(line)) > 40 {
			t.Errorf("%q is too long", line)
		}
	}
}

func TestTheReplicaThatLeadsIsShown(t *testing.T) {
	leads, standsBy := state(0, 1), state(0, 1)
	leads.Leader = &introspection.Leader{Leads: true, Identity: "pod-0", Holder: "pod-0"}
	if !top.Leads(leads, standsBy) || top.Leads(standsBy, leads) || top.Leads(leads, leads) {
		t.Error("the replica that leads is not preferred")
	}
	if text := lines(t, top.NewTable(screen.To(io.Discard)), leads, 0); !strings.Contains(text, "this replica leads: pod-0") {
		t.Errorf("the table is\n%s", text)
	}
}
