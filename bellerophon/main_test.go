package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bellerophon": func() { os.Exit(run()) }, "disturbed": func() { os.Exit(runDisturbed()) }})
}

// TestScripts runs the command as a user does. Scripts have these additional commands:
//
//	cluster         starts a cluster of the script's own, and sets KUBECONFIG and PATH
//	taken VAR       sets VAR to a port of 127.0.0.1 that is taken
//	running WORDS ARGS  runs bellerophon up until the script ends, returns when it prints WORDS, and sets METRICS to its server
//	killed WORDS    runs bellerophon up until it prints WORDS, and kills it with SIGKILL
//	scraped N ARGS  runs bellerophon up --prometheus, whose operator has N processes, and checks the Prometheus
//	paging ARGS     runs bellerophon page with arguments until the script ends, and sets PAGE to its URL and SITE to its origin
//	browses ARGS    sends the requests of one browser, each as METHOD URL STATUS [HOST]
//	operates        starts the operator in a process of its own, or kills that process and starts another one; sets METRICS
//	watches SIZE ARGS  runs bellerophon with arguments on a terminal of COLUMNSxROWS, or on a pipe
//	sees REGEXP     waits until what watches runs shows it
//	resizes SIZE    changes the size of the terminal
//	interrupts      ends with Ctrl-C what watches runs, and prints what is left on the screen
//	documented [-lines] PAGE LINE
//	                      compares the last output with the one below a line of a page, or writes it with -update
//	nochildren      fails if a process of the killed cluster is left
func TestScripts(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "env", "-json", "GOPATH", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	var ofGo map[string]string // Without it, scripts that run go download and compile all modules for their empty HOME.
	if err := json.Unmarshal(out, &ofGo); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_CACHE_HOME", cache) // So that the scripts share one build of the control plane.
			for name, value := range ofGo {
				env.Setenv(name, value)
			}
			env.Setenv("KUBEBUILDER_ASSETS", os.Getenv("KUBEBUILDER_ASSETS"))
			root, err := filepath.Abs("..")
			env.Setenv("ROOT", root)
			env.Values[watchedKey{}] = &watched{}
			return err
		},
		Cmds: withTerminal(map[string]func(*testscript.TestScript, bool, []string){
			"cluster":    cluster,
			"taken":      taken,
			"killed":     killed,
			"running":    running,
			"paging":     paging,
			"browses":    browses,
			"scraped":    scraped,
			"nochildren": noChildren,
			"documented": documented,
		}),
	})
}

// cluster starts a cluster that stands for the user's own. Each script has another one, because bellerophon up installs
// and removes what all namespaces share.
func cluster(ts *testscript.TestScript, _ bool, _ []string) {
	started, err := localcluster.Start(context.Background(), localcluster.Options{})
	ts.Check(err)
	ts.Defer(func() { ts.Check(started.Stop()) })
	ts.Setenv("KUBECONFIG", started.Kubeconfig())
	ts.Setenv("PATH", ts.Getenv("PATH")+string(os.PathListSeparator)+filepath.Dir(started.Kubectl()))
}

func taken(ts *testscript.TestScript, _ bool, args []string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = listener.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	ts.Check(err)
	ts.Setenv(args[0], port)
}

// killed runs the command and kills it once it has printed the words. It sets CLUSTER to the
// directory of the command's cluster.
func killed(ts *testscript.TestScript, _ bool, args []string) {
	command, _ := begun(ts, strings.Join(args, " "))
	ts.Check(command.Process.Signal(syscall.SIGKILL))
	_ = command.Wait() // Its error is the kill.
}

// running runs the command with arguments until the script ends. It returns once the command has printed the words, and sets
// METRICS to the URL of the operator's metrics server.
func running(ts *testscript.TestScript, _ bool, args []string) {
	command, out := begun(ts, args[0], args[1:]...)
	ts.Defer(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // It may have ended.
		_, _ = io.Copy(io.Discard, out)
		if err := command.Wait(); err != nil {
			ts.Logf("bellerophon up: %v", err)
		}
	})
}

// begun starts the command with arguments, and returns when it has printed the words.
func begun(ts *testscript.TestScript, words string, args ...string) (*exec.Cmd, io.Reader) {
	path := filepath.SplitList(ts.Getenv("PATH"))[0]
	command := exec.Command(filepath.Join(path, "bellerophon"), append([]string{"up"}, args...)...)
	command.Dir = ts.Getenv("ROOT")
	command.Env = append(os.Environ(), "XDG_CACHE_HOME="+ts.Getenv("XDG_CACHE_HOME"))
	out, err := command.StdoutPipe()
	ts.Check(err)
	ts.Check(command.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, kubeconfig, ok := strings.Cut(lines.Text(), "kubeconfig: "); ok {
			ts.Setenv("CLUSTER", filepath.Dir(kubeconfig))
		}
		if _, metrics, ok := strings.Cut(lines.Text(), "metrics: "); ok {
			ts.Setenv("METRICS", strings.TrimSuffix(metrics, "/metrics"))
		}
		if strings.Contains(lines.Text(), words) {
			return command, out
		}
	}
	_ = command.Process.Kill() // It has ended, or hangs without output.
	_ = command.Wait()
	ts.Fatalf("bellerophon up never printed %q", words)
	return nil, nil
}

// noChildren fails if a live process has the directory of the killed cluster on its command line.
// The kernel kills these processes with their parent. A zombie counts as gone, because its command
// line is empty.
func noChildren(ts *testscript.TestScript, _ bool, _ []string) {
	directory := ts.Getenv("CLUSTER")
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	ts.Check(err)
	for _, file := range processes {
		line, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(line), directory) {
			ts.Fatalf("the process is still alive: %s", fmt.Sprint(strings.ReplaceAll(string(line), "\x00", " ")))
		}
	}
}
