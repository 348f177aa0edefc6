package report

import (
	"flag"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the expected files of testdata and the committed reports")

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// golden compares a text with a file, or writes the file with -update.
func golden(t *testing.T, file, got string) {
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
	t.Errorf("%s differs from line %d on; if the new text is right, write it with: go test ./bench/report -update\ngot:  %s\nwant: %s",
		file, at+1, line(gotLines), line(wantLines))
}
