package top_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/top"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
)

// A state has names of objects and reasons of errors. None may steer the terminal.
func FuzzNoStateSteersTheTerminal(f *testing.F) {
	f.Add([]byte(`{"controllers":[{"name":"\u001b[31m","missing":["\r"]}]}`), []byte(`{"time":"2026-01-01T00:00:00Z","controllers":[{"name":"a"}]}`), 80)
	f.Fuzz(func(t *testing.T, first, second []byte, width int) {
		table := top.NewTable(screen.To(io.Discard))
		for _, text := range [][]byte{first, second} {
			var state introspection.State
			if json.Unmarshal(text, &state) != nil || table.Add(state) != nil {
				return
			}
		}
		for _, line := range table.Lines(min(max(width, 0), 1000)) {
			if strings.ContainsFunc(line, unicode.IsControl) {
				t.Errorf("of %s and %s it prints %q", first, second, line)
			}
		}
	})
}
