package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/golden"
	"github.com/rogpeppe/go-internal/testscript"
)

// documented compares the last output with the block below a line of a page. Times, numbers and levels differ from run to run. Of trees
// that follow each other, the first and the last one are compared. With -lines the output may have more lines than the block: a slow
// machine makes more attempts.
func documented(ts *testscript.TestScript, _ bool, args []string) {
	compare := slices.Equal[[]string]
	if args[0] == "-lines" {
		compare, args = hasLines, args[1:]
	}
	page, line := ts.MkAbs(args[0]), strings.Join(args[1:], " ")
	said := strings.TrimSpace(ts.ReadFile("stdout"))
	text, err := os.ReadFile(page)
	ts.Check(err)
	before, after, found := strings.Cut(string(text), "\n    "+line+"\n\n```text\n")
	block, rest, ends := strings.Cut(after, "\n```\n")
	if !found || !ends {
		ts.Fatalf("%s has no line with %s and a block of text below", page, line)
	}
	if golden.IsUpdate() {
		ts.Check(os.WriteFile(page, []byte(before+"\n    "+line+"\n\n```text\n"+said+"\n```\n"+rest), 0o644))
		return
	}
	if got, want := shape(said), shape(block); !compare(got, want) {
		ts.Fatalf("%s shows of %s\n%s\nand not\n%s\nRun the test with -update, and read what has changed.", page, line, strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

// hasLines reports whether an output has each line that is wanted.
func hasLines(got, want []string) bool {
	return len(want) > 0 && !slices.ContainsFunc(want, func(line string) bool { return !slices.Contains(got, line) })
}

var volatile = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`level .*; (\d+ workers)`), "level L; $1"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "ID"},
	{regexp.MustCompile(`\b\d+(\.\d+)? (ms|s|min)\b`), "DURATION"},
	{regexp.MustCompile(`\b(for|age) \d+[smhd]`), "$1 AGE"},
	{regexp.MustCompile(`: [^:]*, answered after`), ": FIELDS, answered after"},
	{regexp.MustCompile(`\d+(\.\d+)?`), "N"},
	{regexp.MustCompile(`\b(Starting|Listed|Current|OwnWritesVisible|Settled|Converged)\b`), "L"},
	{regexp.MustCompile(`^(\S+  +working  +L(  +N){7}).*`), "$1"}, // What the next level waits for.
	{regexp.MustCompile(`  +`), "  "},
}

var timeLine = regexp.MustCompile(`^\d\d:\d\d:\d\d$`)

// shape returns the lines of an output without what differs from run to run.
func shape(said string) (lines []string) {
	all := strings.Split(said, "\n")
	first := slices.IndexFunc(all, timeLine.MatchString)
	if first >= 0 {
		last := len(all) - 1
		for !timeLine.MatchString(all[last]) {
			last--
		}
		all = append(all[:first+1], all[last+1:]...)
	}
	for _, line := range all {
		for _, each := range volatile {
			line = each.is.ReplaceAllString(line, each.as)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

func TestTheShapeOfAnOutputIsTheSameInEachRunAndDiffersForAnotherOutput(t *testing.T) {
	one := "12:00:00  level Current, Settled waits for a rider; 32 workers, loop 1 ms, quiet after 2.5 s\nriders  working  Current  3  0  1.0  2.0  0.0  0  0  a rider\nx  default/a-1  0123456789abcdef"
	other := "12:00:09  level Converged; 32 workers, loop 10 ms, quiet after 250 ms\nriders  working  Converged   30  0   10.0  2.0  0.0  0  0\nx  default/a-7   fedcba9876543210"
	if got, want := shape(one), shape(other); !slices.Equal(got, want) {
		t.Errorf("%q and %q differ", got, want)
	}
	if got, want := shape("a\n12:00:00\nb\n12:00:01\nc"), []string{"a", "N:N:N", "c"}; !slices.Equal(got, want) {
		t.Errorf("of trees it keeps %q, want %q", got, want)
	}
	for _, changed := range []string{strings.Replace(other, "working", "joining", 1), other + "\nmore", strings.Replace(other, "loop", "turn", 1)} {
		if slices.Equal(shape(one), shape(changed)) {
			t.Errorf("%q looks like another output", changed)
		}
	}
}
