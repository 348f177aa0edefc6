package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Cluster is a running control plane. Its methods may be called from any goroutine.
type Cluster struct {
	directory *directory
	kubectl   string
	etcd      string
	children  *family
	starter   starter
	restoring sync.Mutex // held while the data are removed, copied or replaced
	admin     *rest.Config
	apiReady  time.Duration
	stopped   sync.Once
}

// Start builds the binaries of the control plane if necessary and runs a cluster. It returns when
// the API server is ready. The rest of the control plane is running at that point, and the node
// becomes Ready soon after. If the machine cannot run a real node, the error wraps [ErrNoRealNode]. ctx bounds only the start: a started cluster runs until Stop. If
// Start fails, it leaves no process and no directory.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	c, err := start(ctx, options, freePorts)
	if err != nil {
		return nil, fmt.Errorf("localcluster: %w", err)
	}
	return c, nil
}

// start implements Start with a given choice of ports, for tests with ports that are in use.
func start(ctx context.Context, options Options, choosePorts func(api int) (ports, error)) (*Cluster, error) {
	var machine host
	if options.Nodes == RealNode {
		var err error
		if machine, err = findHost(options.CacheDir); err != nil { // Before a build of minutes.
			return nil, err
		}
	}
	programs, err := findPrograms(ctx, options)
	if err != nil {
		return nil, err
	}
	directory, err := newDirectory(ctx, filepath.Join(options.CacheDir, "clusters"), options.Logger)
	if err != nil {
		return nil, err
	}
	s := starter{options: options, programs: programs, host: machine, directory: directory, choosePorts: choosePorts}
	children, server, err := s.start(ctx)
	if err != nil {
		return nil, errors.Join(err, directory.remove())
	}
	c := &Cluster{
		directory: directory,
		kubectl:   programs.path("kubectl"),
		etcd:      programs.path("etcd"),
		children:  children,
		starter:   s,
		admin:     s.adminConfig(server),
		apiReady:  s.apiReady,
	}
	options.Logger.Info("local cluster is running", "server", server, "directory", directory.path, "apiReady", c.apiReady)
	return c, nil
}

// Kubeconfig returns the path of the administrator's kubeconfig file. The file exists until Stop.
func (c *Cluster) Kubeconfig() string { return c.directory.file("kubeconfig") }

// AdminConfig returns a new client configuration with all permissions.
// It has no client-side rate limit.
func (c *Cluster) AdminConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubectl returns the path of a kubectl of the control plane's version.
func (c *Cluster) Kubectl() string { return c.kubectl }

// EtcdVersion returns the version that the etcd binary prints, such as "3.6.8".
func (c *Cluster) EtcdVersion(ctx context.Context) (string, error) {
	said, err := exec.CommandContext(ctx, c.etcd, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("get the version of %s: %w", c.etcd, err)
	}
	line, _, _ := strings.Cut(string(said), "\n")
	version, found := strings.CutPrefix(line, "etcd Version: ")
	if !found {
		return "", fmt.Errorf("get the version of %s: it printed %q", c.etcd, line)
	}
	return version, nil
}

// Logs returns the directory of the components' logs. Each log is a file <component>.log. The
// directory exists until Stop.
func (c *Cluster) Logs() string { return c.directory.path }

// APIReadyAfter returns the time from the start of the first process until the API server was
// ready. It does not include a build.
func (c *Cluster) APIReadyAfter() time.Duration { return c.apiReady }

// PID returns the process ID of a component, such as "etcd" or "kube-apiserver". It returns 0 if
// the cluster has no such component.
func (c *Cluster) PID(component string) int {
	if child := c.children.find(component); child != nil {
		return child.command.Process.Pid
	}
	return 0
}

// Done returns a channel that is closed when a component exits by itself, or when the cluster is
// stopped. A cluster that has lost a component still needs Stop.
func (c *Cluster) Done() <-chan struct{} { return c.children.ctx.Done() }

// Err returns an error that names the first component that exited by itself, with the last lines
// of its log. It returns nil before Done is closed, and if only Stop ended the cluster.
func (c *Cluster) Err() error {
	cause := context.Cause(c.children.ctx)
	if errors.Is(cause, context.Canceled) {
		return nil
	}
	return cause
}

// Stop ends every component and removes the cluster's directory. It returns when all processes
// and files are gone. It may be called more than once.
func (c *Cluster) Stop() error { return c.StopAndKeep("") }

// StopAndKeep stops the cluster as Stop does, but leaves its data in a new directory, for
// [Options.Data] of other clusters. It does nothing if the cluster was already stopped.
func (c *Cluster) StopAndKeep(directory string) (err error) {
	c.stopped.Do(func() { err = c.stop(directory) })
	return err
}

// stop ends the components, keeps the data if a directory is given, and removes everything else.
func (c *Cluster) stop(kept string) error {
	c.restoring.Lock()
	defer c.restoring.Unlock()
	c.children.stop()
	var err error
	if kept != "" {
		if err = os.CopyFS(kept, os.DirFS(c.directory.file("etcd"))); err != nil {
			err = fmt.Errorf("keep the data of the cluster: %w", err)
		}
	}
	return errors.Join(err, c.directory.remove())
}
