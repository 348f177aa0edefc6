package sources_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/sources"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatIsToBeFirstIsToldBeforeTheListIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{First: "status.phase=", FieldSelector: "metadata.name!=z", PageSize: 7}))
		first := server.next(t).has(t, "watch", "", "limit", "7", "fieldSelector", "metadata.name!=z,status.phase=")
		first.answer(http.StatusOK, page("9", "more", configMap("a", "x", "5")))
		list := server.next(t).has(t, "watch", "", "continue", "", "fieldSelector", "metadata.name!=z")
		same(t, "before the list", seen.emitted(), []string{"Applied a/x @5"})
		list.list("9", configMap("a", "x", "5"), configMap("a", "y", "6"))
		server.next(t).has(t, "watch", "true", "resourceVersion", "9").open()
		same(t, "the list", seen.emitted(), []string{"ListStart @", "Listed a/x @5", "Listed a/y @6", "ListEnd @9"})
		seen.stop(t)
	})
}

func TestAServerThatCannotSelectWhatIsToBeFirstIsAskedForTheListAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{First: "status.phase="}))
		server.next(t).has(t, "limit", "500").refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "field label not supported: status.phase")
		server.next(t).has(t, "sendInitialEvents", "true", "fieldSelector", "").open()
		same(t, "failures", seen.failures(), []string{`watch of ConfigMap: cannot list configmaps in all namespaces: option First "status.phase=": field label not supported: status.phase`})
		seen.stop(t)
	})
}
