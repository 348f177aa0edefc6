package sources_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestARefusedRequestIsToldWithItsVerbAndResource(t *testing.T) {
	for name, test := range map[string]struct {
		options  sources.WatchOptions
		code     int
		reason   metav1.StatusReason
		requests int // in one attempt
		is       func(error) bool
		in       string
		want     string
	}{
		"forbidden": { // A user who may not watch may still list.
			sources.WatchOptions{}, http.StatusForbidden, metav1.StatusReasonForbidden, 2, apierrors.IsForbidden, "",
			"watch of ConfigMap: cannot list configmaps in all namespaces: no way",
		},
		"forbidden, in pages": {
			sources.WatchOptions{PageSize: 5}, http.StatusForbidden, metav1.StatusReasonForbidden, 1, apierrors.IsForbidden, "",
			"watch of ConfigMap: cannot list configmaps in all namespaces: no way",
		},
		"unauthorized, in a namespace": {
			sources.WatchOptions{Namespaces: []string{"a"}}, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, 1, apierrors.IsUnauthorized, "a",
			"watch of ConfigMap in a: cannot list configmaps in namespace a: no way",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, status := newServer(), &sources.Status{}
				test.options.Status = status
				seen := observe(t, watching(t, server, test.options))
				for range test.requests {
					server.next(t).refuse(test.code, test.reason, "no way")
				}
				server.none(t) // The attempt has failed, and another request would fail as well.
				var refused *sources.RequestError
				var reported *streams.Error
				if len(seen.errs) != 1 || !errors.As(seen.errs[0], &refused) || !errors.As(seen.errs[0], &reported) {
					t.Fatalf("the failures are %v", seen.errs)
				}
				if refused.Verb != "list" || refused.Kind.Resource() != "configmaps" || refused.Namespace != test.in || !test.is(refused) {
					t.Errorf("the request was %+v", refused)
				}
				same(t, "failures", seen.failures(), []string{test.want})
				same(t, "events", seen.emitted(), nil)
				if failed := status.Errors.Load(); failed != 1 {
					t.Errorf("%d requests failed, want 1", failed)
				}
				for range test.requests {
					server.next(t).refuse(test.code, test.reason, "no way")
				}
				server.none(t)
				same(t, "failures of the next attempt", seen.failures(), []string{test.want})
				seen.stop(t)
			})
		})
	}
}

func TestAWatchThatIsForbiddenWhereListsAreNotIsToldAsAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		forbidden := func(made *request) { made.refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "no way") }
		forbidden(server.next(t).has(t, "watch", "true"))
		server.next(t).has(t, "watch", "", "limit", "1").list("7")
		server.next(t).has(t, "watch", "", "resourceVersion", "0").list("8", configMap("a", "x", "5"))
		forbidden(server.next(t).has(t, "watch", "true"))
		const want = "watch of ConfigMap: cannot watch configmaps in all namespaces: no way"
		same(t, "failures", seen.failures(), []string{want})
		same(t, "events", seen.emitted(), []string{"ListStart @7", "Listed a/x @5", "ListEnd @8", "Disconnected @"})
		seen.stop(t)
	})
}

// The wait doubles from 250 ms to 8 s. Each wait is lengthened by up to a quarter.
func TestAKindThatDoesNotExistYetIsTriedAgainWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		missing := func(made *request) {
			made.refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
		}
		next := server.next(t)
		for _, least := range []time.Duration{250, 500, 1000, 2000, 4000, 8000, 8000, 8000} {
			least *= time.Millisecond
			missing(next)
			failures := seen.failures()
			if len(failures) != 1 || !strings.Contains(failures[0], "cannot list configmaps in all namespaces: the server could not find") {
				t.Fatalf("the failures are %q", failures)
			}
			before := time.Now()
			next = server.next(t)
			if waited := time.Since(before); waited < least || waited > least*5/4 {
				t.Errorf("it waited %v, want %v to %v", waited, least, least*5/4)
			}
		}
		connection := next.open() // Now the kind exists.
		connection.send(t, "ADDED", configMap("a", "x", "5"))
		connection.listed(t, "8")
		same(t, "events", seen.emitted(), []string{"ListStart @", "Listed a/x @5", "ListEnd @8"})
		same(t, "failures", seen.failures(), nil)
		seen.stop(t)
	})
}

func TestARequestErrorSaysWhereAClusterScopedKindIs(t *testing.T) {
	kind, err := sources.KindOf(scheme.Scheme, &corev1.Node{}, sources.ClusterScoped())
	if err != nil {
		t.Fatal(err)
	}
	err = &sources.RequestError{Verb: "watch", Kind: kind, Err: errors.New("no way")}
	if err.Error() != "cannot watch nodes in the cluster: no way" {
		t.Errorf("the error is %v", err)
	}
}

func TestStatusFollowsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, status := newServer(), &sources.Status{}
		seen := observe(t, watching(t, server, sources.WatchOptions{Status: status}))
		check := func(when string, state sources.WatchState, lists, watches, failed int64) {
			t.Helper()
			synctest.Wait()
			if now := sources.WatchState(status.State.Load()); now != state {
				t.Errorf("%s it is %v, want %v", when, now, state)
			}
			if l, w, e := status.Lists.Load(), status.Watches.Load(), status.Errors.Load(); l != lists || w != watches || e != failed {
				t.Errorf("%s it counts %d lists, %d watches and %d failures, want %d, %d and %d", when, l, w, e, lists, watches, failed)
			}
		}
		check("at first", sources.Listing, 0, 0, 0)
		server.next(t).refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "no")
		check("after a failure", sources.BackingOff, 0, 0, 1)
		made := server.next(t)
		check("when it tries again", sources.Listing, 0, 0, 1)
		connection := made.open()
		connection.send(t, "ADDED", configMap("a", "x", "5"))
		check("while the list streams in", sources.Listing, 0, 1, 1)
		if since, came := status.Silence(); came {
			t.Errorf("the last event came %v ago, want none", since)
		}
		connection.listed(t, "8")
		check("after the list", sources.Watching, 1, 1, 1)
		pass(t, time.Minute)
		connection.send(t, "BOOKMARK", configMap("", "", "9"))
		if since, came := status.Silence(); !came || since != 0 {
			t.Errorf("the last bookmark came %v ago (%v), want now", since, came)
		}
		if since, came := status.Quiet(); !came || since != time.Minute {
			t.Errorf("the last event came %v ago (%v), want a minute", since, came)
		}
		connection.cut()
		connection = server.next(t).open()
		check("after a new connection", sources.Watching, 1, 2, 1)
		connection.send(t, "ERROR", failure(http.StatusGone, metav1.StatusReasonExpired, "too old"))
		server.next(t).list("9")
		again := server.next(t)
		check("during a new list", sources.Listing, 1, 2, 1)
		again.open().listed(t, "10")
		check("after a new list", sources.Watching, 2, 3, 1)
		seen.stop(t)
		check("after its end", sources.Watching, 2, 3, 1) // The end of an observation is not a failure.
	})
}

func TestStatesHaveNamesForMetrics(t *testing.T) {
	names := []string{sources.Listing.String(), sources.Watching.String(), sources.BackingOff.String()}
	same(t, "names", names, []string{"listing", "watching", "backing_off"})
}

// The end of an observation ends its request and all its goroutines, in any state of the watch. The
// bubble checks that.
func TestAnObservationEndsWhateverTheWatchIsDoing(t *testing.T) {
	refused := func(made *request) { made.refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "no") }
	for name, until := range map[string]func(*testing.T, *server) *request{
		"opening a watch": func(t *testing.T, server *server) *request { return server.next(t) },
		"asking which version is current": func(t *testing.T, server *server) *request {
			server.next(t).refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "no")
			return server.next(t).has(t, "limit", "1")
		},
		"waiting for an attempt": func(t *testing.T, server *server) *request {
			refused(server.next(t))
			return nil
		},
		"listing plainly": func(t *testing.T, server *server) *request {
			server.next(t).refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "no")
			server.next(t).list("7")
			return server.next(t)
		},
		"streaming a list": func(t *testing.T, server *server) *request {
			made := server.next(t)
			made.open().send(t, "ADDED", configMap("a", "x", "5"))
			return made
		},
		"watching": func(t *testing.T, server *server) *request {
			made := server.next(t)
			made.open().listed(t, "8")
			return made
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer()
				seen := observe(t, watching(t, server, sources.WatchOptions{}))
				under := until(t, server)
				seen.failures()
				seen.stop(t)
				if under != nil && under.ctx.Err() == nil {
					t.Error("the request continues")
				}
				same(t, "failures at the end", seen.failures(), nil)
				server.none(t)
			})
		})
	}
}

// Client-go's reflector returns while a plain list is in flight, when its context ends.
func TestAnObservationEndsNoSoonerThanItsPlainList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		server.stubborn = true
		seen := observe(t, watching(t, server, sources.WatchOptions{}))
		server.next(t).refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "no")
		server.next(t).list("7")
		under := server.next(t)
		seen.group.Stop()
		synctest.Wait()
		if seen.ended {
			t.Error("the observation has ended, and a request continues")
		}
		under.list("8")
		seen.stop(t)
	})
}

// A panic in the caller's Transform must end neither the process nor the stream. Otherwise other
// objects of the kind would no longer be watched.
func TestAfterAPanicInTransformTheWatchBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		panics := true
		keep := func(streams.Object) {
			if panics {
				panics = false
				panic("boom")
			}
		}
		seen := observe(t, watching(t, server, sources.WatchOptions{Transform: keep}))
		server.next(t).open().send(t, "ADDED", configMap("a", "x", "5"))
		same(t, "failures", seen.failures(), []string{"watch of ConfigMap: panic: boom"})
		if seen.ended {
			t.Error("the observation has ended")
		}
		<-time.After(11 * time.Second)
		connection := server.next(t).open()
		connection.send(t, "ADDED", configMap("a", "x", "5"))
		connection.listed(t, "7")
		same(t, "failures in all", seen.failures(), nil)
		seen.stop(t)
	})
}
