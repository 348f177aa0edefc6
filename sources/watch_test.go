package sources_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestAWatchListsByStreamingAndGoesOnWithEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		connection := server.next(t).has(t, "watch", "true", "sendInitialEvents", "true", "allowWatchBookmarks", "true",
			"resourceVersionMatch", "NotOlderThan", "resourceVersion", "").open()
		connection.send(t, "ADDED", configMap("a", "y", "3"))
		connection.send(t, "ADDED", configMap("a", "x", "5"))
		same(t, "before the list is complete", seen.emitted(), nil)
		connection.listed(t, "8")
		same(t, "the list", seen.emitted(), []string{"ListStart @", "Listed a/x @5", "Listed a/y @3", "ListEnd @8"})

		pass(t, time.Minute)
		connection.send(t, "ADDED", configMap("b", "z", "9"))
		connection.send(t, "MODIFIED", configMap("a", "x", "10"))
		connection.send(t, "DELETED", configMap("a", "y", "11"))
		connection.send(t, "BOOKMARK", configMap("", "", "12"))
		for _, event := range seen.events {
			if event.Key.Kind != "ConfigMap" || event.Key.Group != "" || event.Source != "watch of ConfigMap" {
				t.Errorf("an event has the key %v and the source %q", event.Key, event.Source)
			}
			if !event.Received.Equal(time.Now()) {
				t.Errorf("%v was received at %v, want %v", event.Type, event.Received, time.Now())
			}
		}
		same(t, "events", seen.emitted(), []string{"Applied b/z @9", "Applied a/x @10", "Deleted a/y @11", "Bookmark @12"})
		same(t, "failures", seen.failures(), nil)
		seen.stop(t)
	})
}

func TestAWatchListsPlainlyWhereTheServerCannotStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		server.next(t).has(t, "sendInitialEvents", "true").
			refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents: Forbidden")
		server.next(t).has(t, "watch", "", "limit", "1", "resourceVersion", "").list("7")
		server.next(t).has(t, "watch", "", "resourceVersion", "0").list("6", configMap("a", "x", "5"))
		connection := server.next(t).has(t, "watch", "true", "sendInitialEvents", "", "resourceVersion", "6").open()
		same(t, "the list", seen.emitted(), []string{"ListStart @7", "Listed a/x @5", "ListEnd @6"})
		connection.send(t, "BOOKMARK", configMap("", "", "8"))
		same(t, "events", seen.emitted(), []string{"Bookmark @8"})
		same(t, "failures", seen.failures(), nil) // Falling back to a plain list is not a failure.
		seen.stop(t)
	})
}

// The list that replaces a broken stream comes from the server's cache, which may be stale.
func TestBeforeThePlainListThatTakesThePlaceOfABrokenStreamTheVersionIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		broken := server.next(t).has(t, "sendInitialEvents", "true").open()
		broken.send(t, "ADDED", configMap("a", "x", "5"))
		broken.send(t, "ERROR", failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "cannot stream"))
		server.next(t).has(t, "watch", "", "limit", "1", "resourceVersion", "").list("7")
		server.next(t).has(t, "watch", "", "resourceVersion", "0").list("6", configMap("a", "x", "5"))
		server.next(t).has(t, "watch", "true", "sendInitialEvents", "", "resourceVersion", "6").open()
		same(t, "the list", seen.emitted(), []string{"ListStart @7", "Listed a/x @5", "ListEnd @6"})
		same(t, "failures", seen.failures(), nil)
		seen.stop(t)
	})
}

func TestALongPlainListComesInPagesAndIsOneList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		server.next(t).refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "no")
		server.next(t).list("7")
		first := server.next(t).has(t, "limit", "500", "continue", "")
		first.answer(http.StatusOK, page("9", "more", configMap("a", "x", "5")))
		second := server.next(t).has(t, "limit", "500", "continue", "more")
		second.answer(http.StatusOK, page("9", "", configMap("a", "y", "6")))
		server.next(t).has(t, "watch", "true", "resourceVersion", "9").open()
		same(t, "the list", seen.emitted(), []string{"ListStart @7", "Listed a/x @5", "Listed a/y @6", "ListEnd @9"})
		seen.stop(t)
	})
}

func TestByOptionAListComesInPagesAndIsNotStreamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{PageSize: 2}))
		var log []string
		next := func() *request {
			made := server.next(t)
			line := ""
			for _, parameter := range []string{"watch", "limit", "continue", "resourceVersion", "sendInitialEvents"} {
				if value := made.query.Get(parameter); value != "" {
					line += " " + parameter + "=" + value
				}
			}
			log = append(log, line)
			return made
		}
		next().answer(http.StatusOK, page("19", "more", configMap("a", "x", "5")))
		next().answer(http.StatusOK, page("19", "", configMap("a", "y", "6")))
		connection := next().open()
		same(t, "the list", seen.emitted(), []string{"ListStart @", "Listed a/x @5", "Listed a/y @6", "ListEnd @19"})
		connection.send(t, "ERROR", failure(http.StatusGone, metav1.StatusReasonExpired, "too old"))
		next().list("21", configMap("a", "y", "6"))
		next().open()
		same(t, "the new list", seen.emitted(), []string{"ListStart @", "Listed a/y @6", "ListEnd @21"})
		same(t, "requests", log, []string{
			" limit=2", " limit=2 continue=more", " watch=true resourceVersion=19",
			" limit=2", " watch=true resourceVersion=21"})
		same(t, "failures", seen.failures(), nil)
		seen.stop(t)
	})
}

func TestAConnectionThatIsCutIsResumedWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		connection := started(t, server, "8", configMap("a", "x", "5"))
		seen.emitted()
		for _, step := range []struct{ kind, version, emitted string }{
			{"MODIFIED", "9", "Applied a/x @9"},
			{"BOOKMARK", "20", "Bookmark @20"},
			{"DELETED", "21", "Deleted a/x @21"},
		} {
			object := configMap("a", "x", step.version)
			if step.kind == "BOOKMARK" {
				object = configMap("", "", step.version)
			}
			connection.send(t, step.kind, object)
			connection.cut()
			before := time.Now()
			connection = server.next(t).has(t, "watch", "true", "resourceVersion", step.version, "sendInitialEvents", "").open()
			if time.Since(before) > 0 {
				t.Errorf("it resumed after %v, want at once", time.Since(before))
			}
			same(t, "events", seen.emitted(), []string{step.emitted})
		}
		same(t, "failures", seen.failures(), nil)
		seen.stop(t)
	})
}

func TestAVersionThatIsGoneLeadsToANewList(t *testing.T) {
	for name, gone := range map[string]func(*testing.T, *server, *connection){
		"by status": func(t *testing.T, server *server, connection *connection) {
			connection.cut()
			server.next(t).has(t, "resourceVersion", "9").refuse(http.StatusGone, metav1.StatusReasonExpired, "too old")
		},
		"by event": func(t *testing.T, _ *server, connection *connection) {
			connection.send(t, "ERROR", failure(http.StatusGone, metav1.StatusReasonExpired, "too old"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer()
				seen := observe(t, watching(t, server, sources.WatchOptions{}))
				connection := started(t, server, "8", configMap("a", "x", "5"), configMap("a", "y", "6"))
				connection.send(t, "MODIFIED", configMap("a", "x", "9"))
				seen.emitted()
				gone(t, server, connection)

				server.next(t).has(t, "watch", "", "limit", "1").list("29")
				again := server.next(t).has(t, "sendInitialEvents", "true", "resourceVersion", "9").open()
				again.send(t, "ADDED", configMap("a", "x", "30"))
				again.listed(t, "31")
				same(t, "the list", seen.emitted(), []string{"ListStart @29", "Listed a/x @30", "ListEnd @31"})
				same(t, "failures", seen.failures(), nil) // An expired version is normal.
				again.send(t, "ADDED", configMap("a", "z", "32"))
				same(t, "events", seen.emitted(), []string{"Applied a/z @32"})
				seen.stop(t)
			})
		})
	}
}

// If the server does not have the version that the list should reach, the watch lists again without
// a version.
func TestANewListThatIsRefusedAsExpiredIsAskedForAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		started(t, server, "8").send(t, "ERROR", failure(http.StatusGone, metav1.StatusReasonExpired, "too old"))
		server.next(t).list("30")
		server.next(t).has(t, "sendInitialEvents", "true", "resourceVersion", "8").
			refuse(http.StatusGone, metav1.StatusReasonExpired, "too old")
		again := server.next(t).has(t, "sendInitialEvents", "true", "resourceVersion", "").open()
		again.listed(t, "40")
		same(t, "events", seen.emitted(), []string{"ListStart @", "ListEnd @8", "ListStart @", "ListEnd @40"})
		same(t, "failures", seen.failures(), nil)
		seen.stop(t)
	})
}

func TestTransformIsAppliedToAllThatEntersTheStream(t *testing.T) {
	keep := func(object streams.Object) { delete(object.(*corev1.ConfigMap).Data, "dropped") }
	check := func(t *testing.T, seen *observation, want int) {
		t.Helper()
		synctest.Wait()
		objects := 0
		for _, event := range seen.events {
			if event.Object == nil {
				continue
			}
			objects++
			if data := event.Object.(*corev1.ConfigMap).Data; len(data) != 1 || data["kept"] != "yes" {
				t.Errorf("%v of %v holds %v", event.Type, event.Key, data)
			}
			if len(event.Object.GetManagedFields()) != 1 {
				t.Errorf("the default is applied in addition to the caller's Transform")
			}
		}
		if objects != want {
			t.Errorf("%d objects, want %d", objects, want)
		}
		seen.events = nil
	}
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{Transform: keep}))
		connection := started(t, server, "8", configMap("a", "x", "5"))
		for _, kind := range []string{"ADDED", "MODIFIED", "DELETED"} {
			connection.send(t, kind, configMap("a", "x", "9"))
		}
		check(t, seen, 4)
		seen.stop(t)

		seen = observe(t, watching(t, server, sources.WatchOptions{Transform: keep}))
		server.next(t).refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "no")
		server.next(t).list("7")
		server.next(t).list("8", configMap("a", "x", "5"))
		check(t, seen, 1)
		seen.stop(t)
	})
}

func TestManagedFieldsAreDroppedByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		started(t, server, "8", configMap("a", "x", "5")).send(t, "DELETED", configMap("a", "x", "9"))
		objects := 0
		for _, event := range seen.events {
			if event.Object != nil {
				objects++
				if len(event.Object.GetManagedFields()) > 0 || event.Object.(*corev1.ConfigMap).Data["dropped"] != "yes" {
					t.Errorf("%v holds %v", event.Type, event.Object)
				}
			}
		}
		if objects != 2 {
			t.Errorf("%d objects, want 2", objects)
		}
		kind, err := sources.KindOf(scheme.Scheme, &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		own, err := sources.AsWatched(kind, sources.WatchOptions{}, configMap("a", "x", "10"))
		if err != nil || len(own.GetManagedFields()) > 0 {
			t.Errorf("AsWatched differs from the watch: %v", err)
		}
		seen.stop(t)
	})
}

func TestEachObservationIsAWatchOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		stream := watching(t, server, sources.WatchOptions{})
		server.none(t) // The stream is not observed yet.
		first := observe(t, stream)
		started(t, server, "8", configMap("a", "x", "5"))
		second := observe(t, stream)
		connection := started(t, server, "18", configMap("a", "x", "15"))
		first.stop(t)
		connection.send(t, "DELETED", configMap("a", "x", "19"))
		same(t, "the first", first.emitted(), []string{"ListStart @", "Listed a/x @5", "ListEnd @8"})
		same(t, "the second", second.emitted(), []string{"ListStart @", "Listed a/x @15", "ListEnd @18", "Deleted a/x @19"})
		second.stop(t)
	})
}

func TestARequestNamesTheNamespaceAndTheSelectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{
			Namespaces: []string{"a"}, LabelSelector: "app=red", FieldSelector: "metadata.name=x",
		}))
		check := func(made *request) *request {
			t.Helper()
			if made.path != "/api/v1/namespaces/a/configmaps" {
				t.Errorf("the path is %s", made.path)
			}
			return made.has(t, "labelSelector", "app=red", "fieldSelector", "metadata.name=x")
		}
		check(server.next(t).has(t, "watch", "true")).refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "no")
		check(server.next(t).has(t, "limit", "1")).list("7")
		check(server.next(t)).list("8")
		check(server.next(t).has(t, "watch", "true")).open()
		seen.stop(t)
	})
}
