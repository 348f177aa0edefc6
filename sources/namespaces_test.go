package sources_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// both returns the next requests of two namespaces, a first.
func both(t *testing.T, server *server) (a, b *request) {
	t.Helper()
	a, b = server.next(t), server.next(t)
	if strings.Contains(b.path, "/namespaces/a/") {
		a, b = b, a
	}
	if a.path != "/api/v1/namespaces/a/configmaps" || b.path != "/api/v1/namespaces/b/configmaps" {
		t.Fatalf("the requests are for %s and %s", a.path, b.path)
	}
	return a, b
}

func TestEachNamespaceIsASourceOfItsOwnThatSpeaksForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, status := newServer(), &sources.Status{}
		seen := observe(t, watching(t, server, sources.WatchOptions{Namespaces: []string{"a", "b"}, Status: status}))
		state := func(when string, want sources.WatchState) {
			t.Helper()
			synctest.Wait()
			if got := sources.WatchState(status.State.Load()); got != want {
				t.Errorf("%s it is %v, want %v", when, got, want)
			}
		}
		said := func() (lines []string) {
			synctest.Wait()
			for _, event := range seen.events {
				lines = append(lines, fmt.Sprintf("%s: %v %v", event.Source, event.Type, event.Key))
			}
			seen.events = nil
			return lines
		}
		a, b := both(t, server)
		a.open().listed(t, "8")
		state("while one still lists", sources.Listing)
		same(t, "of one", said(), []string{"watch of ConfigMap in a: ListStart ConfigMap a/", "watch of ConfigMap in a: ListEnd ConfigMap a/"})

		b.refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "no way")
		server.next(t).refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "no way")
		state("while one is refused", sources.BackingOff)
		same(t, "failures", seen.failures(), []string{"watch of ConfigMap in b: cannot list configmaps in namespace b: no way"})
		connection := server.next(t).open()
		connection.send(t, "ADDED", configMap("b", "x", "5"))
		connection.listed(t, "10")
		connection.send(t, "BOOKMARK", configMap("", "", "12"))
		state("after both lists", sources.Watching)
		same(t, "of the other", said(), []string{
			"watch of ConfigMap in b: ListStart ConfigMap b/", "watch of ConfigMap in b: Listed ConfigMap b/x",
			"watch of ConfigMap in b: ListEnd ConfigMap b/", "watch of ConfigMap in b: Bookmark ConfigMap b/"})
		if lists, watches := status.Lists.Load(), status.Watches.Load(); lists != 2 || watches != 2 {
			t.Errorf("it counts %d lists and %d watches", lists, watches)
		}
		seen.stop(t)
		state("at its end", sources.Watching)
	})
}

func TestAKindWithoutNamespacesIsWatchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		kind, err := sources.KindOf(scheme.Scheme, &corev1.Node{}, sources.ClusterScoped())
		if err != nil {
			t.Fatal(err)
		}
		client, err := kind.Client(&rest.Config{QPS: -1}, &http.Client{Transport: server})
		if err != nil {
			t.Fatal(err)
		}
		seen := observe(t, sources.Watch(client, kind, sources.WatchOptions{Namespaces: []string{"a", "b"}}))
		if made := server.next(t); made.path != "/api/v1/nodes" {
			t.Errorf("the request is for %s", made.path)
		}
		server.none(t)
		seen.stop(t)
	})
}

func TestWatchOptionsOutOfRangeAreRefusedByName(t *testing.T) {
	for _, test := range []struct {
		options sources.WatchOptions
		want    string
	}{
		{sources.WatchOptions{Namespaces: []string{"a", ""}}, "watch: Namespaces[1] is empty; give a name, or leave Namespaces empty for all"},
		{sources.WatchOptions{Namespaces: []string{"a", "b", "a"}}, `watch: Namespaces names "a" twice; name it once`},
		{sources.WatchOptions{Namespaces: []string{"A_b"}}, `watch: Namespaces[0] is "A_b", which is not a namespace name: a lowercase RFC 1123 label`},
		{sources.WatchOptions{LabelSelector: "app in"}, `watch: LabelSelector is "app in", which is not a selector: `},
		{sources.WatchOptions{FieldSelector: "metadata.name"}, `watch: FieldSelector is "metadata.name", which is not a field selector: `},
		{sources.WatchOptions{First: "a=b=c"}, `watch: First is "a=b=c", which is not a field selector: invalid field selector: unescaped character in value: 61`},
		{sources.WatchOptions{PageSize: -1}, "watch: PageSize is -1; allowed is 1 to 10000, or 0 to stream lists"},
		{sources.WatchOptions{PageSize: 10_001}, "watch: PageSize is 10001; allowed is 1 to 10000, or 0 to stream lists"},
	} {
		err := test.options.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("the error is %v, want %s", err, test.want)
			continue
		}
		panicked := lifecycle.Guard(func() error { sources.Watch(nil, sources.Kind{}, test.options); return nil })
		if panicked == nil || panicked.Error() != "panic: "+err.Error() {
			t.Errorf("Watch panics with %v", panicked)
		}
	}
	good := sources.WatchOptions{Namespaces: []string{"a", "b-1"}, LabelSelector: "app=red,tier in (a, b)", FieldSelector: "metadata.name=x", PageSize: 10_000}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}
