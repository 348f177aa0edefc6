package report

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

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// errNoSeries is the error of a machine without Prometheus, or of a run without its data. Errors
// that wrap it name a way out.
var errNoSeries = errors.New("no time series")

const (
	startLimit = 3 * time.Minute        // Prometheus replays its log before it is ready; a busy machine is slow
	stopLimit  = 10 * time.Second       // between SIGTERM and SIGKILL
	readyEvery = 100 * time.Millisecond // between two requests for its readiness
)

// running is a running Prometheus.
type running struct {
	url     string
	querier querier
}

// withPrometheus starts a Prometheus on a copy of some data, on loopback, and calls a function with it
// unless ctx ends first. When withPrometheus returns, the process and the copy are gone.
func withPrometheus(ctx context.Context, from data, use func(context.Context, running) error) (err error) {
	program, err := find("prometheus")
	if err != nil {
		return err
	}
	own, err := os.MkdirTemp("", "bellerophon-inspect-")
	if err != nil {
		return fmt.Errorf("make a folder for a Prometheus: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	if err := from.copyTo(ctx, filepath.Join(own, "data")); err != nil {
		return err
	}
	config := filepath.Join(own, "prometheus.yml")
	if err := os.WriteFile(config, []byte("# There are no targets: the run is over.\n"), 0o600); err != nil {
		return fmt.Errorf("configure Prometheus: %w", err)
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client, err := api.NewClient(api.Config{Address: "http://" + address, RoundTripper: transport})
	if err != nil {
		return fmt.Errorf("create a client of Prometheus: %w", err)
	}

	group := lifecycle.New(ctx)
	output := filepath.Join(own, "output")
	group.Go("Prometheus", func(ctx context.Context) error {
		return runPrometheus(ctx, output, program,
			"--config.file="+config, "--storage.tsdb.path="+filepath.Join(own, "data"), "--web.listen-address="+address,
			"--storage.tsdb.retention.time=10y", "--query.lookback-delta="+from.lookback.String(), "--log.level=warn")
	})
	group.Go("use Prometheus", func(ctx context.Context) error {
		defer group.Stop()
		started := running{"http://" + address, querier{v1.NewAPI(client), from.query}}
		if err := waitReady(ctx, transport, started.url); err != nil {
			return err
		}
		return use(ctx, started)
	})
	return group.Wait()
}

// find finds a program of Prometheus on the PATH.
func find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%w: find %s on the PATH: no such program; install it (on Debian: apt-get install prometheus)", errNoSeries, program)
	}
	return path, nil
}

// runPrometheus runs the process until ctx ends or the process exits.
func runPrometheus(ctx context.Context, output, program string, arguments ...string) error {
	log, err := os.Create(output)
	if err != nil {
		return fmt.Errorf("create the log of Prometheus: %w", err)
	}
	defer log.Close()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = contender.ChildAttributes()
	runtime.LockOSThread() // See ChildAttributes: the process ends with this thread.
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
func waitReady(ctx context.Context, transport http.RoundTripper, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("wait for Prometheus: not ready after %v; free the machine and try again", startLimit))
	defer cancel()
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

// freeAddress finds a free port of loopback. Prometheus cannot report a port that it chose itself.
func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port for Prometheus: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
