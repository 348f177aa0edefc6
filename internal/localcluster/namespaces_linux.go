package localcluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/bellerophon-io/bellerophon/internal/subprocess"
	"golang.org/x/sys/unix"
)

// nodeFlags are the namespaces of a real node. Its processes see their own mounts, processes and
// network, and nothing of the host's.
const nodeFlags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// nodeAttributes makes a child the first process of new namespaces.
func nodeAttributes() *syscall.SysProcAttr {
	attributes := subprocess.Attributes()
	attributes.Cloneflags = nodeFlags
	return attributes
}

// namespaces holds the namespaces of a running node open.
type namespaces struct {
	network *os.File
	others  []*os.File
}

// openNamespaces opens the namespaces of a node by its first process.
func openNamespaces(pid int) (*namespaces, error) {
	n := &namespaces{}
	for _, kind := range []string{"net", "ipc", "uts", "pid", "mnt"} { // The last one hides the host's /proc.
		file, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the node's namespaces: %w", err), n.close())
		}
		if kind == "net" {
			n.network = file
			continue
		}
		n.others = append(n.others, file)
	}
	return n, nil
}

func (n *namespaces) close() error {
	var err error
	for _, file := range append(n.others, n.network) {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return err
}

// onMainThread reports whether this is the main thread of the process.
func onMainThread() bool { return unix.Gettid() == os.Getpid() }

// run moves this thread into the node's network, and into its other namespaces too if whole is set,
// and calls a function. It must be called in a function that runs by spawn.
func (n *namespaces) run(whole bool, inside func() error) error {
	files := []*os.File{n.network}
	if whole {
		// A thread that shares its working directory with others cannot change its mounts.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("enter the node: %w", err)
		}
		files = append(files, n.others...)
	}
	for _, file := range files {
		if err := unix.Setns(int(file.Fd()), 0); err != nil {
			return fmt.Errorf("enter the node's namespace %s: %w", file.Name(), err)
		}
	}
	return inside()
}

// probeNamespaces reports why a script cannot run in namespaces like a node's, or nil.
func probeNamespaces(script, path string) error {
	command := exec.Command("/bin/sh", "-c", script)
	command.Env = []string{"PATH=" + path}
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: nodeFlags}
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(output))
	}
	return nil
}
