package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
)

// script is an operator that answers what a test says, until the test ends its answers.
type script struct {
	t      *testing.T
	server *httptest.Server
	answer chan any // the next answer; nil ends the answer that follows
}

func newScript(t *testing.T) *script {
	t.Helper()
	made := &script{t: t, answer: make(chan any)}
	made.server = httptest.NewServer(made)
	t.Cleanup(func() {
		made.server.CloseClientConnections()
		made.server.Close()
	})
	return made
}

func (s *script) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	for {
		select {
		case answer := <-s.answer:
			if answer == nil {
				return
			}
			encoded, err := json.Marshal(answer)
			if err != nil {
				s.t.Error(err)
			}
			if text, is := answer.(string); is {
				encoded = []byte(text)
			}
			_, _ = w.Write(append(encoded, '\n'))
			_ = http.NewResponseController(w).Flush()
		case <-request.Context().Done():
			return
		}
	}
}

// says sends an answer to the program.
func (s *script) says(answer any) {
	s.t.Helper()
	select {
	case s.answer <- answer:
	case <-time.After(20 * time.Second):
		s.t.Fatal("the program asks no question")
	}
}

var began = time.Now().Add(-time.Hour)

func stateAfter(seconds int, attempts int64) introspection.State {
	made := introspection.State{Time: began.Add(time.Duration(seconds) * time.Second), Started: began, Level: cache.Converged, Workers: 8}
	made.Controllers = []introspection.Controller{{Name: "riders", State: "working", Level: cache.Converged, Attempts: attempts, Writes: attempts / 2}}
	for i := range 5 {
		made.Stages = append(made.Stages, introspection.Stage{Name: fmt.Sprintf("stage-%d", i)})
	}
	return made
}

func TestTopOnATerminalIsRedrawnInPlace(t *testing.T) {
	operator := newScript(t)
	screen := newTerminal(t, 120, 40, []string{"NO_COLOR=1"}, "top", "--server", operator.server.URL)
	operator.says(stateAfter(0, 100))
	screen.sees("riders      working  Converged  0       0          -             -         -")
	operator.says(stateAfter(2, 300))
	screen.sees("100.0         50.0      0.0")
	if shown := screen.text(); strings.Count(shown, "CONTROLLER") != 1 || strings.Count(shown, "stage-4") != 1 {
		t.Errorf("it is not redrawn in place:\n%s", shown)
	}
	if colours := regexp.MustCompile(`\x1b\[[1-9][0-9]*m`); colours.MatchString(screen.sent.String()) {
		t.Errorf("it has colours: %q", screen.sent.String())
	}

	screen.resize(40, 40) // The terminal wraps what it shows.
	screen.sees("too narrow for")
	screen.sees("riders      100.0         0.0")
	screen.awaits("one table", func(shown string) bool { return strings.Count(shown, "CONTROLLER") == 1 })
	screen.resize(120, 8)
	screen.sees("more lines; make the window taller")
	operator.says(stateAfter(3, 300))
	screen.sees(began.Add(3 * time.Second).Local().Format("15:04:05"))
	screen.resize(120, 40)
	screen.sees("stage-4")

	if code := screen.interrupt(); code != 0 {
		t.Errorf("Ctrl-C ends it with %d:\n%s", code, screen.text())
	}
	shown := screen.text()
	if !screen.shows || !screen.wraps || strings.Contains(shown, "^C") || strings.Contains(shown, "error") {
		t.Errorf("it leaves the terminal with the cursor %v, wraps %v, and\n%s", screen.shows, screen.wraps, shown)
	}
	if lines := strings.Split(shown, "\n"); lines[len(lines)-1] != "" || !strings.HasPrefix(lines[len(lines)-2], "stage-4") {
		t.Errorf("the last table is not left:\n%s", shown)
	}
}

func TestTopOnATerminalSaysThatTheOperatorEndedAndWhenAnotherOneAnswers(t *testing.T) {
	operator := newScript(t)
	screen := newTerminal(t, 120, 40, nil, "top", "--server", operator.server.URL)
	operator.says(stateAfter(0, 100))
	screen.sees("riders")
	if !strings.Contains(screen.sent.String(), "\x1b[1mConverged\x1b[0m") {
		t.Errorf("it has no colours: %q", screen.sent.String())
	}
	operator.says(nil)
	screen.sees("s, asking again: the operator has ended")
	screen.awaits("how long", func(shown string) bool {
		return strings.Contains(shown, "no answer for ") && !strings.Contains(shown, "for 0 s")
	})
	screen.sees("riders") // The last table stays.
	replaced := stateAfter(9, 5)
	replaced.Started = began.Add(8 * time.Second)
	operator.says(replaced)
	screen.sees("another process of the operator answers, which began at " + replaced.Started.Local().Format("15:04:05"))
	screen.awaits("an answer", func(shown string) bool { return !strings.Contains(shown, "asking again") })
	operator.says("<html>")
	screen.sees("asking again: the operator's answer is nonsense")
	if code := screen.interrupt(); code != 0 || !screen.shows {
		t.Errorf("Ctrl-C ends it with %d:\n%s", code, screen.text())
	}
}

func TestTopOnATerminalNamesAnOperatorThatHangs(t *testing.T) {
	operator := newScript(t)
	screen := newTerminal(t, 120, 40, nil, "top", "--server", operator.server.URL, "--timeout", "500ms")
	operator.says(stateAfter(0, 100))
	screen.sees("asking again: the operator has not answered for 500ms; it hangs")
	screen.interrupt()

	silent := newTerminal(t, 120, 40, nil, "top", "--server", operator.server.URL, "--timeout", "500ms")
	if code := silent.ends(); code != 1 || !strings.Contains(silent.text(), "the operator has not answered for 500ms") {
		t.Errorf("it ends with %d:\n%s", code, silent.text())
	}
}

// The enemy is a terminal of 40 columns, whose rows a table of the full width would wrap.
func TestATableThatIsPrintedOnceFitsTheTerminal(t *testing.T) {
	operator := newScript(t)
	screen := newTerminal(t, 40, 30, nil, "top", "--follow=false", "--server", operator.server.URL)
	for i := range 2 {
		operator.says(stateAfter(2*i, int64(100+i*200)))
		operator.says(nil)
	}
	if code := screen.ends(); code != 0 || !strings.Contains(screen.text(), "riders      100.0         0.0") {
		t.Errorf("it ends with %d:\n%s", code, screen.text())
	}
}

func TestATreeOnATerminalIsRedrawnWheneverItChanges(t *testing.T) {
	operator := newScript(t)
	screen := newTerminal(t, 100, 20, []string{"NO_COLOR=1"}, "tree", "riders/pegasus", "--follow", "--server", operator.server.URL)
	root := introspection.Node{Kind: "Rider", Namespace: "default", Name: "pegasus", Ready: introspection.NotReady, Reason: "Late", Message: "it waits for 天馬 " + strings.Repeat("and so on ", 20)}
	now := time.Now()
	root.Created = &now
	operator.says(root)
	screen.sees("✗ Rider default/pegasus  Late: it waits for 天馬 and")
	root.Message = "no wings"
	operator.says(root)
	screen.sees("no wings  age 1s") // The age grows without an answer.
	root.Ready = introspection.Ready
	for i := range 30 {
		root.Children = append(root.Children, introspection.Node{Kind: "Wing", Name: fmt.Sprintf("wing-%02d", i), Ready: introspection.Ready})
	}
	operator.says(root)
	screen.sees("├─ ✓ Wing wing-00")
	screen.sees("and 13 more lines; make the window taller")
	screen.resize(40, 10)
	screen.sees("and 23 more lines")
	if shown := screen.window(); strings.Count(shown, "Rider default/pegasus") != 1 { // The lines that have left the window stay above it.
		t.Errorf("it is not redrawn in place:\n%s", shown)
	}
	operator.says(introspection.Node{Kind: "Rider", Namespace: "default", Name: "pegasus", Ready: introspection.NotReady, Gone: true})
	screen.sees("✗ Rider default/pegasus is gone")
	if code := screen.interrupt(); code != 0 || !screen.shows || strings.Contains(screen.text(), "^C") || !strings.HasSuffix(screen.text(), "is gone\n") {
		t.Errorf("Ctrl-C ends it with %d:\n%s", code, screen.text())
	}
}

func TestWithoutAnOperatorATerminalShowsWhatToDo(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close() // So that no server has the port.
	for _, args := range [][]string{{"top"}, {"tree", "riders/pegasus", "--follow"}} {
		screen := newTerminal(t, 60, 20, nil, append(args, "--server", "http://"+listener.Addr().String())...)
		if code := screen.ends(); code != 1 || !strings.Contains(strings.ReplaceAll(screen.text(), "\n", ""), "name its metrics server with --server") {
			t.Errorf("%s ends with %d:\n%s", args, code, screen.text())
		}
	}
}
