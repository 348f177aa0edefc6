package localcluster

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatRunsOnANodeSeesItsOwnMountsProcessesAndNetwork needs no Kubernetes.
func TestWhatRunsOnANodeSeesItsOwnMountsProcessesAndNetwork(t *testing.T) {
	machine, err := findHost(sharedCache(t))
	if err != nil { // It is ErrNoRealNode, with what the machine lacks.
		t.Skip(err)
	}
	folder := t.TempDir()
	for _, name := range []string{"lib", "log"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(folder, "init.sh"), string(initScript), 0o600)
	children := newFamily(folder, []string{"PATH=" + machine.path})
	defer children.stop()
	if err := children.boot(folder); err != nil {
		t.Fatal(err)
	}
	// The script fails at the first command that does.
	script := `set -eu
test "$(cat /proc/1/comm)" = sh
test "$(cat /proc/sys/vm/overcommit_memory)" = 1
test "$(cat /proc/sys/kernel/panic)" = 10
test -z "$(ls /var/lib)"
ip address show dev lo | grep -q 10.240.0.1/32
test "$(ip -o link | wc -l)" -lt 4
cat >/var/lib/stdin`
	if err := children.runOnNode(t.Context(), strings.NewReader("text"), "/bin/sh", "-c", script); err != nil {
		t.Error(err)
	}
	if content, err := os.ReadFile(filepath.Join(folder, "lib", "stdin")); err != nil || string(content) != "text" {
		t.Errorf("the node's file has %q, %v", content, err)
	}
	if err := children.runOnNode(t.Context(), nil, "/bin/sh", "-c", "echo why >&2; exit 3"); err == nil || err.Error() != "sh: exit status 3: why" {
		t.Errorf("a program that fails: %v", err)
	}

	// A server in the network of the node is reached by dialOnNode alone.
	const server = nodeAddress + ":80"
	listening := make(chan net.Listener, 1)
	children.spawn("server", func() {
		var listener net.Listener
		err := children.node.run(false, func() (err error) {
			listener, err = net.Listen("tcp", server)
			return err
		})
		listening <- listener
		if err != nil {
			t.Error(err)
			return
		}
		connection, err := listener.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		if _, err := io.WriteString(connection, "inside"); err != nil {
			t.Error(err)
		}
	})
	listener := <-listening
	if listener == nil {
		t.Fatal("the server does not listen")
	}
	defer listener.Close()
	connection, err := children.dialOnNode(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if answer, err := io.ReadAll(connection); err != nil || string(answer) != "inside" {
		t.Errorf("the server answers %q, %v", answer, err)
	}
}
