package localcluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/bellerophon-io/bellerophon/internal/subprocess"
)

// goBuild builds a package of a nested module and reports every compiled package.
func (b *builder) goBuild(ctx context.Context, module, pkg, output string, more ...string) error {
	name := filepath.Base(output)
	flags := slices.Concat(buildFlags, more)

	// The build compiles the packages that are missing in the Go build cache.
	var stale bytes.Buffer
	list := slices.Concat([]string{"list"}, flags, []string{"-deps", "-f={{if .Stale}}{{.ImportPath}}{{end}}", pkg})
	if err := b.runGo(ctx, module, &stale, b.downloads(name), list...); err != nil {
		return err
	}
	progress := Progress{Phase: "compiling " + name, Total: len(strings.Fields(stale.String()))}
	b.options.Progress(progress)
	compiled := func(line string) {
		if strings.ContainsAny(line, " \t") {
			return // A message, not a package.
		}
		progress.Detail = line
		progress.Done = min(progress.Done+1, progress.Total)
		b.options.Progress(progress)
	}
	return b.runGo(ctx, module, io.Discard, compiled, slices.Concat([]string{"build", "-v", "-o=" + output}, flags, []string{pkg})...)
}

// downloads returns a function that reports the modules from the "downloading" lines of a go
// command.
func (b *builder) downloads(name string) func(line string) {
	progress := Progress{Phase: "downloading the Go modules of " + name}
	b.options.Progress(progress)
	return func(line string) {
		if module, found := strings.CutPrefix(line, "go: downloading "); found {
			progress.Done++
			progress.Detail = module
			b.options.Progress(progress)
		}
	}
}

// runGo runs a go command in a nested module and calls line for each line of its standard error.
// When ctx ends, runGo kills the command and the compilers that the command started.
func (b *builder) runGo(ctx context.Context, module string, stdout io.Writer, line func(string), arguments ...string) error {
	runtime.LockOSThread() // See subprocess.Attributes: a build also ends with this process.
	defer runtime.UnlockOSThread()

	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = filepath.Join(b.source.root, module)
	command.Env = append(os.Environ(), "PWD="+command.Dir, "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH,
		// The files of a killed build are removed with this directory.
		"GOTMPDIR="+b.temporary)
	command.Env = append(command.Env, buildEnvironment...)
	messages := &lines{each: line}
	command.Stdout = stdout
	command.Stderr = messages
	command.SysProcAttr = subprocess.Attributes()
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	err := command.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("go %s was stopped: %w", arguments[0], context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("go %s in %s: %w:\n%s", arguments[0], command.Dir, err, strings.Join(messages.last, "\n"))
	}
	return nil
}

// lines is an io.Writer that calls each for every line and keeps the last lines.
type lines struct {
	each    func(string)
	partial []byte
	last    []string
}

const linesRemembered = 20

func (l *lines) Write(data []byte) (int, error) {
	l.partial = append(l.partial, data...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			return len(data), nil
		}
		l.partial = rest
		l.last = append(l.last, string(line))
		l.last = l.last[max(0, len(l.last)-linesRemembered):]
		l.each(string(line))
	}
}
