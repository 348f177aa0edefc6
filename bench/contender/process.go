package contender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// StopGrace is how long a contender may take to end after SIGTERM.
const StopGrace = 10 * time.Second

// readyEvery is how often the metrics of a contender that starts are asked for: there is
// no event that tells of a port that is being listened on.
const readyEvery = 50 * time.Millisecond

// Settings are those of one run of a contender.
type Settings struct {
	// Kubeconfig is the path of the file that names the cluster.
	Kubeconfig string
	// Output is the path of the file that what it prints is appended to.
	Output string
	// Workers is the number of reconciles at once; 0 is the contender's default.
	Workers int
	// MemoryLimit is how much heap the contender should make do with, in bytes; 0 is no
	// limit. Its runtime is told: GOMEMLIMIT, which is soft and of all that Go manages; -Xmx,
	// which is hard and of Java's heap alone. What it takes in fact is measured.
	MemoryLimit int64
	// MetricsPort is the loopback port of its metrics; 0 is any free one.
	MetricsPort int
}

// Process is a contender that runs. Its methods may be called from any goroutine.
type Process struct {
	name    string
	command *exec.Cmd
	metrics string
	output  string
	group   *lifecycle.Group
	ended   chan struct{}
	stop    func() (time.Duration, error)
	asked   chan struct{} // closed once it is told to end
	grace   time.Duration
}

// Start starts a contender. It is ended when ctx ends, or by Stop. Every Start needs a
// Stop.
func (p *Program) Start(ctx context.Context, settings Settings) (*Process, error) {
	process, err := p.start(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("starting contender %s: %w", p.Name, err)
	}
	return process, nil
}

func (p *Program) start(ctx context.Context, settings Settings) (*Process, error) {
	if settings.Kubeconfig == "" || settings.Output == "" {
		return nil, errors.New("the settings Kubeconfig and Output are needed")
	}
	if settings.Workers < 0 || settings.MemoryLimit < 0 || settings.MetricsPort < 0 || settings.MetricsPort > 65535 {
		return nil, fmt.Errorf("the setting Workers is %d, MemoryLimit %d and MetricsPort %d; they must not be negative, and a port at most 65535",
			settings.Workers, settings.MemoryLimit, settings.MetricsPort)
	}
	if settings.MetricsPort == 0 {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		settings.MetricsPort = port
	}
	output, err := os.OpenFile(settings.Output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening its output: %w", err)
	}
	argv, env := p.recipe.command(p.path, settings)
	process := &Process{
		name: p.Name, output: settings.Output, command: exec.Command(argv[0], argv[1:]...),
		metrics: fmt.Sprintf("http://127.0.0.1:%d%s", settings.MetricsPort, cmp.Or(p.metrics, "/metrics")),
		group:   lifecycle.New(ctx), ended: make(chan struct{}), asked: make(chan struct{}), grace: StopGrace,
	}
	process.command.Env = append(environment(settings), env...)
	process.command.Stdout, process.command.Stderr = output, output
	process.command.SysProcAttr = ChildAttributes()
	process.stop = sync.OnceValues(process.end)

	started := make(chan error, 1)
	process.group.Go("contender", func(context.Context) error {
		// The kernel kills the process when the thread that forked it ends (see
		// ChildAttributes), so this thread has to live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(process.ended)
		defer func() { _ = output.Close() }()
		err := process.command.Start()
		started <- err
		if err == nil {
			_ = process.command.Wait() // Its state says how it ended.
		}
		return nil
	})
	if err := <-started; err != nil {
		_ = process.group.Wait() // It returns no errors.
		return nil, err
	}
	process.group.Go("end", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			_, _ = process.stop()
		case <-process.ended:
		}
		return nil
	})
	return process, nil
}

// environment is what the contract says, and what programs need to run at all.
func environment(settings Settings) []string {
	env := []string{"KUBECONFIG=" + settings.Kubeconfig, "METRICS_PORT=" + strconv.Itoa(settings.MetricsPort)}
	if settings.Workers > 0 {
		env = append(env, "WORKERS="+strconv.Itoa(settings.Workers))
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "JAVA_HOME"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Ports are looked for below those that the system gives to outgoing connections: a
// contender may take seconds until it listens, and the port must not be taken meanwhile.
const (
	firstPort = 20000
	ports     = 12000
	attempts  = 100
)

// FreePort finds a port of the loopback interface that is free now.
func FreePort() (int, error) {
	var failed error
	for range attempts {
		port := firstPort + rand.IntN(ports)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
		failed = err
	}
	return 0, fmt.Errorf("looking for a free port: %w", failed)
}

// PID is the number of the process.
func (p *Process) PID() int { return p.command.Process.Pid }

// MetricsURL is where it serves its metrics.
func (p *Process) MetricsURL() string { return p.metrics }

// Done is closed when the process has ended, by itself or because it was told to.
func (p *Process) Done() <-chan struct{} { return p.ended }

// Ready returns once the process serves its metrics, or with an error if it ends or ctx
// does before.
func (p *Process) Ready(ctx context.Context) error {
	ticker := time.NewTicker(readyEvery)
	defer ticker.Stop()
	for {
		err := p.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return p.obituary()
		case <-ctx.Done():
			return fmt.Errorf("contender %s does not serve its metrics at %s (%w); its last lines:\n%s", p.name, p.metrics, err, lastLines(p.output))
		case <-ticker.C:
		}
	}
}

func (p *Process) answers(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.metrics, nil)
	if err != nil {
		return err
	}
	request.Close = true // No connection is left.
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", response.Status)
	}
	return nil
}

// Stop ends the process: by SIGTERM, and by force after [StopGrace]. It returns how long
// that took, and an error if force was needed or if the process had ended by itself. It
// may be called more than once.
func (p *Process) Stop() (time.Duration, error) {
	took, err := p.stop()
	p.group.Stop()
	_ = p.group.Wait() // Its functions return no errors.
	return took, err
}

func (p *Process) end() (time.Duration, error) {
	select {
	case <-p.ended:
		return 0, p.obituary()
	default:
	}
	close(p.asked)
	began := time.Now()
	_ = p.command.Process.Signal(syscall.SIGTERM) // It may end just now.
	grace := time.NewTimer(p.grace)
	defer grace.Stop()
	select {
	case <-p.ended:
		return time.Since(began), nil
	case <-grace.C:
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // With all that it has started.
		<-p.ended
		return time.Since(began), fmt.Errorf("contender %s did not end within %v of SIGTERM and was killed", p.name, p.grace)
	}
}

// obituary says how a process ended that nobody stopped.
func (p *Process) obituary() error {
	select {
	case <-p.asked:
		return fmt.Errorf("contender %s was stopped", p.name)
	default:
		return fmt.Errorf("contender %s ended by itself (%v); its last lines:\n%s", p.name, p.command.ProcessState, lastLines(p.output))
	}
}

// lastLines are the last ones of a file, or why it cannot be read.
func lastLines(path string) string {
	const n = 15
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
