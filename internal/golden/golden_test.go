package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a test that records its failure.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, arguments ...any) {
	r.said += fmt.Sprintf(format, arguments...)
}

func TestADifferenceIsShownAtItsLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page")
	if err := os.WriteFile(file, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		"one\ntwo\n":        "",
		"one\n2\n":          "differs from line 2 on; if the new text is right, write it with go test -update\ngot:  2\nwant: two",
		"one\n":             "line 2 on; if the new text is right, write it with go test -update\ngot:  \nwant: two",
		"one":               "line 2 on; if the new text is right, write it with go test -update\ngot:  (end of the file)\nwant: two",
		"one\ntwo\nthree\n": "line 3 on; if the new text is right, write it with go test -update\ngot:  three\nwant: ",
	} {
		test := &recorder{TB: t}
		Compare(test, file, got)
		if !strings.Contains(test.said, want) || (test.said == "") != (want == "") {
			t.Errorf("%q: it says %q, want %q", got, test.said, want)
		}
	}
}

func TestAnUpdateWritesTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page")
	*update = true
	Compare(t, file, "one\n")
	*update = false
	Compare(t, file, "one\n")
}

func TestTheOrderOfNamesDoesNotMatter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "names.txt")
	if err := os.WriteFile(file, []byte("a\tone\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	Names(t, file, []string{"b", "a\tone", "b"})
	test := &recorder{TB: t}
	Names(test, file, []string{"b", "a\ttwo"})
	if !strings.Contains(test.said, "line 1") {
		t.Errorf("of a detail that changed it says %q", test.said)
	}
}
