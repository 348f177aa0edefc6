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
	restoring sync.Mutex // is held by what stops, copies or replaces the data
	admin     *rest.Config
	apiReady  time.Duration
	stopped   sync.Once
}

// Start builds the control plane's binaries if need be and runs a cluster. It returns
// when the API server is ready; the rest of the control plane has been started by then,
// and the node becomes Ready soon after. ctx bounds the start alone: a cluster that has
// started runs until Stop. If Start fails, it leaves no process and no directory.
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

// start is Start with a choice of ports, for tests of what happens if they are taken.
func start(ctx context.Context, options Options, choosePorts func(api int) (ports, error)) (*Cluster, error) {
	programs, err := findPrograms(ctx, options)
	if err != nil {
		return nil, err
	}
	directory, err := newDirectory(ctx, filepath.Join(options.CacheDir, "clusters"), options.Logger)
	if err != nil {
		return nil, err
	}
	s := starter{options: options, programs: programs, directory: directory, choosePorts: choosePorts}
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
	options.Logger.Info("local cluster runs", "server", server, "directory", directory.path, "apiReady", c.apiReady)
	return c, nil
}

// Kubeconfig is the path of the administrator's kubeconfig file. It exists until Stop.
func (c *Cluster) Kubeconfig() string { return c.directory.file("kubeconfig") }

// AdminConfig is a new client configuration for the administrator, who may do everything.
// It has no limit of the client's rate.
func (c *Cluster) AdminConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubectl is the path of a kubectl of the control plane's version.
func (c *Cluster) Kubectl() string { return c.kubectl }

// EtcdVersion asks the program of etcd for its version, such as "3.6.8".
func (c *Cluster) EtcdVersion(ctx context.Context) (string, error) {
	said, err := exec.CommandContext(ctx, c.etcd, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", c.etcd, err)
	}
	line, _, _ := strings.Cut(string(said), "\n")
	version, found := strings.CutPrefix(line, "etcd Version: ")
	if !found {
		return "", fmt.Errorf("asking %s for its version: it says %q", c.etcd, line)
	}
	return version, nil
}

// Logs is the directory of the components' logs, <component>.log. It exists until Stop.
func (c *Cluster) Logs() string { return c.directory.path }

// APIReadyAfter is how long it took from the start of the first process to the API
// server's being ready. It does not include a build.
func (c *Cluster) APIReadyAfter() time.Duration { return c.apiReady }

// PID is the number of the process of a component, such as "etcd" or "kube-apiserver". It
// is 0 if the cluster has no such component.
func (c *Cluster) PID(component string) int {
	if child := c.children.find(component); child != nil {
		return child.command.Process.Pid
	}
	return 0
}

// Done is closed when a component has died by itself, and when the cluster was stopped.
// A cluster that has lost a component still needs Stop.
func (c *Cluster) Done() <-chan struct{} { return c.children.ctx.Done() }

// Err says which component died first, and the last lines of its log. It is nil before
// Done is closed, and if nothing but Stop ended the cluster.
func (c *Cluster) Err() error {
	cause := context.Cause(c.children.ctx)
	if errors.Is(cause, context.Canceled) {
		return nil
	}
	return cause
}

// Stop ends every component and removes the cluster's directory. It returns when all is
// gone. It may be called more than once.
func (c *Cluster) Stop() error { return c.StopAndKeep("") }

// StopAndKeep is Stop, but leaves the data of the cluster in a new directory, for
// [Options.Data] of others. It does nothing if the cluster was stopped.
func (c *Cluster) StopAndKeep(directory string) (err error) {
	c.stopped.Do(func() { err = c.stop(directory) })
	return err
}

// stop ends the components, keeps the data if a directory is given, and removes the rest.
func (c *Cluster) stop(kept string) error {
	c.restoring.Lock()
	defer c.restoring.Unlock()
	c.children.stop()
	var err error
	if kept != "" {
		if err = os.CopyFS(kept, os.DirFS(c.directory.file("etcd"))); err != nil {
			err = fmt.Errorf("keeping the data of the cluster: %w", err)
		}
	}
	return errors.Join(err, c.directory.remove())
}
