package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/golden"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"k8s.io/client-go/tools/clientcmd"
)

// guide is a walk through the guide of a first controller. Its commands run in one folder.
type guide struct {
	t           *testing.T
	folder      string
	environment []string
}

// run runs a command of a shell, and returns what it prints.
func (g *guide) run(line string, environment ...string) string {
	g.t.Helper()
	command := exec.CommandContext(g.t.Context(), "sh", "-c", line)
	command.Dir, command.Env = g.folder, slices.Concat(g.environment, environment)
	said, err := command.CombinedOutput()
	if err != nil {
		g.t.Fatalf("%s: %v\n%s", line, err, said)
	}
	state := command.ProcessState
	g.t.Logf("%s took %.1f s of CPU", line, (state.UserTime() + state.SystemTime()).Seconds())
	return string(said)
}

// startProgram starts a `go run`, whose program must end without an error after an interrupt at the end of the test.
func (g *guide) startProgram(line string, environment ...string) {
	g.t.Helper()
	var said bytes.Buffer
	command := exec.Command("sh", "-c", "exec "+line) // Without a shell that the interrupt would end.
	command.Dir, command.Env = g.folder, slices.Concat(g.environment, environment)
	command.Stdout, command.Stderr = &said, &said
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // As a terminal, which interrupts a command with its children.
	if err := command.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		if err := syscall.Kill(-command.Process.Pid, syscall.SIGINT); err != nil {
			g.t.Error(err)
		}
		_ = command.Wait() // The interrupt makes go run fail, whatever the program does. It reports a program that fails.
		if output := said.String(); g.t.Failed() || strings.Contains(output, "exit status") || !strings.Contains(output, "released the Lease") {
			g.t.Errorf("%s printed\n%s", line, output)
		}
	})
}

// asServiceAccount writes a kubeconfig whose user acts as a service account.
func asServiceAccount(t *testing.T, kubeconfig, account string) (file string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:serviceaccount:" + account
	}
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// contents returns the files of a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	if err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = string(content)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// wantBlock compares an output with the block below a line of a page, or writes it there with -update.
func wantBlock(t *testing.T, page, text, line, said string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	said = strings.ReplaceAll(said, root, "~/bellerophon")
	before, after, found := strings.Cut(text, "\n    "+line+"\n\n```text\n")
	block, rest, ends := strings.Cut(after, "```\n")
	switch {
	case !found || !ends:
		t.Fatalf("%s has no line with %s and a block of text below", page, line)
	case golden.IsUpdate():
		if err := os.WriteFile(page, []byte(before+"\n    "+line+"\n\n```text\n"+said+"```\n"+rest), 0o644); err != nil {
			t.Fatal(err)
		}
	case block != said:
		t.Errorf("%s shows of %s\n%s\nand not\n%s\nRun the test with -update, and read what has changed.", page, line, block, said)
	}
}

var guideLine = regexp.MustCompile(`(?m)^    (\S[^#\n]*)`)

// TestTheCommandsOfTheGuideOfAFirstControllerWork runs them as a new user does, with these differences. The controller
// has only the permissions of its chart. It elects a leader, and takes any port.
func TestTheCommandsOfTheGuideOfAFirstControllerWork(t *testing.T) {
	page := filepath.Join("..", "docs", "guides", "first-controller.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := localcluster.Start(context.WithoutCancel(t.Context()), localcluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	helm, err := filepath.Abs(filepath.Join("..", "tools", "helm", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	g := &guide{t: t, folder: t.TempDir(), environment: append(os.Environ(),
		"KUBECONFIG="+cluster.Kubeconfig(),
		"PATH="+os.Getenv("PATH")+string(os.PathListSeparator)+filepath.Dir(cluster.Kubectl()),
		"GOWORK=off", "GOSUMDB=off", // Other tests check the sums of the same modules.
		"GOFLAGS=-ldflags=-s -vet=off", // A faster link, and `go vet` is a command of its own.
	)}
	ran := 0
	for _, match := range guideLine.FindAllStringSubmatch(string(text), -1) {
		line := strings.TrimSpace(match[1])
		ran++
		switch {
		case line == "mkdir shop && cd shop":
			g.run("mkdir shop")
			g.folder = filepath.Join(g.folder, "shop")
		case strings.HasPrefix(line, "bellerophon new "):
			wantBlock(t, page, string(text), line, g.run(line))
		case line == "bellerophon cluster", strings.HasPrefix(line, "export KUBECONFIG="):
		case line == "go run .":
			home := t.TempDir()
			g.run("go tool -modfile="+helm+" helm template shop chart --namespace default >manifests.yaml && kubectl apply -f manifests.yaml",
				"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
			g.startProgram(line+" --lease=default/shop --metrics-address=127.0.0.1:0 --health-address=127.0.0.1:0",
				"KUBECONFIG="+asServiceAccount(t, cluster.Kubeconfig(), "default:shop"))
		case line == "go generate ./...":
			before := contents(t, g.folder)
			g.run(line)
			after := contents(t, g.folder)
			for path := range after {
				if after[path] != before[path] {
					t.Errorf("%s changes %s to\n%s", line, path, after[path])
				}
			}
		default:
			g.run(line)
		}
	}
	if ran < 15 {
		t.Errorf("the guide has only %d commands", ran)
	}
}
