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
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/affinity"
	"github.com/bellerophon-io/bellerophon/bench/cgroup"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/subprocess"
)

// StopGrace is the time that a contender may take to end after SIGTERM.
const StopGrace = 10 * time.Second

// readyEvery is the interval between requests for the metrics of a starting contender. There is
// no event for a port that starts to listen.
const readyEvery = 50 * time.Millisecond

// Settings configures one run of a contender.
type Settings struct {
	// Kubeconfig is the path of the file that names the cluster.
	Kubeconfig string
	// Output is the path of the file to which the contender's output is appended.
	Output string
	// Workers is the number of concurrent reconciles; 0 is the contender's default.
	Workers int
	// Kinds is the number of kinds of a program with many kinds; 0 for an operator.
	Kinds int
	// MemoryLimit is the contender's memory limit in bytes; 0 is no limit. The limit is passed to
	// the runtime. GOMEMLIMIT is soft and covers all memory that Go manages; -Xmx is hard and
	// covers only Java's heap. The actual use of memory is measured.
	MemoryLimit int64
	// Processors are the numbers of the processors that the contender may use; none means all of this
	// process. A runtime counts them when it starts.
	Processors []int
	// Limits are the hard limits that the kernel enforces; zero means none.
	Limits cgroup.Limits
	// MetricsPort is the loopback port of the contender's metrics; 0 is any free port.
	MetricsPort int
	// Namespace is the only namespace that the contender watches; empty means all, as the contract says. See Contender.OneNamespace.
	Namespace string
	// Recording is a folder into which Bellerophon records; empty means that it does not. Peers ignore it.
	Recording string
	// Lease is the namespace/name of the Lease by which several processes elect one that works; empty means
	// no election. LeaseDuration is how long the others wait for a leader that is silent, in whole seconds.
	Lease         string
	LeaseDuration time.Duration
	// Shards is the namespace/name of the group of processes that share the objects; empty means none.
	Shards string
}

// Process is a running contender. Its methods may be called from any goroutine.
type Process struct {
	name    string
	command *exec.Cmd
	metrics string
	output  string
	group   *lifecycle.Group
	ended   chan struct{}
	once    sync.Once     // for the first of Stop, Kill and the end of the context
	took    time.Duration // the result of that one
	failed  error
	asked   chan struct{} // closed when one of these asks the process to end
	grace   time.Duration

	limits  cgroup.Limits
	limited *cgroup.Group // nil without limits
	killed  bool          // the kernel killed it for memory; set before ended is closed
	left    error         // the error of removing its control group; set before ended is closed
}

// Start starts a contender. The contender is stopped when ctx ends, or by Stop. Every Start needs
// a Stop.
func (p *Program) Start(ctx context.Context, settings Settings) (*Process, error) {
	process, err := p.start(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("start contender %s: %w", p.Name, err)
	}
	return process, nil
}

func (p *Program) start(ctx context.Context, settings Settings) (*Process, error) {
	if settings.Kubeconfig == "" || settings.Output == "" {
		return nil, errors.New("the setting Kubeconfig or Output is empty; give both")
	}
	if settings.Workers < 0 || settings.MemoryLimit < 0 || settings.MetricsPort < 0 || settings.MetricsPort > 65535 {
		return nil, fmt.Errorf("the setting Workers is %d, MemoryLimit is %d and MetricsPort is %d; allowed are 0 and above, and ports up to 65535",
			settings.Workers, settings.MemoryLimit, settings.MetricsPort)
	}
	if settings.MetricsPort == 0 {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		settings.MetricsPort = port
	}
	var err error
	if settings.Kubeconfig, err = filepath.Abs(settings.Kubeconfig); err != nil { // A contender may run in a folder of its own.
		return nil, fmt.Errorf("find its kubeconfig: %w", err)
	}
	output, err := os.OpenFile(settings.Output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open its output: %w", err)
	}
	process := &Process{
		name: p.Name, output: settings.Output, command: p.recipe.command(p.path, settings),
		metrics: fmt.Sprintf("http://127.0.0.1:%d%s", settings.MetricsPort, cmp.Or(p.metrics, "/metrics")),
		group:   lifecycle.New(ctx), ended: make(chan struct{}), asked: make(chan struct{}), grace: StopGrace, limits: settings.Limits,
	}
	process.command.Env = append(environment(settings), process.command.Env...)
	process.command.Stdout, process.command.Stderr = output, output
	process.command.SysProcAttr = subprocess.Attributes()

	started := make(chan error, 1)
	process.group.Go("contender", func(context.Context) error {
		// The kernel kills the process when the thread that forked it ends (see subprocess.Attributes),
		// so this thread has to live as long as the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(process.ended)
		defer func() { _ = output.Close() }()
		err := process.begin(settings.Processors)
		started <- err
		if err == nil {
			_ = process.command.Wait() // ProcessState holds the result.
		}
		process.leave()
		return nil
	})
	if err := <-started; err != nil {
		_ = process.group.Wait() // The functions of the group return no errors.
		return nil, err
	}
	process.group.Go("end", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			process.once.Do(process.end)
		case <-process.ended:
		}
		return nil
	})
	return process, nil
}

// begin starts the command on some processors and with its limits, from a locked thread.
func (p *Process) begin(processors []int) error {
	start := p.command.Start
	if p.limits != (cgroup.Limits{}) {
		limited, err := cgroup.New(p.limits)
		if err != nil {
			return err
		}
		p.limited, start = limited, func() error { return limited.Start(p.command) }
	}
	if len(processors) == 0 {
		return start()
	}
	restore, err := affinity.Thread(processors)
	if err != nil {
		return err
	}
	return errors.Join(start(), restore())
}

// leave removes the control group of the ended process.
func (p *Process) leave() {
	if p.limited == nil {
		return
	}
	killed, err := p.limited.Killed()
	p.killed, p.left = killed, errors.Join(err, p.limited.Close())
}

// environment returns the environment of the contract, and the variables that programs need to
// run at all.
func environment(settings Settings) []string {
	env := []string{"KUBECONFIG=" + settings.Kubeconfig, "METRICS_PORT=" + strconv.Itoa(settings.MetricsPort)}
	if settings.Workers > 0 {
		env = append(env, "WORKERS="+strconv.Itoa(settings.Workers))
	}
	if settings.Lease != "" {
		env = append(env, "LEASE="+settings.Lease, "LEASE_SECONDS="+strconv.Itoa(int(settings.LeaseDuration/time.Second)))
	}
	if settings.Shards != "" {
		env = append(env, "SHARDS="+settings.Shards)
	}
	if settings.Kinds > 0 {
		env = append(env, "KINDS="+strconv.Itoa(settings.Kinds))
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "JAVA_HOME"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// FreePort searches below the ports that the system gives to outgoing connections. A contender
// may take seconds until it listens, and the port must not be taken in the meantime.
const (
	firstPort = 20000
	ports     = 12000
	attempts  = 100
)

// FreePort returns a port of the loopback interface that is free now.
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
	return 0, fmt.Errorf("find a free port: %w", failed)
}

// PID returns the process ID.
func (p *Process) PID() int { return p.command.Process.Pid }

// MetricsURL returns the URL of the process's metrics.
func (p *Process) MetricsURL() string { return p.metrics }

// Done returns a channel that is closed when the process has ended, by itself or because it was
// stopped.
func (p *Process) Done() <-chan struct{} { return p.ended }

// Ready waits until the process serves its metrics. It returns an error if the process or ctx
// ends before that.
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
			return p.exitError()
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
	request.Close = true // Leaves no open connection.
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	return nil
}

// Stop ends the process with SIGTERM, and by force after [StopGrace]. It returns the time that
// took, and an error if force was needed or if the process had ended by itself. It may be called
// more than once.
func (p *Process) Stop() (time.Duration, error) {
	p.once.Do(p.end)
	p.group.Stop()
	_ = p.group.Wait() // The functions of the group return no errors.
	return p.took, p.failed
}

// Kill kills the process and all processes that it started, as the failure of a node does. It returns
// when the process has ended, with an error if the process had ended before. Stop then returns the same.
func (p *Process) Kill() error {
	p.once.Do(func() {
		if p.failed = p.ask(); p.failed == nil {
			p.force()
			p.failed = p.left
		}
	})
	return p.failed
}

// ask records that the process shall end. It returns an error if the process has ended by itself.
func (p *Process) ask() error {
	select {
	case <-p.ended:
		return p.exitError()
	default:
	}
	close(p.asked)
	return nil
}

// force kills the process with all processes that it started.
func (p *Process) force() {
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // The process may just have ended.
	<-p.ended
}

// end ends the process and sets the result of Stop.
func (p *Process) end() {
	if p.failed = p.ask(); p.failed != nil {
		return
	}
	began := time.Now()
	defer func() { p.took = time.Since(began) }()
	_ = p.command.Process.Signal(syscall.SIGTERM) // The process may just have ended.
	grace := time.NewTimer(p.grace)
	defer grace.Stop()
	select {
	case <-p.ended:
		p.failed = p.left
		if p.killed {
			p.failed = p.exitError()
		}
	case <-grace.C:
		p.force()
		p.failed = fmt.Errorf("contender %s did not end within %v of SIGTERM and was killed", p.name, p.grace)
	}
}

// Err returns how the process ended, in one line. It may be called after Done is closed.
func (p *Process) Err() error {
	if p.killed {
		return fmt.Errorf("contender %s was killed by the kernel: it needed more memory than its hard limit of %v", p.name, cgroup.Limits{Memory: p.limits.Memory})
	}
	select {
	case <-p.asked:
		return fmt.Errorf("contender %s was stopped", p.name)
	default:
		return fmt.Errorf("contender %s ended by itself (%v)", p.name, p.command.ProcessState)
	}
}

// exitError returns an error that says how the process ended, with its last lines.
func (p *Process) exitError() error {
	return fmt.Errorf("%w; its last lines:\n%s", p.Err(), lastLines(p.output))
}

// lastLines returns the last lines of a file, or the reason why the file cannot be read.
func lastLines(path string) string {
	const n = 15
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
