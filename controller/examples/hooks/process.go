package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// passed are the variables of the program's own environment that hooks get: what programs need to run, and what
// kubectl needs to reach the API server. An entry that ends with * stands for a prefix.
var passed = []string{
	"PATH", "HOME", "USER", "SHELL", "LANG", "LC_*", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// Bounds of what a hook prints.
const (
	longestLine = 16 << 10
	mostPrinted = 1 << 20 // of a configuration
)

// runner runs hooks as processes.
type runner struct {
	logger  *slog.Logger
	timeout time.Duration // of one run
	grace   time.Duration // from SIGTERM to SIGKILL
	env     []string      // the names of further variables that hooks get
	metrics *hookMetrics
	apply   func(ctx context.Context, hook *Hook, patches []byte) error // applies what a hook wrote to KUBERNETES_PATCH_PATH
}

// run runs a hook for binding contexts, and applies the patches that it wrote if it succeeds.
func (r *runner) run(ctx context.Context, hook *Hook, contexts []map[string]any) error {
	_, err := r.ask(ctx, hook, contexts, admissionResponse)
	return err
}

// These are the files with the answers of webhooks.
const (
	admissionResponse  = "ADMISSION_RESPONSE_PATH"
	conversionResponse = "CONVERSION_RESPONSE_PATH"
)

// ask runs a hook as run does, and returns what it wrote to a file.
func (r *runner) ask(ctx context.Context, hook *Hook, contexts []map[string]any, answer string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("it took more than %v", r.timeout))
	defer cancel()
	folder, err := os.MkdirTemp("", "hook-") // Readable for this user alone: contexts may hold Secrets.
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := os.RemoveAll(folder); err != nil {
			r.logger.Error("the files of a run remain", "hook", hook.Name, "error", err)
		}
	}()
	content, err := json.Marshal(contexts)
	if err != nil {
		return nil, fmt.Errorf("encoding the binding context: %w", err)
	}
	files := map[string][]byte{
		"BINDING_CONTEXT_PATH": content, "KUBERNETES_PATCH_PATH": nil, "METRICS_PATH": nil, admissionResponse: nil, conversionResponse: nil,
	}
	inFolder := func(variable string) string { return filepath.Join(folder, strings.ToLower(variable)) }
	env := []string{"VALIDATING_RESPONSE_PATH=" + inFolder(admissionResponse)} // Its older name.
	for variable, content := range files {
		name := inFolder(variable)
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return nil, err
		}
		env = append(env, variable+"="+name)
	}
	started := time.Now()
	output := &lines{emit: r.log(hook, "stdout")}
	err = r.execute(ctx, hook, nil, env, output)
	output.flush()
	if err != nil {
		return nil, err
	}
	r.logger.Debug("a hook succeeded", "hook", hook.Name, "contexts", len(contexts), "took", time.Since(started))
	metrics, err := os.ReadFile(inFolder("METRICS_PATH"))
	if err == nil {
		err = r.metrics.apply(hook, metrics)
	}
	if err != nil {
		return nil, err
	}
	patches, err := os.ReadFile(inFolder("KUBERNETES_PATCH_PATH"))
	if err != nil {
		return nil, fmt.Errorf("reading KUBERNETES_PATCH_PATH: %w", err)
	}
	answered, err := os.ReadFile(inFolder(answer))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", answer, err)
	}
	return answered, r.apply(ctx, hook, patches)
}

// execute runs a hook in its own folder and in a process group of its own. When ctx ends, the group gets SIGTERM,
// and SIGKILL after the grace period. Whatever the hook leaves running is killed.
func (r *runner) execute(ctx context.Context, hook *Hook, arguments, env []string, stdout io.Writer) error {
	command := exec.CommandContext(ctx, hook.Path, arguments...)
	command.Dir = filepath.Dir(hook.Path)
	command.Env = append(r.environment(), env...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	errorLines := &lines{emit: r.log(hook, "stderr")}
	defer errorLines.flush()
	command.Stdout, command.Stderr = &bounded{to: stdout, config: arguments != nil}, errorLines
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = r.grace
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting it: %w", err)
	}
	err := command.Wait()
	// The group has the id of the hook's process, and exists as long as one process of it does.
	if killed := syscall.Kill(-command.Process.Pid, syscall.SIGKILL); killed == nil {
		r.logger.Warn("a hook left processes running; they were killed", "hook", hook.Name)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("it was stopped: %w", context.Cause(ctx))
	case errors.Is(err, exec.ErrWaitDelay): // It succeeded, and a process that it left held its output open.
		return nil
	}
	return err
}

// environment returns the part of the program's own environment that hooks get.
func (r *runner) environment() (env []string) {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		for _, allowed := range append(passed[:len(passed):len(passed)], r.env...) {
			prefix, many := strings.CutSuffix(allowed, "*")
			if name == allowed || many && strings.HasPrefix(name, prefix) {
				env = append(env, variable)
				break
			}
		}
	}
	return env
}

// log returns a function that logs a line of a hook's output.
func (r *runner) log(hook *Hook, output string) func(line string) {
	return func(line string) { r.logger.Info(line, "hook", hook.Name, "output", output) }
}

// lines splits what is written into lines. A line that is too long is split.
type lines struct {
	emit func(line string)
	mu   sync.Mutex
	rest []byte
}

// Write emits the lines that are complete.
func (l *lines) Write(written []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, written...)
	for {
		end, skip := bytes.IndexByte(l.rest, '\n'), 1
		if end < 0 && len(l.rest) < longestLine {
			return len(written), nil
		}
		if end < 0 || end > longestLine {
			end, skip = longestLine, 0
		}
		l.emit(strings.TrimSuffix(string(l.rest[:end]), "\r"))
		l.rest = l.rest[end+skip:]
	}
}

// flush emits a last line that has no end.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.emit(string(l.rest))
		l.rest = nil
	}
}

// bounded passes on what is written. It refuses a configuration that is too long.
type bounded struct {
	to     io.Writer
	config bool
	size   int
}

// Write passes on what is written.
func (b *bounded) Write(written []byte) (int, error) {
	if b.size += len(written); b.config && b.size > mostPrinted {
		return 0, fmt.Errorf("the configuration has more than %d bytes", mostPrinted)
	}
	return b.to.Write(written)
}
