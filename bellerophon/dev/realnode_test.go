package dev_test

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/devtest"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) {
	// client-go's goroutine for pings ends with the next ping after the end of a connection.
	clustertest.Main(m, goleak.IgnoreAnyFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"))
}

// session is a `bellerophon dev` that runs on the real node.
type session struct {
	t         *testing.T
	ctx       context.Context
	config    *rest.Config
	client    kubernetes.Interface
	namespace string
	project   string
	name      string
	stop      func() error
	show      func(client.View) // gets the views, too

	mu     sync.Mutex
	view   client.View
	output bytes.Buffer
}

// Write implements io.Writer for the output of commands.
func (s *session) Write(part []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.Write(part)
}

// newSession prepares a copy of a sample, and a namespace.
func newSession(t *testing.T, sample string) *session {
	t.Helper()
	cluster := clustertest.WithRealNode(t)
	switch sample {
	case "go":
		clustertest.LoadGo(t, cluster, devtest.GoImage)
	default:
		clustertest.LoadSystem(t, cluster, devtest.ScriptImage)
	}
	config := cluster.AdminConfig()
	made, err := kubernetes.NewForConfig(config)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return &session{t: t, ctx: ctx, config: config, client: made, namespace: clustertest.NamespaceIn(t, cluster), project: devtest.CopySample(t, sample)}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts the program.
func (s *session) start(options dev.Options) {
	s.t.Helper()
	options.Directory, options.Namespace, options.Output = s.project, s.namespace, s
	options.Logger = slog.New(slog.DiscardHandler)
	options.Show = func(view client.View) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.view = view
		if s.show != nil {
			s.show(view)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	group := lifecycle.New(ctx)
	group.Go("dev", func(ctx context.Context) error { return dev.Run(ctx, s.config, options) })
	var once sync.Once
	var err error
	s.stop = func() error {
		once.Do(func() {
			cancel()
			err = group.Wait()
		})
		return err
	}
	s.t.Cleanup(func() { _ = s.stop() })
}

// until waits until the Status is as wanted.
func (s *session) until(wanted func(contract.Status) bool) contract.Status {
	s.t.Helper()
	status, err := devtest.WaitStatus(s.ctx, s.client, s.namespace, s.name, wanted)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.t.Fatalf("%v; the problem is %v; the output is %s", err, s.view.Problem, s.output.String())
	}
	return status
}

// isRunning reports whether the application runs with files.
func isRunning(status contract.Status) bool {
	return status.State == contract.RunCommandRunning && len(status.Ports) > 0 && status.Ports[0].Local != ""
}

// page waits until the application answers with a text. Until then it may refuse connections, as it starts.
func (s *session) page(address, want string) {
	s.t.Helper()
	for {
		got, err := devtest.Get(s.ctx, "http://"+address)
		if err == nil && strings.TrimSpace(got) == want {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-s.ctx.Done():
			s.t.Fatalf("the page is %q: %v", got, err)
		}
	}
}

// save writes a greeting into the sample in Go, as an editor does.
func (s *session) save(greeting string) {
	s.t.Helper()
	main := filepath.Join(s.project, "main.go")
	content, err := os.ReadFile(main)
	must(s.t, err)
	before, after, found := strings.Cut(string(content), `const greeting = "`)
	if !found {
		s.t.Fatal("the sample has no greeting")
	}
	_, after, _ = strings.Cut(after, `"`)
	draft := filepath.Join(s.t.TempDir(), "main.go")
	must(s.t, os.WriteFile(draft, []byte(before+`const greeting = "`+greeting+`"`+after), 0o644))
	must(s.t, os.Rename(draft, main))
}

// tree returns the files of the project, as a worktree has them.
func (s *session) tree() worktree.Tree {
	s.t.Helper()
	project, err := worktree.Open(s.project, worktree.Options{})
	must(s.t, err)
	defer func() { must(s.t, project.Close()) }()
	var tree worktree.Tree
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	items := project.Changes().Observe(ctx)
	for range items {
		if seen := project.Snapshot(); seen.Listed {
			tree = seen.Tree
			cancel()
		}
	}
	return tree
}

// wantTree checks that the container has the files of the project.
func (s *session) wantTree(status contract.Status) {
	s.t.Helper()
	at := container.Place{Namespace: s.namespace, Pod: status.Pod, Container: "runtime"}
	got, err := devtest.Tree(s.ctx, s.config, at, "/projects")
	must(s.t, err)
	if want := s.tree(); !maps.Equal(got, want) {
		s.t.Errorf("the container has %v, and the project %v", got, want)
	}
}

func TestTheSampleInGoRunsOnARealNode(t *testing.T) {
	s := newSession(t, "go")
	s.name = "greeting-go"
	s.start(dev.Options{})
	status := s.until(isRunning)
	address := status.Ports[0].Local
	s.page(address, "Hello from Go")
	s.wantTree(status)

	s.save("Hello again")
	s.page(address, "Hello again")

	// A build that fails leaves the last one running, and says why.
	main := filepath.Join(s.project, "main.go")
	content, err := os.ReadFile(main)
	must(t, err)
	must(t, os.WriteFile(main, append(content, "func broken() { nothing }\n"...), 0o644))
	failed := s.until(func(status contract.Status) bool {
		return status.Build != nil && status.Build.Outcome == contract.Failed
	})
	if !strings.Contains(failed.Build.Output, "undefined: nothing") {
		t.Errorf("the output of the build is %q", failed.Build.Output)
	}
	s.page(address, "Hello again")
	must(t, os.WriteFile(main, content, 0o644))
	s.until(isRunning)

	// The port stays when the pod does not.
	must(t, s.client.CoreV1().Pods(s.namespace).Delete(s.ctx, failed.Pod, metav1.DeleteOptions{}))
	after := s.until(func(status contract.Status) bool { return isRunning(status) && status.Pod != failed.Pod })
	if after.Ports[0].Local != address {
		t.Errorf("the port was %s and is %s", address, after.Ports[0].Local)
	}
	s.page(address, "Hello again")
	s.wantTree(after)

	// Nothing is left.
	must(t, s.stop())
	s.wantNothing()
}

// wantNothing checks that nothing of the application is left.
func (s *session) wantNothing() {
	s.t.Helper()
	options := metav1.ListOptions{LabelSelector: contract.ApplicationLabel + "=" + s.name}
	pods, err := s.client.CoreV1().Pods(s.namespace).List(s.ctx, options)
	must(s.t, err)
	deployments, err := s.client.AppsV1().Deployments(s.namespace).List(s.ctx, options)
	must(s.t, err)
	services, err := s.client.CoreV1().Services(s.namespace).List(s.ctx, options)
	must(s.t, err)
	configs, err := s.client.CoreV1().ConfigMaps(s.namespace).List(s.ctx, options)
	must(s.t, err)
	if left := len(pods.Items) + len(deployments.Items) + len(services.Items) + len(configs.Items); left > 0 {
		s.t.Errorf("left are %d pods, %d Deployments, %d Services and %d ConfigMaps", len(pods.Items), len(deployments.Items), len(services.Items), len(configs.Items))
	}
}

func TestTheSampleWithoutACompilerLoadsItsFilesByItself(t *testing.T) {
	s := newSession(t, "script")
	s.name = "greeting-script"
	s.start(dev.Options{})
	status := s.until(func(status contract.Status) bool { return status.State == contract.RunCommandRunning })
	must(t, os.WriteFile(filepath.Join(s.project, "greeting.txt"), []byte("something new\n"), 0o644))
	synced := s.until(func(after contract.Status) bool {
		return after.Sync.Root != status.Sync.Root && after.State == contract.RunCommandRunning
	})
	s.wantTree(synced)
	if synced.Run.Starts != 1 {
		t.Errorf("the run command was started %d times, although it loads its files by itself", synced.Run.Starts)
	}
}

func TestAnImageThatCannotBePulledIsNamed(t *testing.T) {
	s := newSession(t, "script")
	s.name = "greeting-script"
	path := filepath.Join(s.project, "devfile.yaml")
	content, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, bytes.ReplaceAll(content, []byte(devtest.ScriptImage), []byte("example.invalid/missing:1")), 0o644))
	s.start(dev.Options{})
	status := s.until(func(status contract.Status) bool { return strings.Contains(status.Message, "cannot be pulled") })
	if status.State != contract.WaitDeployment || !strings.Contains(status.Message, "example.invalid/missing:1") {
		t.Errorf("the Status is %s: %s", status.State, status.Message)
	}
	// The devfile is mended while it waits.
	must(t, os.WriteFile(path, content, 0o644))
	s.until(func(status contract.Status) bool { return status.State == contract.RunCommandRunning })
}
