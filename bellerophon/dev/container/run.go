package container

import (
	"context"
	"crypto/rand"
	_ "embed" // for the scripts
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

//go:embed scripts/run.sh
var runScript string

//go:embed scripts/stop.sh
var stopScript string

//go:embed scripts/mark.sh
var markScript string

const (
	// stopTimeout bounds stop.sh, which waits 4 seconds for the command and 2 more after it has killed it.
	stopTimeout = 8 * time.Second

	// lastOutput is how long Run waits for the output of a command that was killed.
	lastOutput = time.Second

	// pingPeriod is how often an idle connection is checked.
	pingPeriod = 5 * time.Second
)

var (
	slotName     = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]*$`)
	variableName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// Mark returns the mark of a slot, as Containers says.
func (e *Execs) Mark(ctx context.Context, at Place, slot string) (string, error) {
	if !slotName.MatchString(slot) {
		return "", fmt.Errorf("read the mark of a command in %s: %q is no name of a slot", at, slot)
	}
	output, err := e.script(ctx, at, markScript, noInput(), e.state(), slot)
	return strings.TrimSuffix(output, "\n"), err
}

// Run runs a command as Containers says. It removes the mark of the slot first, because the results of an interrupted
// command may be anything. It runs the command with an empty stdin, and writes stdout and stderr to output. After an
// ErrConnection the command may still run, until the next command of the slot. When the context ends, Run returns within
// 10 seconds, also if the API server does not answer.
func (e *Execs) Run(ctx context.Context, at Place, command Command, output io.Writer) (int, error) {
	token := rand.Text()
	program, err := program(command, e.root, token)
	if err != nil {
		return 0, fmt.Errorf("run a command in %s: %w", at, err)
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	var exit int
	var failed error
	stderr := &tail{limit: maxStderr}
	group := lifecycle.New(context.WithoutCancel(ctx))
	group.Go("command", func(ctx context.Context) error {
		exit, failed = e.exec(ctx, at, bootstrapArgv(e.state(), command.Slot, at.id(), command.Mark, token),
			scriptInput(processScript+runScript, strings.NewReader(program)), output, stderr)
		return nil
	})
	ended := group.Ended()
	var stopped error
	select {
	case <-ended:
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), ErrReplaced) {
			stopped = e.stop(ctx, at, command.Slot, token, ended)
		}
		group.Stop()
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	switch {
	case stopped != nil:
		return 0, fmt.Errorf("%w; the command may still run: %w", ctx.Err(), stopped)
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case failed != nil:
		return 0, explain(ctx, at, failed)
	case strings.HasSuffix(stderr.String(), "\n"+token+"\n"):
		return exit, nil
	case exit == 0:
		return 0, fmt.Errorf("run a command in %s: %w; the command may still run", at, ErrConnection)
	case exit == exitRun, exit == exitIncomplete:
		return 0, failure(at, exit, stderr.String())
	}
	return exit, nil // The script was killed with its command, or there is no shell.
}

// stop ends a command, and waits for the last output.
func (e *Execs) stop(ctx context.Context, at Place, slot, token string, ended <-chan struct{}) error {
	ctx = context.WithoutCancel(ctx)
	stopping, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	_, err := e.script(stopping, at, processScript+stopScript, noInput(), e.state(), slot, at.id(), token)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, lastOutput)
	defer cancel()
	select {
	case <-ended:
	case <-waiting.Done():
	}
	return nil
}

// program returns the shell program of a command. It ends with the token, because a program that was cut off must not
// run.
func program(command Command, root, token string) (string, error) {
	switch {
	case !slotName.MatchString(command.Slot):
		return "", fmt.Errorf("%q is no name of a slot", command.Slot)
	case !path.IsAbs(command.Directory):
		return "", fmt.Errorf("the directory %q is no absolute path", command.Directory)
	case strings.Contains(command.Line+command.Directory+command.Mark, "\x00"):
		return "", errors.New("the command has a NUL byte")
	}
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(command.Env)) {
		if !variableName.MatchString(name) {
			return "", fmt.Errorf("%q is no name of an environment variable; correct it in the devfile", name)
		}
		if strings.Contains(command.Env[name], "\x00") {
			return "", fmt.Errorf("the environment variable %s has a NUL byte", name)
		}
		fmt.Fprintf(&lines, "export %s=%s\n", name, quote(command.Env[name]))
	}
	fmt.Fprintf(&lines, "cd %s || exit\nexec sh -c %s\n: %s", quote(root+command.Directory), quote(command.Line), token)
	return lines.String(), nil
}

// quote quotes a string for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
