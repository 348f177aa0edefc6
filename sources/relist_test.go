package sources_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// expired answers as a server does whose history no longer has the requested version.
func expired(made *request) {
	made.refuse(http.StatusGone, metav1.StatusReasonExpired, "too old")
}

// tooLarge answers as an API server does that has not seen a version yet.
func tooLarge(made *request) {
	made.answer(http.StatusGatewayTimeout, io.NopCloser(bytes.NewReader(encoded(&metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout,
		Message: "Too large resource version",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}},
	}))))
}

func TestWhatChangesWhileAListStreamsInIsInTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		connection := server.next(t).has(t, "sendInitialEvents", "true").open()
		connection.send(t, "ADDED", configMap("a", "x", "1"))
		connection.send(t, "ADDED", configMap("a", "y", "2"))
		connection.send(t, "MODIFIED", configMap("a", "x", "3"))
		connection.send(t, "ADDED", configMap("a", "z", "4"))
		connection.send(t, "DELETED", configMap("a", "z", "5"))
		connection.listed(t, "5")
		same(t, "the list", seen.emitted(), []string{"ListStart @", "Listed a/x @3", "Listed a/y @2", "ListEnd @5"})
		same(t, "failures", seen.failures(), nil)
		seen.stop(t)
	})
}

func TestOnlyTheBookmarkThatSaysSoEndsAListThatStreamsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		connection := server.next(t).has(t, "sendInitialEvents", "true").open()
		connection.send(t, "ADDED", configMap("a", "x", "1"))
		connection.send(t, "BOOKMARK", configMap("", "", "2"))
		no := configMap("", "", "3")
		no.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "false"}
		connection.send(t, "BOOKMARK", no)
		same(t, "before the end", seen.emitted(), nil)
		connection.listed(t, "4")
		same(t, "the list", seen.emitted(), []string{"ListStart @", "Listed a/x @1", "ListEnd @4"})
		seen.stop(t)
	})
}

func TestAListThatBreaksOffWhileItStreamsInIsAskedForAnewAndNoPartOfItTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		broken := server.next(t).has(t, "sendInitialEvents", "true").open()
		broken.send(t, "ADDED", configMap("a", "gone", "1"))
		pass(t, 2*time.Second) // After a stream that ends at once, the reflector assumes that the server cannot stream.
		broken.cut()
		again := server.next(t).has(t, "watch", "true", "sendInitialEvents", "true", "resourceVersion", "").open()
		again.send(t, "ADDED", configMap("a", "x", "3"))
		again.listed(t, "3")
		same(t, "the list", seen.emitted(), []string{"ListStart @", "Listed a/x @3", "ListEnd @3"})
		seen.stop(t)
	})
}

func TestABusyServerIsAskedForTheStreamAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		for range 2 {
			busy(server.next(t).has(t, "watch", "true", "sendInitialEvents", "true"))
		}
		connection := server.next(t).has(t, "watch", "true", "sendInitialEvents", "true").open()
		connection.send(t, "ADDED", configMap("a", "x", "1"))
		connection.listed(t, "2")
		same(t, "the list", seen.emitted(), []string{"ListStart @", "Listed a/x @1", "ListEnd @2"})
		seen.stop(t)
	})
}

// After a TooManyRequests error the watch has to wait, not relist.
func TestAWatchThatIsEndedAsTooManyIsResumedAfterAWaitWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		connection := aged(t, server, configMap("a", "x", "5"))
		seen.emitted()
		before := time.Now()
		connection.send(t, "ERROR", failure(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "busy"))
		resumed := server.next(t)
		if resumed.query.Get("watch") == "" { // The source may ask for the current version.
			resumed.has(t, "limit", "1").list("9")
			resumed = server.next(t)
		}
		resumed.has(t, "watch", "true", "sendInitialEvents", "", "resourceVersion", "8")
		if waited := time.Since(before); waited < 200*time.Millisecond {
			t.Errorf("it resumed after %v, want a wait", waited)
		}
		resumed.open().send(t, "MODIFIED", configMap("a", "x", "9"))
		emitted := seen.emitted()
		if slices.Contains(emitted, "ListStart @") || !slices.Contains(emitted, "Applied a/x @9") {
			t.Errorf("the events are %q, want no list, and the missed event", emitted)
		}
		seen.stop(t)
	})
}

// An object that cannot be decoded in the API server's storage, and is deleted there unsafely, ends
// a watch this way. Only a relist shows its deletion.
func TestAWatchThatIsEndedByAnErrorOfTheStorageListsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		connection := aged(t, server, configMap("a", "x", "5"), configMap("a", "corrupt", "6"))
		seen.emitted()
		connection.send(t, "ERROR", failure(http.StatusInternalServerError, metav1.StatusReasonStoreReadError, "corrupt object has been deleted"))
		server.next(t).has(t, "watch", "", "limit", "1").list("9")
		again := server.next(t).has(t, "sendInitialEvents", "true", "resourceVersion", "8").open()
		again.send(t, "ADDED", configMap("a", "x", "5"))
		again.listed(t, "9")
		emitted := seen.emitted()
		same(t, "the list", emitted[max(0, len(emitted)-3):], []string{"ListStart @9", "Listed a/x @5", "ListEnd @9"})
		seen.stop(t)
	})
}

// A server may be behind the one before it, for example after a failover. It is asked for a list
// without a version.
func TestAVersionThatTheServerHasNotSeenLeadsToAListOfWhatThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		connection := aged(t, server, configMap("a", "x", "5"))
		seen.emitted()
		connection.send(t, "ERROR", failure(http.StatusGone, metav1.StatusReasonExpired, "too old"))
		server.next(t).has(t, "limit", "1").list("7")
		tooLarge(server.next(t).has(t, "sendInitialEvents", "true", "resourceVersion", "8"))
		again := server.next(t).has(t, "watch", "true", "sendInitialEvents", "true", "resourceVersion", "").open()
		again.send(t, "ADDED", configMap("a", "x", "5"))
		again.listed(t, "7")
		emitted := seen.emitted()
		same(t, "the list", emitted[max(0, len(emitted)-2):], []string{"Listed a/x @5", "ListEnd @7"})
		seen.stop(t)
	})
}

func TestAListWhoseLaterPageHasExpiredIsAskedForWhole(t *testing.T) {
	for name, options := range map[string]sources.WatchOptions{"in pages": {PageSize: 1}, "instead of a stream": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer()
				seen := observe(t, watching(t, server, options))
				if options.PageSize == 0 {
					server.next(t).refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "no")
					server.next(t).has(t, "limit", "1", "continue", "").list("9")
				}
				first := server.next(t).has(t, "continue", "")
				first.answer(http.StatusOK, page("9", "more", configMap("a", "x", "5")))
				expired(server.next(t).has(t, "continue", "more"))
				server.next(t).has(t, "watch", "", "continue", "", "limit", "").list("12", configMap("a", "x", "5"), configMap("a", "y", "11"))
				server.next(t).has(t, "watch", "true", "resourceVersion", "12").open()
				emitted := seen.emitted()
				same(t, "the list", emitted[1:], []string{"Listed a/x @5", "Listed a/y @11", "ListEnd @12"})
				same(t, "failures", seen.failures(), nil)
				seen.stop(t)
			})
		})
	}
}

// A watch asks the API server for a random timeout. With equal timeouts, all watches of all clients
// that began together would end together, again and again.
func TestAWatchAsksToBeEndedAfterFiveToTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		asked := map[int]bool{}
		check := func(made *request) *request {
			t.Helper()
			seconds, err := strconv.Atoi(made.query.Get("timeoutSeconds"))
			if err != nil || seconds < 300 || seconds > 600 {
				t.Errorf("it requests %q seconds, want 300 to 600", made.query.Get("timeoutSeconds"))
			}
			asked[seconds] = true
			return made
		}
		connection := check(server.next(t).has(t, "sendInitialEvents", "true")).open()
		connection.listed(t, "8")
		for range 9 {
			pass(t, time.Minute)
			connection.send(t, "BOOKMARK", configMap("", "", "9"))
			connection.cut()
			connection = check(server.next(t).has(t, "watch", "true")).open()
		}
		if len(asked) < 2 {
			t.Errorf("ten watches request %v seconds, want different timeouts", asked)
		}
		seen.stop(t)
	})
}

func TestAnEventOfAnotherKindIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		connection := started(t, server, "8")
		seen.emitted()
		connection.send(t, "ADDED", &corev1.Service{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "other", ResourceVersion: "9"},
		})
		connection.send(t, "ADDED", configMap("a", "x", "10"))
		same(t, "events", seen.emitted(), []string{"Applied a/x @10"})
		seen.stop(t)
	})
}

func TestAnObservationThatEndsBeforeItBeginsAsksForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range watching(t, server, sources.WatchOptions{}).Observe(ctx) {
			t.Error("there was an item")
		}
		server.none(t)
	})
}

// A list is decoded into one piece of memory. An object that stays in the cache must not keep
// deleted objects of the same list alive.
func TestAnObjectOfAListDoesNotKeepTheOthersInMemory(t *testing.T) {
	for name, options := range map[string]sources.WatchOptions{"in pages": {PageSize: 500}, "streamed": {}} {
		t.Run(name, func(t *testing.T) {
			var kept streams.Object
			freed := make(chan string, 2)
			synctest.Test(t, func(t *testing.T) {
				server := newServer()
				seen := observe(t, watching(t, server, options))
				objects := []*corev1.ConfigMap{configMap("a", "w", "5"), configMap("a", "x", "6"), configMap("a", "y", "7")}
				if options.PageSize > 0 {
					server.next(t).list("8", objects...)
				} else {
					started(t, server, "8", objects...)
				}
				synctest.Wait()
				for _, event := range seen.events {
					object, is := event.Object.(*corev1.ConfigMap)
					switch {
					case !is:
					case object.Name == "x":
						kept = object
					default:
						runtime.AddCleanup(object, func(name string) { freed <- name }, object.Name)
					}
				}
				seen.events = nil
				seen.stop(t)
			})
			group := lifecycle.New(t.Context())
			group.Go("collector", func(ctx context.Context) error {
				for ctx.Err() == nil {
					runtime.GC()
				}
				return nil
			})
			timeout, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for range 2 {
				select {
				case <-freed:
				case <-timeout.Done():
					t.Error("an object of the list is still in memory")
				}
			}
			group.Stop()
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
			runtime.KeepAlive(kept)
			if kept == nil {
				t.Error("nothing was listed")
			}
		})
	}
}
