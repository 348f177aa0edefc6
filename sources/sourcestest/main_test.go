package sourcestest_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// TestMain turns off client-go's error handlers. They slow down the handling of errors by the time
// since the last one. That time has no meaning between synctest bubbles, because each bubble has a
// clock of its own.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	clustertest.Main(m)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newServer(t *testing.T, options sourcestest.Options) *sourcestest.Server {
	t.Helper()
	options.Scheme = scheme.Scheme
	server, err := sourcestest.New(options)
	must(t, err)
	return server
}

func configMap(name string, data ...string) *corev1.ConfigMap {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	for _, value := range data {
		made.Data = map[string]string{"value": value}
	}
	return made
}

// client returns a client for config maps, as a manager creates it.
func client(t *testing.T, server *sourcestest.Server) (*rest.RESTClient, sources.Kind) {
	t.Helper()
	kind, err := sources.KindOf(scheme.Scheme, &corev1.ConfigMap{})
	must(t, err)
	made, err := kind.Client(server.Config(), &http.Client{Transport: server})
	must(t, err)
	return made, kind
}

// observation holds what a watch of config maps has received so far. Its fields may be read when
// all goroutines of the bubble are blocked.
type observation struct {
	mu    sync.Mutex // The race detector does not take a timer for synchronization.
	lines []string
	state map[string]string // the value of each object
	errs  []string
	group *lifecycle.Group
}

func observe(t *testing.T, server *sourcestest.Server) *observation {
	t.Helper()
	client, kind := client(t, server)
	made := &observation{state: map[string]string{}, group: lifecycle.New(t.Context())}
	made.group.Go("observer", func(ctx context.Context) error {
		return streams.ForEach(ctx, sources.Watch(client, kind, sources.WatchOptions{}),
			func(events []streams.Event) {
				for _, event := range events {
					made.fold(event)
				}
			},
			func(err error) { made.errs = append(made.errs, err.Error()) })
	})
	synctest.Wait()
	return made
}

func (o *observation) fold(event streams.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	line := event.Type.String() + " " + event.Key.Name
	switch event.Type {
	case streams.ListStart:
		o.state = map[string]string{}
	case streams.Listed, streams.Applied:
		value := event.Object.(*corev1.ConfigMap).Data["value"]
		o.state[event.Key.Name] = value
		line += "=" + value
	case streams.Deleted:
		delete(o.state, event.Key.Name)
	}
	o.lines = append(o.lines, line)
}

// emitted waits for a time and returns the events since the last call.
func (o *observation) emitted(t *testing.T, after time.Duration) []string {
	t.Helper()
	pass(t, after)
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.lines
	o.lines = nil
	return lines
}

func (o *observation) stop(t *testing.T) {
	t.Helper()
	o.group.Stop()
	must(t, o.group.Wait())
}

// pass waits until the time of the bubble has advanced by duration.
func pass(t *testing.T, duration time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	<-ctx.Done()
	synctest.Wait()
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}
