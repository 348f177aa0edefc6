package top_test

import (
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
		Time: now, Level: cache.Current, Next: &introspection.NextLevel{Level: cache.OwnWritesVisible, Missing: []string{"a\x1b[2Jrider"}}, Workers: 8, Loop: .012, Quiet: .12,
		Leader: &introspection.Leader{Identity: "pod-1", Holder: "pod-0"},
		Controllers: []introspection.Controller{{
			Name: "riders", State: "working", Level: cache.Current, Queued: 3, InFlight: []introspection.Attempt{{Key: "a/b"}}, Attempts: attempts, Errors: attempts / 10, Failing: 1, Terminal: 1,
			Backoffs: []introspection.Failure{{Key: "a/ends", Failures: 1, Reason: "Invalid", Terminal: true}, {Key: "a/fails", Failures: 4, Reason: "an error", Due: &due}},
			Slowest:  []introspection.Slow{{Key: "a/slow", Seconds: 3.5, ID: "0123456789abcdef", Ended: now.Add(-5 * time.Minute)}},
			Patterns: []introspection.Pattern{{Key: "a/b", Pattern: "hot_loop", Written: "Pod a/b", PerSecond: 25}, {Key: "a/c", Pattern: "fight", Written: "Pod a/c", Fields: []string{"spec.x"}, Managers: []string{"kubectl"}, PerSecond: .5}},
		}},
		Stages: []introspection.Stage{{Name: "reconcile", In: 12, Out: 10, Waiting: 2}},
	}
}

const wanted = `12:00:02  level Current, OwnWritesVisible waits for a [2Jrider; 8 workers, loop 12 ms, quiet after 120 ms
this replica stands by: pod-0 leads

CONTROLLER  STATE    LEVEL    QUEUED  IN FLIGHT  ATTEMPTS/S  ERRORS/S  FAILING  TERMINAL  NEXT LEVEL WAITS FOR
riders      working  Current  3       1          50.0        5.0       1        1

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

func TestATableShowsControllersAndRatesAndNoControlCharacters(t *testing.T) {
	table := top.NewTable(screen.To(io.Discard))
	if first := strings.Join(table.Lines(state(0, 100)), "\n"); !strings.Contains(first, "1          -           -         1") {
		t.Errorf("the first table has rates:\n%s", first)
	}
	if got := strings.Join(table.Lines(state(2*time.Second, 200)), "\n"); got != wanted {
		t.Errorf("the table is\n%s\nwant\n%s", got, wanted)
	}
	table.Lines(state(9*time.Second, 200))
	if last := strings.Join(table.Lines(state(14*time.Second, 200)), "\n"); !strings.Contains(last, "1          0.0         0.0") {
		t.Errorf("the rates are of the whole past:\n%s", last)
	}
	restarted := strings.Join(table.Lines(state(15*time.Second, 1)), "\n")
	if !strings.Contains(restarted, "1          -           -") {
		t.Errorf("after a restart of the operator, the rates are:\n%s", restarted)
	}
}

func TestALongListIsCut(t *testing.T) {
	shown := state(0, 1)
	for range 20 {
		shown.Controllers[0].Backoffs = append(shown.Controllers[0].Backoffs, shown.Controllers[0].Backoffs[0])
	}
	if text := strings.Join(top.NewTable(screen.To(io.Discard)).Lines(shown), "\n"); !strings.Contains(text, "and 12 more") || strings.Count(text, "a/ends") != 9 {
		t.Errorf("the table is\n%s", text)
	}
}

func TestTheReplicaThatLeadsIsShown(t *testing.T) {
	leads, standsBy := state(0, 1), state(0, 1)
	leads.Leader = &introspection.Leader{Leads: true, Identity: "pod-0", Holder: "pod-0"}
	if !top.Leads(leads, standsBy) || top.Leads(standsBy, leads) || top.Leads(leads, leads) {
		t.Error("the replica that leads is not preferred")
	}
	if text := strings.Join(top.NewTable(screen.To(io.Discard)).Lines(leads), "\n"); !strings.Contains(text, "this replica leads: pod-0") {
		t.Errorf("the table is\n%s", text)
	}
}
