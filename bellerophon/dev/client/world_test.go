package client_test

import (
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/signal"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
)

const (
	namespace   = "stable"
	application = "hero"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())  // The Reflector logs each outage.
	utilruntime.ErrorHandlers = nil // They slow down by a clock that each bubble has anew.
	goleak.VerifyTestMain(m)
}

// world is a project and a cluster with a client, in a bubble of virtual time.
type world struct {
	t       *testing.T
	server  *sourcestest.Server
	changes signal.Signal
	group   *lifecycle.Group

	mu       sync.Mutex
	snapshot worktree.Snapshot
	devfile  string
	mistake  error
	reads    int
	views    []client.View
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func version(sum string) worktree.File { return worktree.File{Mode: 0o644, Size: 10, Sum: sum} }

// inWorld runs a test with a client. prepare acts on the server before the client starts; it may be nil.
func inWorld(t *testing.T, prepare, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		must(t, err)
		w := &world{
			t: t, server: server, group: lifecycle.New(t.Context()), devfile: "devfile 1",
			snapshot: worktree.Snapshot{Listed: true, Tree: worktree.Tree{"devfile.yaml": version("1"), "main.go": version("1")}},
		}
		if prepare != nil {
			prepare(t, w)
		}
		manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{
			Namespaces: []string{namespace}, Logger: slog.New(slog.DiscardHandler), OnError: func(error) {},
		})
		must(t, err)
		must(t, client.Add(manager, client.Options{
			Namespace: namespace, Application: application, Debug: true, Changes: w.changes.Stream(),
			Read: func() ([]byte, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.reads++
				return []byte(w.devfile), w.mistake
			},
			Snapshot: func() worktree.Snapshot {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.snapshot
			},
			Show: func(view client.View) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.views = append(w.views, view)
			},
		}))
		w.group.Go("client", manager.Run)
		w.settle()
		test(t, w)
		w.group.Stop()
		must(t, w.group.Wait())
	})
}

// settle lets the client do all that it wants.
func (w *world) settle() {
	<-time.After(time.Minute)
	synctest.Wait()
}

// edit changes the project. The devfile's file changes with its content or mistake.
func (w *world) edit(change func()) {
	w.mu.Lock()
	w.snapshot.Tree = maps.Clone(w.snapshot.Tree)
	change()
	w.mu.Unlock()
	w.changes.Send()
	w.settle()
}

func (w *world) save(devfile string, mistake error) {
	w.edit(func() {
		w.devfile, w.mistake = devfile, mistake
		w.snapshot.Tree["devfile.yaml"] = version(devfile)
	})
}

// last returns the last view, and how often the devfile was read.
func (w *world) last() (client.View, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.views) == 0 {
		return client.View{}, w.reads
	}
	return w.views[len(w.views)-1], w.reads
}

func (w *world) specs() (*corev1.ConfigMap, contract.Specs) {
	w.t.Helper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: application}}
	must(w.t, w.server.Get(config))
	specs, err := contract.SpecsOf(config)
	must(w.t, err)
	return config, specs
}

// wantSpecs fails unless the Specs have a devfile and the project's files, and the view agrees.
func (w *world) wantSpecs(devfile string) {
	w.t.Helper()
	tree := w.snapshot.Tree
	want := contract.Specs{
		Devfile: devfile, Files: contract.Files{Root: tree.Root(), Count: len(tree), Bytes: tree.Bytes()}, Options: contract.SpecsOptions{Debug: true},
	}
	config, got := w.specs()
	if got != want || !contract.IsSpecs(config) {
		w.t.Errorf("the Specs are %+v with the labels %v, want %+v", got, config.Labels, want)
	}
	if view, _ := w.last(); view.Files != want.Files {
		w.t.Errorf("the view has the files %+v, want %+v", view.Files, want.Files)
	}
}

// writes returns how many requests have written.
func (w *world) writes() (sum int) {
	for request, count := range w.server.Counts().Requests {
		switch verb, _, _ := strings.Cut(request, " "); verb {
		case "get", "list", "watch":
		default:
			sum += count
		}
	}
	return sum
}
