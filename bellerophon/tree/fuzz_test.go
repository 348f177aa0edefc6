package tree_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/tree"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
)

// A tree has names and messages that other programs wrote. None may steer the terminal.
func FuzzNoTreeSteersTheTerminal(f *testing.F) {
	f.Add([]byte(`{"kind":"Hero.acme.io","namespace":"a","name":"hero","ready":"no","reason":"Late","message":"it\u001b[31m","children":[{"name":"\r"}]}`), 0)
	f.Add([]byte(`{"children":[{},{},{"leftOut":true,"deleting":true}]}`), 12)
	f.Fuzz(func(t *testing.T, text []byte, width int) {
		var root introspection.Node
		if json.Unmarshal(text, &root) != nil {
			return
		}
		printer := tree.NewPrinter(screen.To(io.Discard), tree.DefaultLimit)
		lines := printer.Lines(root, noon, min(max(width, 0), 1000))
		lines = append(lines, printer.RootLines(introspection.Roots{Objects: []introspection.Node{root}}, noon)...)
		for _, line := range lines {
			if strings.ContainsFunc(line, unicode.IsControl) {
				t.Errorf("of %s it prints %q", text, line)
			}
		}
	})
}
