// Package promserver runs the program prometheus of the machine on loopback, as long as a function needs it.
package promserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/subprocess"
)

const (
	startLimit = 3 * time.Minute        // Prometheus replays its log before it is ready; a busy machine is slow
	stopLimit  = 10 * time.Second       // between SIGTERM and SIGKILL
	readyEvery = 100 * time.Millisecond // between two requests for its readiness
)

// Options configures [Run].
type Options struct {
	Files     map[string][]byte // by their names; prometheus.yml is the configuration, which finds the others beside it
	Data      string            // the folder of the time series; empty means one that is removed at the end
	Parent    string            // where the folder of the files is made; empty means the folder of the system for temporary files
	Arguments []string          // further ones of the program
}

// Running is a Prometheus that runs.
type Running struct {
	URL    string
	Folder string // of the files
}

// Find returns the path of a program of Prometheus: prometheus or promtool.
func Find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("find %s on the PATH: no such program; install it (on Debian: apt-get install prometheus)", program)
	}
	return path, nil
}

// Run starts Prometheus, waits until it is ready, and calls a function with it. When Run returns, the process and
// its files are gone. It returns an error if the process exits by itself.
func Run(ctx context.Context, options Options, use func(ctx context.Context, started Running) error) (err error) {
	program, err := Find("prometheus")
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp(options.Parent, "bellerophon-prometheus-")
	if err != nil {
		return fmt.Errorf("make a folder for Prometheus: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	for name, content := range options.Files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return fmt.Errorf("configure Prometheus: %w", err)
		}
	}
	data := options.Data
	if data == "" {
		data = filepath.Join(folder, "data")
	}
	address, err := FreeAddress(ctx)
	if err != nil {
		return err
	}
	arguments := append([]string{
		"--config.file=" + filepath.Join(folder, "prometheus.yml"), "--storage.tsdb.path=" + data, "--web.listen-address=" + address, "--log.level=warn",
	}, options.Arguments...)

	group := lifecycle.New(ctx)
	group.Go("Prometheus", func(ctx context.Context) error {
		return runProcess(ctx, filepath.Join(folder, "output"), program, arguments...)
	})
	group.Go("use Prometheus", func(ctx context.Context) error {
		defer group.Stop()
		started := Running{URL: "http://" + address, Folder: folder}
		if err := waitReady(ctx, started.URL); err != nil {
			return err
		}
		return use(ctx, started)
	})
	return group.Wait()
}

// runProcess runs the process until ctx ends or the process exits.
func runProcess(ctx context.Context, output, program string, arguments ...string) error {
	log, err := os.Create(output)
	if err != nil {
		return fmt.Errorf("create the log of Prometheus: %w", err)
	}
	defer log.Close()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = subprocess.Attributes()
	runtime.LockOSThread() // See subprocess.Attributes: the process ends with this thread.
	defer runtime.UnlockOSThread()
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = stopLimit
	err = command.Run()
	if ctx.Err() != nil {
		return nil //nolint:nilerr // The process was stopped.
	}
	text, _ := os.ReadFile(output)
	return fmt.Errorf("run %s: it exited early (%w); its output:\n%s", program, err, strings.TrimSpace(string(text)))
}

// waitReady polls Prometheus until it is ready.
func waitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("wait for Prometheus: not ready after %v; free the machine and try again", startLimit))
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	every := time.NewTicker(readyEvery)
	defer every.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/-/ready", nil)
		if err != nil {
			return fmt.Errorf("request the readiness of Prometheus: %w", err)
		}
		if answer, err := transport.RoundTrip(request); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// FreeAddress finds a free port of loopback, for a process that cannot report a port that it chose itself.
func FreeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
