package sources_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// exchanges records the requests to a real API server, with the content types of the responses.
type exchanges struct {
	mu   sync.Mutex
	all  []exchange
	next http.RoundTripper
}

type exchange struct {
	query       url.Values
	contentType string
}

func (e *exchanges) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := e.next.RoundTrip(request)
	if err == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, exchange{request.URL.Query(), answer.Header.Get("Content-Type")})
	}
	return answer, err
}

// log returns the requests so far as text.
func (e *exchanges) log() (lines []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, exchange := range e.all {
		verb := "list limit=" + exchange.query.Get("limit")
		if exchange.query.Get("watch") != "" {
			verb = "watch sendInitialEvents=" + exchange.query.Get("sendInitialEvents")
		}
		if exchange.query.Get("continue") != "" {
			verb += " continued"
		}
		contentType, _, _ := strings.Cut(exchange.contentType, ";")
		lines = append(lines, verb+" as "+strings.TrimPrefix(contentType, "application/"))
	}
	return lines
}

// folded applies the events of a real watch, as a cache would.
type folded struct {
	t       *testing.T
	items   chan any
	listing map[string]streams.Object
	held    map[string]streams.Object
	start   string // the version that the last list has to reach, if any
	version string // the version of the last list
	emitted []string
	log     *exchanges
}

// watchOn watches a kind on the shared test cluster.
func watchOn(t *testing.T, kind sources.Kind, options sources.WatchOptions) *folded {
	t.Helper()
	made := &folded{t: t, items: make(chan any, 1000), log: &exchanges{}}
	config := clustertest.Shared(t).AdminConfig()
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { made.log.next = next; return made.log })
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kind.Client(config, shared)
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("observer", func(ctx context.Context) error {
		return streams.ForEach(ctx, sources.Watch(client, kind, options),
			func(events []streams.Event) { made.items <- events }, func(err error) { made.items <- err })
	})
	t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		shared.CloseIdleConnections()
	})
	return made
}

// until applies events until a condition holds, and returns how long that took.
func (f *folded) until(what string, holds func() bool) time.Duration {
	f.t.Helper()
	start := time.Now()
	limit := time.After(time.Minute)
	for !holds() {
		select {
		case item := <-f.items:
			f.take(item)
		case <-limit:
			f.t.Fatalf("waiting for %s: timed out; held are %v, emitted was %q", what, slices.Sorted(maps.Keys(f.held)), f.emitted)
		}
	}
	return time.Since(start)
}

func (f *folded) take(item any) {
	events, isEvents := item.([]streams.Event)
	if !isEvents {
		f.emitted = append(f.emitted, fmt.Sprint(item))
		return
	}
	for _, event := range events {
		f.emitted = append(f.emitted, strings.TrimSpace(event.Type.String()+" "+event.Key.Name))
		switch event.Type {
		case streams.ListStart:
			f.listing, f.start = map[string]streams.Object{}, event.ResourceVersion
		case streams.Listed:
			f.listing[event.Key.Name] = event.Object
		case streams.ListEnd:
			f.held, f.listing, f.version = f.listing, nil, event.ResourceVersion
		case streams.Applied:
			f.held[event.Key.Name] = event.Object
		case streams.Deleted:
			delete(f.held, event.Key.Name)
		}
	}
}

// holds reports whether exactly these objects are held.
func (f *folded) holds(names ...string) func() bool {
	return func() bool {
		return f.held != nil && f.listing == nil && slices.Equal(slices.Sorted(maps.Keys(f.held)), names)
	}
}

// says reports whether a line was emitted.
func (f *folded) says(line string) func() bool {
	return func() bool { return slices.Contains(f.emitted, line) }
}

func TestAListOnARealServerComesInPagesOrAsAStream(t *testing.T) {
	namespace := clustertest.Namespace(t)
	maps, err := kubernetes.NewForConfig(clustertest.Shared(t).AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range 5 {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", i), Labels: map[string]string{"app": "red"}}}
		if _, err := maps.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		names = append(names, object.Name)
	}
	options := sources.WatchOptions{Namespaces: []string{namespace}, LabelSelector: "app=red"}
	for _, test := range []struct {
		pageSize int
		want     []string
	}{
		{0, []string{"watch sendInitialEvents=true as vnd.kubernetes.protobuf"}},
		{2, []string{
			"list limit=2 as vnd.kubernetes.protobuf", "list limit=2 continued as vnd.kubernetes.protobuf", "list limit=2 continued as vnd.kubernetes.protobuf",
			"watch sendInitialEvents= as vnd.kubernetes.protobuf"}},
	} {
		options.PageSize = test.pageSize
		options.Status = &sources.Status{}
		f := watchOn(t, kindOf(t, &corev1.ConfigMap{}), options)
		f.until("the list", f.holds(names...))
		touched := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("more-", test.pageSize), Labels: map[string]string{"app": "red"}}}
		if _, err := maps.CoreV1().ConfigMaps(namespace).Create(t.Context(), touched, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		names = append(names, touched.Name)
		f.until("an event", f.holds(names...))
		same(t, "requests", f.log.log(), test.want)
	}
}

// The cache takes these lists as current without asking for the version. This test checks that the
// API server keeps that promise, for streamed lists and for pages.
func TestTheFirstListOfARealServerHasEachWriteBeforeAndNothingElseIsAskedFor(t *testing.T) {
	namespace := clustertest.Namespace(t)
	client, err := kubernetes.NewForConfig(clustertest.Shared(t).AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	kind := kindOf(t, &corev1.ConfigMap{})
	var names []string
	for i := range 20 {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("map-%02d", i)}}
		written, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, written.Name)
		options := sources.WatchOptions{Namespaces: []string{namespace}, FieldSelector: "metadata.name!=kube-root-ca.crt"}
		request := "watch sendInitialEvents=true as vnd.kubernetes.protobuf"
		if i%2 == 1 {
			options.PageSize = 500
			request = "list limit=500 as vnd.kubernetes.protobuf"
		}
		f := watchOn(t, kind, options)
		f.until("the list", f.says("ListEnd"))
		if f.start != "" || streams.IsOlderVersion(f.version, written.ResourceVersion) {
			t.Errorf("the list at %s has to reach %q, and the last write was at %s", f.version, f.start, written.ResourceVersion)
		}
		if !f.holds(names...)() {
			t.Errorf("after the write of %s, the events are %q", written.Name, f.emitted)
		}
		same(t, "what is asked for first", f.log.log()[:1], []string{request})
		for _, other := range f.log.log()[1:] { // After a page, the watch that follows.
			if other != "watch sendInitialEvents= as vnd.kubernetes.protobuf" {
				t.Errorf("there was another request: %q", other)
			}
		}
	}
}
