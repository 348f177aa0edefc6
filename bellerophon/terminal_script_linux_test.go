package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/rogpeppe/go-internal/testscript"
)

// withTerminal adds the commands that need a pseudo-terminal.
func withTerminal(commands map[string]func(*testscript.TestScript, bool, []string)) map[string]func(*testscript.TestScript, bool, []string) {
	maps.Copy(commands, map[string]func(*testscript.TestScript, bool, []string){
		"operates": operates, "watches": watches, "sees": sees, "resizes": resizes, "interrupts": interrupts,
	})
	return commands
}

// watchedKey is the key of the watched of a script.
type watchedKey struct{}

// watched is what the commands of one script share.
type watched struct {
	screen   *terminal
	operator *exec.Cmd
	address  string
}

func watchedBy(ts *testscript.TestScript) *watched { return ts.Value(watchedKey{}).(*watched) }

// operates starts the operator, or replaces it, and waits until its cache has converged.
func operates(ts *testscript.TestScript, _ bool, _ []string) {
	w := watchedBy(ts)
	if w.operator == nil {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		w.address = listener.Addr().String()
		ts.Check(listener.Close())
		ts.Setenv("METRICS", "http://"+w.address)
		ts.Defer(func() { w.kill() })
	}
	w.kill()
	program, err := exec.LookPath("bellerophon")
	ts.Check(err)
	w.operator = exec.Command(program, "operator", "--kubeconfig", ts.Getenv("KUBECONFIG"), "--metrics-address", w.address, "--health-address", "")
	ts.Check(w.operator.Start())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	calm := errors.New("it has converged")
	for {
		err := ask.Ask(ctx, ask.Server{URL: ts.Getenv("METRICS")}, ask.Question{Path: "/debug/manager"}, func(state introspection.State) error {
			if state.Level == cache.Converged {
				return calm
			}
			return nil
		})
		if errors.Is(err, calm) {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			ts.Fatalf("the operator does not converge: %v", err)
		}
	}
}

// kill kills the operator, if there is one.
func (w *watched) kill() {
	if w.operator != nil && w.operator.ProcessState == nil {
		_ = w.operator.Process.Kill()
		_ = w.operator.Wait() // Its error is the kill.
	}
}

func sizeOf(ts *testscript.TestScript, text string) (width, height int) {
	if text != "pipe" {
		_, err := fmt.Sscanf(text, "%dx%d", &width, &height)
		ts.Check(err)
	}
	return width, height
}

func watches(ts *testscript.TestScript, _ bool, args []string) {
	width, height := sizeOf(ts, args[0])
	w := watchedBy(ts)
	w.screen = openTerminal(ts, width, height, []string{"HOME=" + ts.Getenv("WORK"), "NO_COLOR=" + ts.Getenv("NO_COLOR")}, args[1:]...)
	ts.Defer(w.screen.close)
}

func sees(ts *testscript.TestScript, _ bool, args []string) {
	wanted, err := regexp.Compile("(?m)" + strings.Join(args, " "))
	ts.Check(err)
	watchedBy(ts).screen.awaits(wanted.String(), wanted.MatchString)
}

func resizes(ts *testscript.TestScript, _ bool, args []string) {
	watchedBy(ts).screen.resize(sizeOf(ts, args[0]))
}

func interrupts(ts *testscript.TestScript, _ bool, _ []string) {
	screen := watchedBy(ts).screen
	code := screen.interrupt()
	if _, err := fmt.Fprint(ts.Stdout(), screen.text()); err != nil {
		ts.Fatalf("%v", err)
	}
	if code != 0 || !screen.shows || !screen.wraps {
		ts.Fatalf("it ends with %d, shows the cursor: %v, and wraps lines: %v", code, screen.shows, screen.wraps)
	}
}
