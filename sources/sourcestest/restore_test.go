package sourcestest_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// versionAt returns the current version of the server as a number, from a list.
func versionAt(t *testing.T, server *sourcestest.Server) uint64 {
	t.Helper()
	list, err := api(t, server).Resource(configMaps).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	version, err := strconv.ParseUint(list.GetResourceVersion(), 10, 64)
	must(t, err)
	return version
}

func TestARestoredServerIsAsAtItsSnapshotWithLowerVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{})
		must(t, server.Create(configMap("kept", "1")))
		must(t, server.Create(configMap("deleted", "1")))
		taken, then := server.Snapshot(), versionAt(t, server)
		client := api(t, server).Resource(configMaps)

		must(t, server.Update(configMap("kept", "2")))
		must(t, server.Delete(configMap("deleted")))
		must(t, server.Create(configMap("later", "1")))
		page, err := client.List(t.Context(), metav1.ListOptions{Limit: 1})
		must(t, err)
		before := versionAt(t, server)
		opened, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: strconv.FormatUint(before, 10)})
		must(t, err)

		server.Restore(taken)
		if event, open := <-opened.ResultChan(); open {
			t.Errorf("a watch from before the restore sent %v", event)
		}
		if now := versionAt(t, server); now != then || now >= before {
			t.Errorf("the version is %d, was %d at the snapshot and %d before the restore", now, then, before)
		}
		same(t, "state", []string{stored(t, server)["kept"], stored(t, server)["deleted"], stored(t, server)["later"]}, "1", "1", "")
		for name, options := range map[string]metav1.ListOptions{
			"a version of the future": {ResourceVersion: strconv.FormatUint(before, 10)},
			"a page of the future":    {Limit: 1, Continue: page.GetContinue()},
		} {
			if _, err := client.List(t.Context(), options); !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
				t.Errorf("a list of %s: %v", name, err)
			}
		}
		streamed := true
		failing, err := client.Watch(t.Context(), metav1.ListOptions{
			SendInitialEvents: &streamed, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
			ResourceVersion: strconv.FormatUint(before, 10),
		})
		must(t, err)
		if event := <-failing.ResultChan(); event.Type != watch.Error || !apierrors.HasStatusCause(apierrors.FromObject(event.Object), metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("a streamed list at a future version sent %v", event)
		}
		failing.Stop()
		old, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: strconv.FormatUint(then-1, 10)})
		must(t, err)
		if event := <-old.ResultChan(); event.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
			t.Errorf("a watch from before the snapshot sent %v", event)
		}
		old.Stop()

		// Later writes do not change the snapshot.
		must(t, server.Update(configMap("kept", "3")))
		server.Restore(taken)
		if got := stored(t, server)["kept"]; got != "1" {
			t.Errorf("the state after the second restore is %q", got)
		}
	})
}

// A client that resumes from its version gets nothing until the server's versions have caught up.
// The watch does not show that the server was set back.
func TestAWatchOfTheFutureSkipsEventsAndBookmarksUpToItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{Bookmarks: time.Second})
		future := versionAt(t, server) + 2
		opened, err := api(t, server).Resource(configMaps).Watch(t.Context(), metav1.ListOptions{
			ResourceVersion: strconv.FormatUint(future, 10), AllowWatchBookmarks: true,
		})
		must(t, err)
		must(t, server.Create(configMap("skipped")))
		pass(t, time.Minute)
		select {
		case event := <-opened.ResultChan():
			t.Errorf("before its version the watch sent %v", event)
		default:
		}
		must(t, server.Create(configMap("skipped too")))
		must(t, server.Create(configMap("seen")))
		event := <-opened.ResultChan()
		if read, is := event.Object.(*unstructured.Unstructured); !is || event.Type != watch.Added || read.GetName() != "seen" {
			t.Errorf("the watch sent %v", event)
		}
		if event := <-opened.ResultChan(); event.Type != watch.Bookmark {
			t.Errorf("the next event is %v", event)
		}
		opened.Stop()
	})
}

func TestAnInstalledKindIsRestoredToo(t *testing.T) {
	server := newServer(t, sourcestest.Options{})
	must(t, server.Create(configMap("a", "1")))
	taken := server.Snapshot()
	must(t, server.Uninstall(configMap("")))
	server.Restore(taken)
	must(t, server.Get(configMap("a")))
}

func TestAServerWithoutBookmarksHasNoStreamedLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{NoBookmarks: true})
		client := api(t, server).Resource(configMaps)
		streamed := true
		_, err := client.Watch(t.Context(), metav1.ListOptions{
			SendInitialEvents: &streamed, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
		})
		failsWith(t, "streaming a list", err, metav1.StatusReasonInvalid)
		opened, err := client.Watch(t.Context(), metav1.ListOptions{AllowWatchBookmarks: true})
		must(t, err)
		pass(t, time.Hour-time.Second)
		must(t, server.Create(configMap("a")))
		if event := <-opened.ResultChan(); event.Type != watch.Added {
			t.Errorf("the watch sent %v", event)
		}
		opened.Stop()

		seen := observe(t, server) // Client-go lists instead.
		same(t, "stream", seen.emitted(t, time.Second), "ListStart ", "Listed a=", "ListEnd ")
		seen.stop(t)
	})
}

func TestAKindMayHaveNoResourceVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{NoResourceVersions: []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}}})
		must(t, server.Create(configMap("a", "1")))
		client := api(t, server).Resource(configMaps)
		list, err := client.List(t.Context(), metav1.ListOptions{})
		must(t, err)
		read, err := client.Namespace("a").Get(t.Context(), "a", metav1.GetOptions{})
		must(t, err)
		opened, err := client.Watch(t.Context(), metav1.ListOptions{AllowWatchBookmarks: true})
		must(t, err)
		event := <-opened.ResultChan()
		watched, is := event.Object.(*unstructured.Unstructured)
		if !is || len(list.Items) != 1 {
			t.Fatalf("listed %v, watched %v", list, event)
		}
		versions := []string{list.GetResourceVersion(), list.Items[0].GetResourceVersion(), read.GetResourceVersion(), watched.GetResourceVersion()}
		same(t, "versions", versions, "", "", "", "")
		opened.Stop()

		secrets, err := api(t, server).Resource(configMaps.GroupVersion().WithResource("secrets")).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		if secrets.GetResourceVersion() == "" {
			t.Error("another kind has no versions either")
		}
	})
}
