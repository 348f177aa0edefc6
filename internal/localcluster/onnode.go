package localcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// This file starts the members of a family that belong to a real node.

// initName is the name of the first process of a real node.
const initName = "node"

// boot starts the first process of a real node with the init.sh of a directory, waits until it has
// prepared the namespaces, and opens them.
func (f *family) boot(directory string) error {
	ready, readyWriter, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	defer ready.Close()
	command := exec.Command("/bin/sh", filepath.Join(directory, "init.sh"), directory, nodeAddress, serviceRange)
	command.SysProcAttr = nodeAttributes()
	command.ExtraFiles = []*os.File{readyWriter}
	first, err := f.launch(initName, command, func(start func() error) error { return start() })
	readyWriter.Close()
	if err != nil {
		return err
	}
	// The end of the process closes the pipe as well.
	if word, err := io.ReadAll(ready); err != nil || string(word) != "ready\n" {
		return errors.Join(fmt.Errorf("start the node: its first process did not get ready; its last lines:\n%s", lastLines(f.logFile(initName), 15)), err)
	}
	f.node, err = openNamespaces(first.command.Process.Pid)
	return err
}

// memberAttributes returns the attributes of a child without a signal at the death of its parent. The
// kernel kills the child together with the first process of the node. With that signal, Go would kill the
// child at once: its parent is invisible within the node, as if it had died.
func memberAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// startOnNode starts a member in all namespaces of the node.
func (f *family) startOnNode(path string, arguments ...string) error {
	command := exec.Command(path, arguments...)
	command.SysProcAttr = memberAttributes()
	_, err := f.launch(filepath.Base(path), command, func(start func() error) error {
		return f.node.run(true, start)
	})
	return err
}

// runOnNode runs a program in all namespaces of the node until it exits. An error has the output.
func (f *family) runOnNode(ctx context.Context, stdin io.Reader, path string, arguments ...string) error {
	command := exec.CommandContext(ctx, path, arguments...)
	var output bytes.Buffer
	command.Dir, command.Env, command.Stdin, command.Stdout, command.Stderr = f.directory, f.env, stdin, &output, &output
	command.SysProcAttr = memberAttributes()
	done := make(chan error, 1)
	f.spawn(filepath.Base(path), func() { done <- f.node.run(true, command.Run) })
	if err := <-done; err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(path), err, bytes.TrimSpace(output.Bytes()))
	}
	return nil
}

// dialOnNode connects to an address in the network of the node.
func (f *family) dialOnNode(ctx context.Context, address string) (net.Conn, error) {
	type dialed struct {
		connection net.Conn
		err        error
	}
	done := make(chan dialed, 1)
	f.spawn("dial", func() {
		var d dialed
		d.err = f.node.run(false, func() (err error) {
			// The socket belongs to the network of the thread that creates it.
			d.connection, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
			return err
		})
		done <- d
	})
	d := <-done
	return d.connection, d.err
}

// leaveNode ends the forward and releases the namespaces, after the last member has ended.
func (f *family) leaveNode() {
	if f.forward != nil {
		f.forward.stop()
	}
	if f.node != nil {
		_ = f.node.close() // The files are open for reading.
	}
}
