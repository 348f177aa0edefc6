package sources_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// TestMain turns off client-go's error handlers. They slow down the handling of errors by the time
// since the last one. That time has no meaning between synctest bubbles, because each bubble has a
// clock of its own.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	utilruntime.PanicHandlers = nil // They would print the stacks of the panics that tests cause.
	clustertest.Main(m)
}

// watching returns a watch of config maps on the test's server.
func watching(t *testing.T, server *server, options sources.WatchOptions) streams.Stream[streams.Event] {
	t.Helper()
	kind, err := sources.KindOf(scheme.Scheme, &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kind.Client(&rest.Config{QPS: -1}, &http.Client{Transport: server})
	if err != nil {
		t.Fatal(err)
	}
	return sources.Watch(client, kind, options)
}

// observation holds what an observation of a stream has received so far. Its fields may be read
// when all goroutines of the bubble are blocked: see synctest.Wait.
type observation struct {
	events []streams.Event
	errs   []error
	ended  bool
	group  *lifecycle.Group
}

func observe(t *testing.T, stream streams.Stream[streams.Event]) *observation {
	made := &observation{group: lifecycle.New(t.Context())}
	made.group.Go("observer", func(ctx context.Context) error {
		defer func() { made.ended = true }()
		return streams.ForEach(ctx, stream,
			func(events []streams.Event) { made.events = append(made.events, events...) },
			func(err error) { made.errs = append(made.errs, err) })
	})
	return made
}

// stop ends the observation and waits for its end.
func (o *observation) stop(t *testing.T) {
	t.Helper()
	o.group.Stop()
	if err := o.group.Wait(); err != nil {
		t.Error(err)
	}
}

// emitted returns the events since the last call as text, such as "Applied a/x @5". The objects of a
// list, whose order does not matter, are sorted by name.
func (o *observation) emitted() []string {
	synctest.Wait()
	var lines []string
	listed := 0
	for _, event := range o.events {
		line := event.Type.String()
		if event.Object != nil {
			line += " " + event.Key.NamespacedName.String()
		}
		if event.Type == streams.Listed {
			listed++
		} else {
			slices.Sort(lines[len(lines)-listed:])
			listed = 0
		}
		lines = append(lines, line+" @"+event.ResourceVersion)
	}
	o.events = nil
	return lines
}

// failures returns the errors since the last call as text.
func (o *observation) failures() []string {
	synctest.Wait()
	var lines []string
	for _, err := range o.errs {
		lines = append(lines, fmt.Sprint(err))
	}
	o.errs = nil
	return lines
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// started answers the first list of a watch with objects, and returns the open watch.
func started(t *testing.T, server *server, version string, objects ...*corev1.ConfigMap) *connection {
	t.Helper()
	connection := server.next(t).has(t, "watch", "true", "sendInitialEvents", "true", "resourceVersion", "").open()
	for _, object := range objects {
		connection.send(t, "ADDED", object)
	}
	connection.listed(t, version)
	return connection
}

// pass waits until the time of the bubble has advanced by duration.
func pass(t *testing.T, duration time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	<-ctx.Done()
	synctest.Wait()
}
