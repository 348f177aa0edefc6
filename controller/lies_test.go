package controller_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var tellLies = flag.Int("lies", 1, "number of seeded bugs that the tests of the levels must catch; all of them take minutes")

// lie is a bug that is seeded into the production code. With it, a level promises too much, or is
// not reached in time.
type lie struct {
	name    string
	edits   []edit
	targets string // a pattern of further tests that catch it; empty if the random schedules do
}

// edit replaces the text old, which must occur exactly once in the file, with new. The file is absolute, or relative
// to the root of the repository.
type edit struct{ file, old, new string }

// unbounded lets levels outlast MaxStaleness. It is part of several lies.
var unbounded = edit{"cache/scope.go", "case bound == 0:", "case true:"}

// joining leaves out controllers that have not joined. It is part of several lies.
var joining = edit{"controller/held.go", "if member.joins.Load() && !member.isBlocked() {", "if false {"}

var lies = []lie{
	{"events between debounce and reconcile are received early", []edit{
		{"controller/pipeline/cache.go", "p.intake.events += int64(len(batch))", "p.intake.taken.Add(int64(len(batch)))"}}, ""},
	{"a map function in progress does not count", []edit{
		{"controller/pipeline/cache.go", "between(sent(), p.intake.taken.Load())", "0*between(sent(), p.intake.taken.Load())"}}, ""},
	{"an event in the window of the debounce does not count", []edit{
		{"controller/pipeline/stage.go", "if stats.Busy() {", "if stats.Busy() && name != \"debounce\" || stats.Running.Load() > 0 {"}}, "WaitsInItsWindow"},
	{"requests have no time-out, and levels no bound", []edit{
		{"sources/freshness.go", "const maxAnswer = 70 * time.Second", "const maxAnswer = 8760 * time.Hour"}, unbounded}, ""},
	{"a silent watch is not probed, and levels have no bound", []edit{
		{"sources/freshness.go", "if patience <= 0 {", "if true {"}, unbounded}, ""},
	{"a server that asks for patience is asked again for ever, and levels have no bound", []edit{
		{"sources/watcher.go", "MaxRetries(1)", "MaxRetries(1000)"}, unbounded}, ""},
	{"a list after a restore is no reset", []edit{
		{"cache/apply.go", "reset: event.Reset || given != nil && given.reset,", "reset: given == nil && false,"}}, ""},
	{"an outage enters the loop duration", []edit{
		{"cache/scope.go", "return !since.IsZero() && !s.lost && !since.Before(s.resumed)", "return !since.IsZero()"}}, "WasLostForAnHour"},
	{"without bookmarks, an event after a failure does not count as one", []edit{
		{"sources/freshness.go", "mark = !streams.IsOlderVersion(version, f.required)", "mark = false"}}, "MakesAServerWithoutBookmarksCurrentAtOnce"},
	{"an own write outside the watched namespaces stays in the overlay", []edit{
		{"cache/overlay.go", "case !s.covers(name.Namespace), ", "case "}}, ""},
	{"results do not count", []edit{
		{"controller/pipeline/reconcile.go", "between(sent(), p.handled.Load())", "0*between(sent(), p.handled.Load())"}}, ""},
	{"a key that backs off after its first failure does not count", []edit{
		{"operators/unfinished.go", "const FailingAfter = 3", "const FailingAfter = 1"}}, ""},
	{"a controller that waits for its Lease does not count", []edit{joining}, "AStandbyIsReady"},
	{"a map function that is asked as a controller joins does not count", []edit{joining,
		{"controller/held.go", "m.mapping.Load())", "0*m.mapping.Load())"}}, "AsAControllerJoins"},
	{"terminal errors do not hold up Converged", []edit{
		{"controller/pipeline/settle.go", "return objects > 0 || p.unfinished.Count().Keys > 0", "count := p.unfinished.Count(); return objects > 0 || count.Keys > count.Terminal"}}, ""},
	{"a list that replaces a reset is no reset", []edit{
		{"operators/conflation.go", "event.Reset = c.dropLists(from) || event.Reset", "c.dropLists(from)"}}, "FuzzNoLevel"},
	{"nonsense is taken for an empty list", []edit{
		{"sources/list.go", "return k.isEmptyList(body)", "_ = body\n\treturn nil"}}, ""},
	{"a change does not end the calm", []edit{
		{"cache/calm.go", "c.sync.settled, c.sync.lastActive = false, time.Now()", "c.sync.lastActive = time.Now()"}}, ""},
	{"readers do not see own writes at once", []edit{
		{"controller/write.go", "passed = store.RecordWrite(kept, causedAt(ctx), of.asked)", "_ = of.asked"}}, ""},
	{"a kind counts as listed with the first of its namespaces", []edit{
		{"cache/scope.go", "case !scope.listed:", "case !scope.listed && i == 0:"}}, ""},
	{"an event in a stage of the user's own does not count", []edit{
		{"controller/pipeline/stage.go", "if stats.Busy() {", "if stats.Busy() && name == \"debounce\" {"}}, "InsideAStageOfTheUsersOwn"},
	{"a kind that is refused is not noted", []edit{
		{"controller/held.go", "store.SetRefused(works && watched.refused.Load())", "_ = works"}}, ""},
}

func TestEachLieIsCaught(t *testing.T) {
	turns := make(chan struct{}, 2)
	for _, lie := range lies[:min(max(*tellLies, 0), len(lies))] {
		t.Run(strings.ReplaceAll(lie.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			caught, output := lie.tell(t)
			if len(caught) == 0 {
				t.Fatalf("no test has caught the lie:\n%s", output)
			}
			t.Logf("caught by %s", strings.Join(caught, ", "))
		})
	}
}

// A change of the code must not leave a lie without its place. This test shows it at once, and not
// only in a run with all lies.
func TestEachLieHasItsPlaceInTheCode(t *testing.T) {
	for _, lie := range lies {
		for _, edit := range lie.edits {
			content, err := os.ReadFile(filepath.Join("..", edit.file))
			if err != nil {
				t.Fatal(err)
			}
			if places := strings.Count(string(content), edit.old); places != 1 {
				t.Errorf("%s: %q is in %s %d times, want once", lie.name, edit.old, edit.file, places)
			}
		}
	}
}

// truths is a lie without edits. The tests pass with it.
var truths = lie{name: "none"}

func TestTheTruthIsNotTakenForALie(t *testing.T) {
	truths.targets = "InsideAStageOfTheUsersOwn|WaitsInItsWindow|WasLostForAnHour|MakesAServerWithoutBookmarksCurrentAtOnce|AsAControllerJoins|AStandbyIsReady|FuzzNoLevel"
	if caught, output := truths.tell(t); len(caught) > 0 {
		t.Fatalf("%s fail without a lie:\n%s", caught, output)
	}
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// tell builds the tests with the lie, runs them, and returns the names of the tests that failed.
func (l lie) tell(t *testing.T) (caught []string, output string) {
	t.Helper()
	return l.tellAmong(t, lieSchedules, lieTime)
}

// tellAmong does what tell does, with a number of random schedules and a bound of their time, or 0.
func (l lie) tellAmong(t *testing.T, schedules int, within time.Duration) (caught []string, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+10*within)
	defer cancel()
	directory := t.TempDir()
	binary := filepath.Join(directory, "lying.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-ldflags=-s -w", "-overlay", l.overlay(t, directory), "-o", binary, ".")
	if built, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, built)
	}
	tests := "^TestNoLevelPromisesTooMuchWhateverHappens$"
	if l.targets != "" {
		tests += "|" + l.targets
	}
	run := exec.CommandContext(ctx, binary, "-test.run", tests, "-test.timeout="+(within+time.Minute).String(), "-rapid.nofailfile", "-rapid.shrinktime=0s", "-rapid.seed=1",
		fmt.Sprint("-oracle=", schedules), "-oracle-time="+within.String())
	told, err := run.CombinedOutput()
	for _, match := range failedTest.FindAllSubmatch(told, -1) {
		caught = append(caught, string(match[1]))
	}
	if err != nil && len(caught) == 0 {
		caught = []string{fmt.Sprintf("the end of the process: %v", err)}
	}
	return caught, string(told)
}

// lieSchedules and lieTime bound the random schedules that run against a lie.
const (
	lieSchedules = 20_000
	lieTime      = time.Minute
)

// overlay writes the edited files, and the file that lists them for the -overlay flag of the
// compiler. It returns the path of the list.
func (l lie) overlay(t *testing.T, directory string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	replaced, texts := map[string]string{}, map[string]string{}
	for _, edit := range l.edits {
		file := filepath.FromSlash(edit.file)
		if !filepath.IsAbs(file) {
			file = filepath.Join(root, file)
		}
		if _, edited := texts[file]; !edited { // Several edits may change one file.
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
			replaced[file] = filepath.Join(directory, fmt.Sprint(len(replaced), ".go"))
		}
		if found := strings.Count(texts[file], edit.old); found != 1 {
			t.Fatalf("%s has %q %d times, want once; adapt the edit of this lie to the code", edit.file, edit.old, found)
		}
		texts[file] = strings.Replace(texts[file], edit.old, edit.new, 1)
	}
	for file, lying := range replaced {
		if err := os.WriteFile(lying, []byte(texts[file]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(directory, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}
