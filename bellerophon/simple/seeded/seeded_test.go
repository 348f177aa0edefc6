// Package seeded holds bugs of operators that can be seeded into the operator of BellerophonSimple. They show that the harnesses
// for faults catch what the operator's own tests do not.
package seeded

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// patterns are the patterns of Sieve and Acto, as the bugs name them.
var patterns = []string{
	"sieve: intermediate state", "sieve: stale state", "sieve: unobserved state",
	"acto: transition", "acto: bad value", "acto: recovery", "acto: quietness",
}

// bug is a bug that is seeded into the code. It is read from testdata/bugs/<name>.txtar.
type bug struct {
	name, title, pattern, oracle, why string

	walks string // a pattern of the walks that show a bug of Acto
	cases string // a pattern of the cases that show a bug of Sieve
	edits []edit
}

// edit replaces the lines old, which must occur exactly once in the file, with new.
type edit struct{ file, old, new string }

// test returns the test of package faults/patterns that shows a bug of Sieve.
func (b bug) test() string {
	if strings.HasPrefix(b.oracle, "kills: ") {
		return "TestAnOperatorIsKilledAtEachEffectiveWrite"
	}
	return "TestAnOperatorHasAStaleViewFromEachEventOn"
}

// isOf reports whether the pattern of a bug is one of Acto's or Sieve's.
func (b bug) isOf(whose string) bool { return strings.HasPrefix(b.pattern, whose+": ") }

// bugs reads all bugs, in the order of their names.
func bugs(t *testing.T) (all []bug) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "bugs", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		read, err := parse(strings.TrimSuffix(filepath.Base(file), ".txtar"), content)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, read)
	}
	return all
}

// parse reads a bug: a header, and pairs of files "old <path>" and "new <path>".
func parse(name string, content []byte) (bug, error) {
	archive := txtar.Parse(content)
	read := bug{name: name}
	fields := map[string]*string{"title": &read.title, "pattern": &read.pattern, "oracle": &read.oracle, "why": &read.why, "walks": &read.walks, "cases": &read.cases}
	for line := range strings.Lines(string(archive.Comment)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if field := fields[key]; field != nil {
			*field = value
		} else if key != "" {
			return read, fmt.Errorf("bug %s: there is no field %q in the header", name, key)
		}
	}
	for key, field := range fields {
		if *field == "" && (key != "walks" || read.isOf("acto")) && (key != "cases" || read.isOf("sieve")) {
			return read, fmt.Errorf("bug %s: the header has no %s", name, key)
		}
	}
	if _, err := regexp.Compile(read.cases); err != nil {
		return read, fmt.Errorf("bug %s: cases: %w", name, err)
	}
	if !slices.Contains(patterns, read.pattern) {
		return read, fmt.Errorf("bug %s: the pattern is %q, want one of %q", name, read.pattern, patterns)
	}
	for i := 0; i+1 < len(archive.Files); i += 2 {
		before, after := archive.Files[i], archive.Files[i+1]
		path, isOld := strings.CutPrefix(before.Name, "old ")
		if !isOld || after.Name != "new "+path {
			return read, fmt.Errorf("bug %s: %q is followed by %q, want pairs of old and new of one file", name, before.Name, after.Name)
		}
		read.edits = append(read.edits, edit{path, string(before.Data), string(after.Data)})
	}
	if len(read.edits) == 0 || len(archive.Files)%2 != 0 {
		return read, fmt.Errorf("bug %s: %d parts, want pairs of old and new", name, len(archive.Files))
	}
	return read, nil
}

// root returns the folder of the repository.
func root(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// apply returns the edited files by their paths.
func (b bug) apply(root string) (map[string]string, error) {
	edited := map[string]string{}
	for _, edit := range b.edits {
		path := filepath.Join(root, filepath.FromSlash(edit.file))
		text, known := edited[path]
		if !known {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("bug %s: %w", b.name, err)
			}
			text = string(content)
		}
		if found := strings.Count(text, edit.old); found != 1 {
			return nil, fmt.Errorf("bug %s: %s has these lines %d times, want once; adapt the edit to the code:\n%s", b.name, edit.file, found, edit.old)
		}
		edited[path] = strings.Replace(text, edit.old, edit.new, 1)
	}
	return edited, nil
}

// overlay writes the edited files, and the file that lists them for the -overlay flag of the go command.
// It returns the path of the list.
func (b bug) overlay(t *testing.T) string {
	t.Helper()
	edited, err := b.apply(root(t))
	if err != nil {
		t.Fatal(err)
	}
	folder, replaced := t.TempDir(), map[string]string{}
	for path, text := range edited {
		replaced[path] = filepath.Join(folder, fmt.Sprintf("%d-%s", len(replaced), filepath.Base(path)))
		if err := os.WriteFile(replaced[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// A change of the code must not leave a bug without its place. This test shows it at once, and not only
// in a run with all bugs.
func TestEachBugHasItsPlaceInTheCode(t *testing.T) {
	for _, b := range bugs(t) {
		if _, err := b.apply(root(t)); err != nil {
			t.Error(err)
		}
	}
}

func TestTheBugsHaveEachPattern(t *testing.T) {
	counts := map[string]int{}
	all := bugs(t)
	for _, b := range all {
		counts[b.pattern]++
	}
	for _, pattern := range patterns {
		if counts[pattern] == 0 {
			t.Errorf("no bug has the pattern %q", pattern)
		}
	}
	if len(all) < 20 {
		t.Errorf("there are %d bugs, want at least 20", len(all))
	}
}

func TestABugThatIsNotWellFormedIsRefused(t *testing.T) {
	const header = "title: t\npattern: acto: recovery\noracle: o\nwhy: w\nwalks: w\n"
	for want, content := range map[string]string{
		"the header has no why":   "title: t\npattern: acto: recovery\noracle: o\nwalks: w\n-- old a --\nx\n-- new a --\ny\n",
		"no field \"author\"":     header + "author: me\n",
		"the pattern is":          strings.Replace(header, "recovery", "luck", 1),
		"the header has no cases": strings.Replace(header, "acto: recovery", "sieve: stale state", 1),
		"cases: error parsing":    header + "cases: (\n",
		"pairs of old and new":    header + "-- old a --\nx\n-- new b --\ny\n",
		"0 parts":                 header,
		"1 parts":                 header + "-- old a --\nx\n",
	} {
		if _, err := parse("b", []byte(content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}

func TestOnlyAFailureOfANamedCaseCatchesABugOfSieve(t *testing.T) {
	named := bug{pattern: "sieve: stale state", cases: "statefulsets.apps/arion #.*restart"}
	const failure = ": FAILED: "
	for printed, want := range map[string]bool{
		"x_test.go:1: op: stale state: statefulsets.apps/arion #3, restart on the view before it: FAILED: the end state differs":   true,
		"x_test.go:1: op: stale state: statefulsets.apps/arion #3, restart on the view before it: survived":                        false,
		"x_test.go:1: op: stale state: statefulsets.apps/pegasus #3, restart on the view before it: FAILED: the end state differs": false,
		"x_test.go:1: without a fault: statefulsets.apps/arion.spec is \"1\", want \"2\"":                                          false,
		"x_test.go:1: statefulsets.apps/arion #3, restart\nx_test.go:2: another case: FAILED: ":                                    false,
	} {
		if got := named.hasCase(printed, failure); got != want {
			t.Errorf("%q shows the bug: %v, want %v", printed, got, want)
		}
	}
	if acto := (bug{pattern: "acto: recovery", walks: "w"}); !acto.hasCase("", failure) {
		t.Error("a bug of Acto needs a case")
	}
}
