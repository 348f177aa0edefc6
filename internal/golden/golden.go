// Package golden compares the output of a test with a file. go test -update writes the file instead.
package golden

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the expected files of testdata")

// IsUpdate reports whether the test has -update.
func IsUpdate() bool { return *update }

// Names compares a list of names with a file of docs/names, as Compare does. Each row is a name, with its details after a tab.
// The order of the rows does not matter.
func Names(t testing.TB, file string, rows []string) {
	t.Helper()
	rows = slices.Compact(slices.Sorted(slices.Values(rows)))
	Compare(t, file, strings.Join(rows, "\n")+"\n")
}

// Compare fails the test if a text differs from a file, and shows the first line that differs. With -update it writes the
// text to the file.
func Compare(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	at := 0
	for at < min(len(gotLines), len(wantLines)) && gotLines[at] == wantLines[at] {
		at++
	}
	line := func(lines []string) string {
		if at < len(lines) {
			return lines[at]
		}
		return "(end of the file)"
	}
	t.Errorf("%s differs from line %d on; if the new text is right, write it with go test -update\ngot:  %s\nwant: %s",
		file, at+1, line(gotLines), line(wantLines))
}
