package seeded

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/goals"
	"go.uber.org/goleak"
)

var (
	builds   = flag.Int("builds", 2, "number of bugs that are compiled; -1 for all")
	which    = flag.String("bugs", "^stale-patch", "pattern of the names of bugs that must be caught; each takes a minute or more")
	ownTests = flag.Bool("own-tests", false, "run the operator's own tests with each bug too; they must pass")
	acto     = flag.String("acto", "go test -overlay {overlay} -count=1 -timeout 15m ./bellerophon/simple/states -args -walks=120 -first -only={walks}",
		"command that catches the bugs of Acto's patterns; {overlay} stands for the edited files, {walks} for the walks that the bug names")
	sieve = flag.String("sieve", "env GOFLAGS=-overlay={overlay} go test -count=1 -v -timeout 20m ./faults/patterns -run={test} -args -sample=0 -quiet=1ms -programs={programs} -cases={cases}",
		"command that catches the bugs of Sieve's patterns; {test} and {cases} stand for what the bug names, {programs} for a folder of the bug")
	results = flag.String("results", "", "file that lists results, so that a run goes on where the last one ended")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs a command in the folder of the repository, and returns what it prints.
func (b bug) run(ctx context.Context, t *testing.T, command []string, overlay string) (string, error) {
	t.Helper()
	arguments := make([]string, len(command))
	for i, argument := range command {
		arguments[i] = strings.NewReplacer("{overlay}", overlay, "{walks}", b.walks, "{cases}", b.cases, "{test}", b.test(),
			"{programs}", filepath.Dir(overlay)).Replace(argument)
	}
	process := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	process.Dir = root(t)
	process.WaitDelay = 10 * time.Second
	printed, err := process.CombinedOutput()
	return string(printed), err
}

func TestTheBugsCompile(t *testing.T) {
	all := bugs(t)
	if *builds >= 0 {
		all = all[:min(*builds, len(all))]
	}
	for _, b := range all {
		printed, err := b.run(t.Context(), t, []string{"go", "build", "-overlay", "{overlay}", "./bellerophon/simple"}, b.overlay(t))
		if err != nil {
			t.Errorf("%s: %v\n%s", b.name, err, printed)
		}
	}
}

// failed matches the tests that fail, and what the oracles print.
var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// TestEachSeededBugIsCaught runs the catcher of each bug's pattern. Without flags it runs one, as all take
// an hour.
func TestEachSeededBugIsCaught(t *testing.T) {
	chosen, err := regexp.Compile(*which)
	if err != nil {
		t.Fatalf("-bugs: %v", err)
	}
	known := readResults(t)
	count := map[string]int{}
	for _, b := range bugs(t) {
		command := strings.Fields(*sieve)
		if b.isOf("acto") {
			command = strings.Fields(*acto)
		}
		if !chosen.MatchString(b.name) || (len(command) == 0 && !*ownTests) {
			continue
		}
		count["run"]++
		t.Run(b.name, func(t *testing.T) {
			result, done := known[b.name]
			if !done {
				result = b.check(t, command)
				writeResult(t, b.name, result)
			}
			count[result]++
			if result != "caught" && (len(command) > 0 || result != "not run") {
				t.Errorf("%s: %s; %s", b.title, result, b.oracle)
			}
		})
	}
	caught, run := count["caught"], count["run"]
	fmt.Print(goals.Line(fmt.Sprintf("seeded bugs caught, of %d", len(bugs(t))), fmt.Sprintf("%d of %d", caught, run), "all", caught == run && caught > 0))
}

// check returns caught, not caught, or the operator's own tests that catch the bug.
func (b bug) check(t *testing.T, command []string) string {
	t.Helper()
	overlay := b.overlay(t)
	if printed, err := b.run(t.Context(), t, []string{"go", "build", "-overlay", "{overlay}", "./bellerophon/simple"}, overlay); err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	if *ownTests {
		printed, err := b.run(t.Context(), t, []string{"go", "test", "-overlay", "{overlay}", "-count=1", "-timeout=20m", "./bellerophon/simple"}, overlay)
		if err != nil {
			t.Log(printed)
			return "caught by the operator's own tests: " + strings.Join(failures(printed), ", ")
		}
	}
	if len(command) == 0 {
		return "not run"
	}
	printed, err := b.run(t.Context(), t, command, overlay)
	for line := range strings.Lines(printed) {
		if strings.Contains(line, "_test.go:") && !strings.Contains(line, "): ok") {
			t.Log(strings.TrimSpace(line))
		}
	}
	switch {
	case !b.hasCase(printed, ": (FAILED: |survived)"):
		t.Fatalf("no fault of the cases %q happened: %v\n%s", b.cases, err, printed)
	case err == nil:
		return "not caught"
	case len(failures(printed)) == 0 || !b.hasCase(printed, ": FAILED: "):
		t.Fatalf("the catcher itself failed: %v\n%s", err, printed)
	}
	return "caught"
}

// hasCase reports whether a catcher prints an outcome of a case that the bug names. A catcher may fail for another
// reason, such as a busy machine. The bugs of Acto name no cases.
func (b bug) hasCase(printed, outcome string) bool {
	return b.cases == "" || regexp.MustCompile(`(?m)(`+b.cases+`).*`+outcome).MatchString(printed)
}

func failures(printed string) (names []string) {
	for _, match := range failed.FindAllStringSubmatch(printed, -1) {
		names = append(names, match[1])
	}
	return names
}

// readResults returns the results of earlier runs, by the names of the bugs.
func readResults(t *testing.T) map[string]string {
	t.Helper()
	known := map[string]string{}
	if *results == "" {
		return known
	}
	content, err := os.ReadFile(*results)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if name, result, whole := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); whole {
			known[name] = result
		}
	}
	return known
}

func writeResult(t *testing.T, name, result string) {
	t.Helper()
	if *results == "" {
		return
	}
	file, err := os.OpenFile(*results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := fmt.Fprintf(file, "%s\t%s\n", name, result); err != nil {
		t.Fatal(err)
	}
}
