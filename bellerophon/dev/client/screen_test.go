package client_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
)

// shown is a Screen on a pipe.
type shown struct {
	t      *testing.T
	out    strings.Builder
	screen *client.Screen
}

func newShown(t *testing.T) *shown {
	made := &shown{t: t}
	made.screen = client.NewScreen(screen.To(&made.out))
	return made
}

// want shows a view, and fails unless it adds these lines.
func (s *shown) want(view client.View, lines ...string) {
	s.t.Helper()
	s.out.Reset()
	s.screen.Show(view)
	got := strings.Split(strings.TrimSuffix(s.out.String(), "\n"), "\n")
	if s.out.Len() == 0 {
		got = nil
	}
	if !slices.Equal(got, lines) {
		s.t.Errorf("the view %+v shows %q, want %q", view, got, lines)
	}
}

const root = "0123456789abcdef"

func TestEachLineIsShownOnceUntilItChanges(t *testing.T) {
	s := newShown(t)
	s.want(client.View{Files: contract.Files{Root: root}})

	view := client.View{Status: contract.Status{State: contract.WaitDeployment}}
	s.want(view, "WaitDeployment: waiting for the pod")
	s.want(view)
	view.Status.Message = "the image is being pulled"
	s.want(view, "WaitDeployment: the image is being pulled")

	view.Status = contract.Status{State: contract.FilesSynced, Sync: contract.Sync{Root: root, Files: 4, Sent: 3, Removed: 1}}
	s.want(view, "synced 0123456789ab: 3 sent, 1 removed, 4 files in the pod", "FilesSynced: the files are synced")
	s.want(view)

	view.Status.State = contract.RunCommandRunning
	view.Status.Ports = []contract.Port{{Name: "http", Target: 8080, Local: "127.0.0.1:20001"}, {Name: "debug", Target: 5858, Local: "127.0.0.1:20002"}}
	s.want(view, "forwarding http http://127.0.0.1:20001, debug http://127.0.0.1:20002", "RunCommandRunning: running")
	s.want(view)
	view.Status.Sync.Problems = []string{"data.bin: not synced: it is too large"}
	view.Status.Ports[1].Local = "127.0.0.1:20003"
	s.want(view, "data.bin: not synced: it is too large", "forwarding http http://127.0.0.1:20001, debug http://127.0.0.1:20003")
	view.Status.Pod = "hero-2"
	s.want(view)
}

func TestAProblemThatComesBackIsShownAgain(t *testing.T) {
	s := newShown(t)
	broken := client.View{Problem: errors.New("devfile.yaml:3: a mistake\ndevfile.yaml:9: another one")}
	lines := []string{"devfile.yaml:3: a mistake", "devfile.yaml:9: another one"}
	s.want(broken, lines...)
	s.want(broken)
	s.want(client.View{})
	s.want(broken, lines...)

	one := client.View{Status: contract.Status{Sync: contract.Sync{Problems: []string{"a.bin: too large"}}}}
	s.want(one, "a.bin: too large")
	s.want(one)
	s.want(client.View{})
	s.want(one, "a.bin: too large")
}

func TestAFailedCommandIsShownWithItsOutput(t *testing.T) {
	s := newShown(t)
	failed := func(starts int, output string) client.View {
		return client.View{Status: contract.Status{Build: &contract.Command{Name: "make", Outcome: contract.Failed, Exit: 2, Starts: starts, Output: output}}}
	}
	s.want(failed(1, "main.go:3: oops\nmake: failed\n"), "make failed with the exit code 2", "  main.go:3: oops", "  make: failed")
	s.want(failed(1, "main.go:3: oops\nmake: failed\n"))
	s.want(failed(2, "main.go:4: oops\n"), "make failed with the exit code 2", "  main.go:4: oops")
	// The client need not have seen that the command ran meanwhile.
	s.want(failed(3, "main.go:4: oops\n"), "make failed with the exit code 2", "  main.go:4: oops")
	s.want(failed(4, ""), "make failed with the exit code 2")

	s.want(client.View{Status: contract.Status{Build: &contract.Command{Name: "make", Outcome: contract.Succeeded, Starts: 5}}})
	s.want(client.View{Status: contract.Status{
		Build: &contract.Command{Name: "make", Outcome: contract.Succeeded, Starts: 5},
		Run:   &contract.Command{Name: "serve", Outcome: contract.Failed, Exit: 1, Starts: 1, Output: "no port"},
	}}, "serve failed with the exit code 1", "  no port")
}

func TestNoTextOfTheClusterCanChangeTheTerminal(t *testing.T) {
	const attack = "\x1b[2J\x1b]0;title\x07\r\x9b31m\x00\x7f"
	s := newShown(t)
	s.screen.Show(client.View{
		Problem: errors.New("problem" + attack),
		Status: contract.Status{
			State: contract.State("State" + attack), Message: "message" + attack,
			Sync:  contract.Sync{Root: "root" + attack, Sent: 1, Problems: []string{"file" + attack}},
			Build: &contract.Command{Name: "build" + attack, Outcome: contract.Failed, Output: "output" + attack + "\nmore" + attack},
			Run:   &contract.Command{Name: "run" + attack, Outcome: contract.Failed},
			Ports: []contract.Port{{Name: "port" + attack, Local: "local" + attack}},
		},
	})
	for _, word := range []string{"problem", "message", "file", "build", "output", "more", "run", "port", "local"} {
		if !strings.Contains(s.out.String(), word) {
			t.Errorf("the screen shows %q, want %s", s.out.String(), word)
		}
	}
	for _, r := range s.out.String() {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0) {
			t.Errorf("the screen shows the control character %q in %q", r, s.out.String())
		}
	}
}

// Colours would be control characters, too.
func TestThereAreNoColoursWithoutATerminal(t *testing.T) {
	s := newShown(t)
	for _, state := range contract.States() {
		s.screen.Show(client.View{
			Problem: errors.New("a problem"), Files: contract.Files{Root: root},
			Status: contract.Status{
				State: state, Sync: contract.Sync{Root: "old", Sent: 1, Problems: []string{"a.bin: too large"}},
				Build: &contract.Command{Name: "make", Outcome: contract.Failed}, Ports: []contract.Port{{Name: "http", Local: "127.0.0.1:20001"}},
			},
		})
		if !strings.Contains(s.out.String(), "\n"+string(state)+": ") {
			t.Errorf("the state %s is not shown without a terminal: %q", state, s.out.String())
		}
	}
	if strings.Contains(s.out.String(), "\x1b") {
		t.Errorf("the screen shows escape sequences: %q", s.out.String())
	}
}
