package sources_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func busy(made *request) {
	made.refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "busy")
}

// aged returns a watch at version 8 that has been open for a minute. After a watch that ends at
// once, the reflector would relist.
func aged(t *testing.T, server *server, objects ...*corev1.ConfigMap) *connection {
	t.Helper()
	connection := started(t, server, "8", objects...)
	pass(t, time.Minute)
	return connection
}

func TestALostServerIsToldOnceAndItsReturnWithTheVersionThatIsCurrentThen(t *testing.T) {
	for name, lose := range map[string]func(*request){"unreachable": (*request).unreachable, "busy": busy} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, status := newServer(), &sources.Status{}
				seen := observe(t, watching(t, server, sources.WatchOptions{Status: status}))
				aged(t, server, configMap("a", "x", "5")).cut()
				seen.emitted()
				lose(server.next(t).has(t, "watch", "true"))
				same(t, "at the first failure", seen.emitted(), []string{"Disconnected @"})
				if state := sources.WatchState(status.State.Load()); state != sources.BackingOff {
					t.Errorf("it is %v", state)
				}
				lose(server.next(t).has(t, "watch", "", "limit", "1"))
				server.next(t).list("30") // The server is back.
				lose(server.next(t).has(t, "watch", "true"))
				same(t, "at further failures", seen.emitted(), nil)
				if failed := seen.failures(); len(failed) != 3 || status.Errors.Load() != 3 {
					t.Errorf("after 3 failed requests, %d are counted, and the failures are %q", status.Errors.Load(), failed)
				}
				server.next(t).list("31")
				connection := server.next(t).has(t, "watch", "true", "resourceVersion", "8").open()
				connection.send(t, "MODIFIED", configMap("a", "x", "20"))
				same(t, "afterwards", seen.emitted(), []string{"Connected @31", "Applied a/x @20"})
				if state := sources.WatchState(status.State.Load()); state != sources.Watching {
					t.Errorf("it is %v", state)
				}
				connection.cut()
				lose(server.next(t))
				same(t, "when it is lost again", seen.emitted(), []string{"Disconnected @"})
				seen.stop(t)
			})
		})
	}
}

func TestANewListTakesThePlaceOfConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		aged(t, server, configMap("a", "x", "5")).cut()
		missing := func(made *request) { made.refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "no") }
		missing(server.next(t).has(t, "watch", "true"))
		missing(server.next(t).has(t, "watch", "", "limit", "1"))
		server.next(t).has(t, "watch", "", "limit", "1").list("39")
		connection := server.next(t).has(t, "sendInitialEvents", "true", "resourceVersion", "8").open()
		connection.listed(t, "40")
		same(t, "events", seen.emitted(), []string{
			"ListStart @", "Listed a/x @5", "ListEnd @8", "Disconnected @", "ListStart @39", "ListEnd @40"})
		pass(t, time.Minute)
		connection.cut()
		connection = server.next(t).has(t, "watch", "true").open()
		same(t, "when it goes on", seen.emitted(), nil)
		pass(t, time.Minute)
		connection.cut()
		missing(server.next(t))
		same(t, "when it is lost again", seen.emitted(), []string{"Disconnected @"})
		seen.stop(t)
	})
}

func TestAWatchThatTimesOutIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		connection := started(t, server, "8")
		seen.emitted()
		for range 3 {
			pass(t, 7*time.Minute)
			connection.send(t, "BOOKMARK", configMap("", "", "9"))
			connection.cut()
			connection = server.next(t).has(t, "watch", "true", "resourceVersion", "9").open()
		}
		same(t, "events", seen.emitted(), []string{"Bookmark @9", "Bookmark @9", "Bookmark @9"})
		seen.stop(t)
	})
}

func TestBeforeTheFirstListThereIsNothingToLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		server.next(t).unreachable()
		server.next(t).unreachable()
		same(t, "events", seen.emitted(), nil)
		if failed := seen.failures(); len(failed) != 2 {
			t.Errorf("after 2 failed requests, the failures are %q", failed)
		}
		seen.stop(t)
	})
}

func TestTheLossIsToldBeforeTheFailureThatShowedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		var order []string
		group := lifecycle.New(t.Context())
		stream := watching(t, server, sources.WatchOptions{Namespaces: []string{"a"}})
		group.Go("observer", func(ctx context.Context) error {
			return streams.ForEach(ctx, stream, func(events []streams.Event) {
				for _, event := range events {
					order = append(order, fmt.Sprintf("%v %v %s", event.Type, event.Key, event.Source))
				}
			}, func(err error) { order = append(order, err.Error()) })
		})
		aged(t, server).cut()
		server.next(t).refuse(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "no")
		synctest.Wait()
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		same(t, "all", order, []string{
			"ListStart ConfigMap a/ watch of ConfigMap in a",
			"ListEnd ConfigMap a/ watch of ConfigMap in a",
			"Disconnected ConfigMap a/ watch of ConfigMap in a",
			"watch of ConfigMap in a: cannot watch configmaps in namespace a: no",
		})
	})
}

// Before it retries an unreachable server, the reflector waits in a way that nothing interrupts.
// The source must keep it from doing so.
func TestAnObservationEndsAtOnceWhileTheServerIsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		for range 8 {
			server.next(t).has(t, "sendInitialEvents", "true").unreachable()
		}
		synctest.Wait()
		before := time.Now()
		seen.stop(t)
		if waited := time.Since(before); waited > 0 {
			t.Errorf("it ended %v later", waited)
		}
	})
}
