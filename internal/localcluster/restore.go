package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Pause suspends the process of a component, such as "kube-apiserver". Its connections stay open,
// but requests on them get no answer. On Linux, it returns when all threads of the process have
// stopped. Continue resumes the process. Stop works on a paused component.
func (c *Cluster) Pause(component string) error {
	return c.signal("pause", component, syscall.SIGSTOP, awaitStopped)
}

// Continue resumes a paused component. It does nothing if the component is not paused.
func (c *Cluster) Continue(component string) error {
	return c.signal("continue", component, syscall.SIGCONT, func(int) error { return nil })
}

// Restart kills a component and starts it again, with the same arguments and data. It returns when the API
// server is ready. If Restart fails, the cluster no longer runs and still needs Stop.
func (c *Cluster) Restart(ctx context.Context, component string) error {
	c.restoring.Lock()
	defer c.restoring.Unlock()
	child := c.children.find(component)
	if child == nil {
		return fmt.Errorf("localcluster: restart %s: the cluster has no such component", component)
	}
	err := c.children.restart(child)
	if err == nil {
		err = c.awaitAPI(ctx)
	}
	if err != nil {
		err = fmt.Errorf("localcluster: restart %s: %w", component, err)
		c.children.fail(err)
	}
	return err
}

// awaitAPI waits until the API server is ready.
func (c *Cluster) awaitAPI(ctx context.Context) error {
	client, err := rest.HTTPClientFor(c.AdminConfig())
	if err != nil {
		return err
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	return waitReady(ctx, client, "kube-apiserver", c.admin.Host+"/readyz", c.children)
}

// signal sends a signal to a component, and then calls await with its pid.
func (c *Cluster) signal(verb, component string, signal syscall.Signal, await func(pid int) error) error {
	child := c.children.find(component)
	if child == nil {
		return fmt.Errorf("localcluster: %s %s: the cluster has no such component", verb, component)
	}
	err := child.command.Process.Signal(signal)
	if err == nil {
		err = await(child.command.Process.Pid)
	}
	if err != nil {
		return fmt.Errorf("localcluster: %s %s: %w", verb, component, err)
	}
	return nil
}

// Snapshot copies the data of etcd into a new directory, for Restore or for [Options.Data] of
// other clusters. The cluster keeps running; etcd is paused during the copy.
func (c *Cluster) Snapshot(directory string) (err error) {
	c.restoring.Lock()
	defer c.restoring.Unlock()
	if err := c.Pause("etcd"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Continue("etcd")) }()
	// A process paused between two writes leaves the same files as a process killed there. etcd
	// recovers from them when it starts on the copy.
	if err := os.CopyFS(directory, os.DirFS(c.directory.file("etcd"))); err != nil {
		return fmt.Errorf("localcluster: take a snapshot: %w", err)
	}
	return nil
}

// Restore kills all components, resets the data of etcd to a snapshot and starts the components
// again, with the same address and credentials. It returns when the API server is ready. Resource
// versions are lower than before and are used a second time. If Restore fails, the cluster no
// longer runs and still needs Stop. A cluster with a real node cannot be restored.
func (c *Cluster) Restore(ctx context.Context, directory string) error {
	c.restoring.Lock()
	defer c.restoring.Unlock()
	if c.starter.options.Nodes == RealNode {
		return errors.New("localcluster: restore: a real node would keep the Pods of the time before")
	}
	if c.children.ctx.Err() != nil {
		return errors.New("localcluster: restore: the cluster is not running")
	}
	if _, err := os.Stat(directory); err != nil { // Before data are removed.
		return fmt.Errorf("localcluster: restore: %w", err)
	}
	if err := c.restore(ctx, directory); err != nil {
		err = fmt.Errorf("localcluster: restore %s: %w", directory, err)
		c.children.fail(err)
		return err
	}
	return nil
}

func (c *Cluster) restore(ctx context.Context, directory string) error {
	c.children.kill()
	data := c.directory.file("etcd")
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if err := os.CopyFS(data, os.DirFS(directory)); err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c.AdminConfig())
	if err != nil {
		return err
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	if err := c.starter.startAPI(ctx, c.children, c.starter.ports, client); err != nil {
		return err
	}
	return c.starter.startClients(ctx, c.children)
}
