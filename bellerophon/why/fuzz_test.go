package why_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/why"
	"github.com/bellerophon-io/bellerophon/controller/history"
)

// An answer has messages that other programs wrote, and comes from a server that may lie. None may steer the terminal.
func FuzzNoAnswerSteersTheTerminal(f *testing.F) {
	whole, err := json.Marshal(answer())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, "riders/pegasus")
	f.Add([]byte(`{"controllers":[{"name":"\u001b[2J","kind":"\u009b1m","missing":["\r"],"attempts":[{"outcome":"error","error":"\u001b]0;x\u0007","id":"\u0008"}]}]}`), "a")
	f.Fuzz(func(t *testing.T, text []byte, object string) {
		var asked history.Answer
		if json.Unmarshal(text, &asked) != nil || strings.ContainsFunc(object, unicode.IsControl) {
			return
		}
		var out bytes.Buffer
		why.NewPrinter(screen.To(&out)).Print(asked, object, "", false)
		if at := strings.IndexFunc(out.String(), func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); at >= 0 {
			t.Errorf("of %s it prints %q", text, out.String())
		}
	})
}
