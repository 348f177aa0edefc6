package controller_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Each case loses the server in another way. Within the bound, either the level falls below
// Current or the cache matches the server. When the fault has ended, the level rises again, and
// the cache matches.
func TestAServerThatConfirmsNothingTakesTheLevelDownWithinTheBound(t *testing.T) {
	hang := func(verb string, nth int) sourcestest.Fault {
		return sourcestest.Fault{Action: sourcestest.Hang, Verb: verb, Nth: nth, Times: sourcestest.Always}
	}
	for name, lose := range map[string]func(w *levelWorld){
		"every request hangs": func(w *levelWorld) {
			w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Hang, Times: sourcestest.Always}))
			w.server.Break()
		},
		"the watch that is opened again hangs": func(w *levelWorld) {
			w.must(w.server.Inject(hang("watch", 1)))
			w.server.Break()
		},
		"the list after 410 hangs": func(w *levelWorld) {
			w.must(w.server.Inject(hang("list", 1)))
			w.server.Compact()
			w.change("x0")
			w.server.Compact()
			w.server.Break()
		},
		"the second page of the list after 410 hangs": func(w *levelWorld) {
			w.must(w.server.Inject(hang("list", 2)))
			w.change("x0")
			w.server.Compact()
			w.server.Break()
		},
		"503 with Retry-After on everything": func(w *levelWorld) {
			w.must(w.server.Inject(retryAfterAll))
			w.server.Break()
		},
		"connections are refused": func(w *levelWorld) {
			w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Disconnect, Times: sourcestest.Always}))
			w.server.Break()
		},
		"the watch is silent, and requests hang": func(w *levelWorld) {
			w.server.Silence()
			w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Hang, Times: sourcestest.Always}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLevelWorld(t, sourcestest.Options{}, controller.Options{PageSize: 10}, func(w *levelWorld) {
				for i := range 30 {
					w.create(fmt.Sprint("x", i))
				}
				w.begin()
				w.reach(cache.Converged, time.Second)
				w.wait(30 * time.Second)
				lose(w)
				w.wait(time.Second)
				w.change("x1")
				w.create("new")
				for _, later := range []time.Duration{bound, time.Hour} {
					if w.wait(later); w.level() >= cache.Current { // It relists, if lists are answered.
						w.isTrue("after " + later.String())
					}
				}
				w.server.Heal()
				w.reach(cache.Settled, 2*bound+time.Second)
				w.isTrue("when it is settled again")
			})
		})
	}
}

func TestAWatchThatFallsSilentForGoodIsNoticedWithinTheBound(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x", "y")
		w.begin()
		w.reach(cache.Converged, time.Second)
		for range 3 {
			w.server.Silence()
			w.change("x")
			w.wait(bound + time.Second)
			if w.level() >= cache.Settled {
				w.isTrue("when it is settled")
			}
			w.reach(cache.Settled, bound)
			w.isTrue("in the end")
		}
		if counts := w.server.Counts(); counts.Watches < 1 {
			t.Errorf("%d watches are open", counts.Watches)
		}
	})
}

// The server is idle, and sends a bookmark a minute. Only when a watch has ended, every 5 to 10
// minutes, may the next bookmark come later. Real servers send one before the end as well.
func TestAQuietServerThatSendsBookmarksIsHardlyAsked(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		w.begin()
		w.reach(cache.Converged, time.Second)
		before := w.server.Counts().Requests["list configmaps"]
		for range 60 {
			w.wait(time.Minute)
			if level := w.level(); level != cache.Converged {
				t.Fatalf("the level is %v", level)
			}
		}
		if after := w.server.Counts().Requests["list configmaps"]; after-before > 12 {
			t.Errorf("in an idle hour it was asked %d times", after-before)
		}
	})
}

// A server without bookmarks is probed for its current version three times in four minutes, and
// the level stays.
func TestAQuietServerWithoutBookmarksKeepsItsLevel(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{NoBookmarks: true}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		w.begin()
		w.reach(cache.Converged, time.Second)
		before := w.server.Counts().Requests["list configmaps"]
		for range 360 {
			w.wait(10 * time.Second)
			if level := w.level(); level != cache.Converged {
				t.Fatalf("the level is %v", level)
			}
		}
		if asked := w.server.Counts().Requests["list configmaps"] - before; asked > 54 || asked < 40 {
			t.Errorf("in an hour it was asked %d times", asked)
		}
	})
}

// Writes to other kinds raise the version of the cluster, and the watch of this kind does not
// report that.
func TestAServerWithoutBookmarksStaysCurrentWhileOthersWrite(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{NoBookmarks: true}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		w.begin()
		w.reach(cache.Converged, time.Second)
		for i := range 360 {
			w.must(w.server.Create(secret(fmt.Sprint("s", i))))
			w.wait(10 * time.Second)
			if level := w.level(); level < cache.Current {
				t.Fatalf("the level is %v", level)
			}
		}
		w.isTrue("in the end")
	})
}

func TestAServerWithoutBookmarksIsCurrentAgainAfterAFailedRequest(t *testing.T) {
	for name, after := range map[string]func(w *levelWorld){
		"with newer events": func(w *levelWorld) { w.change("x") },
		"with none":         func(*levelWorld) {},
	} {
		t.Run(name, func(t *testing.T) {
			inLevelWorld(t, sourcestest.Options{NoBookmarks: true}, controller.Options{}, func(w *levelWorld) {
				w.create("x")
				w.begin()
				w.reach(cache.Converged, time.Second)
				w.wait(30 * time.Second) // A watch that lasted longer than a second is resumed.
				w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Disconnect, Verb: "watch"}))
				w.server.Break()
				w.must(w.server.Create(secret("others"))) // This raises the server's version.
				w.wait(time.Second)
				w.below(cache.Current, "after the failure")
				w.wait(20 * time.Second) // The watch is connected again.
				after(w)
				w.reach(cache.Settled, bound)
				w.isTrue("when it is settled")
				before := w.count()
				w.must(w.manager.Add("later", w.noting, controller.For(&corev1.ConfigMap{})))
				w.wait(time.Second)
				if w.count() == before {
					t.Error("a controller that was added later has not reconciled")
				}
			})
		})
	}
}

// After the restore, versions are lower, and the server has the objects and states of the backup
// again.
func TestAClusterThatWasRestoredFromABackupReplacesAllThatWasHeld(t *testing.T) {
	for name, pages := range map[string]int{"lists in pages": 0, "lists that stream": -1} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, watch open %v", name, open), func(t *testing.T) {
				inLevelWorld(t, sourcestest.Options{}, controller.Options{PageSize: pages}, func(w *levelWorld) {
					w.create("kept", "changed", "deleted")
					backup := w.server.Snapshot()
					w.begin()
					w.reach(cache.Converged, time.Second)
					w.change("changed")
					w.create("gone")
					w.must(w.server.Delete(config("deleted")))
					w.reach(cache.Settled, bound)
					w.wait(30 * time.Second)
					w.server.Restore(backup)
					w.wait(bound + time.Second)
					if w.level() >= cache.Current {
						w.isTrue("at level Current")
					}
					w.reach(cache.Settled, 2*bound)
					w.isTrue("when it is settled")
					w.change("kept")
					w.create("new")
					w.wait(time.Second)
					w.reach(cache.Settled, bound)
					w.isTrue("with what came after it")
				})
			})
		}
	}
}

// An answer that is no list of config maps must not be taken for an empty list.
func TestAListAnsweredWithNonsenseRemovesNothingAndIsAFailure(t *testing.T) {
	for name, answer := range map[string]struct{ contentType, body string }{
		"HTML of a proxy":             {"text/html", "<html>please log in</html>"},
		"HTML that calls itself JSON": {"application/json", "<html>please log in</html>"},
		"an empty object":             {"application/json", "{}"},
		"null":                        {"application/json", "null"},
		"another kind's list":         {"application/json", `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"99"},"items":[]}`},
		"a Status of success":         {"application/json", `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`},
		"nothing":                     {"application/json", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
				w.create("x", "y")
				w.begin()
				w.reach(cache.Converged, time.Second)
				w.wait(30 * time.Second)
				w.must(w.server.Inject(sourcestest.Fault{
					Action: sourcestest.Answer, Verb: "list", Times: sourcestest.Always, ContentType: answer.contentType, Body: answer.body,
				}))
				w.change("x")
				w.server.Compact()
				w.server.Break()
				w.wait(5 * time.Minute)
				if _, found := cached[*corev1.ConfigMap](w.manager.Client(), types.NamespacedName{Namespace: "a", Name: "y"}); !found {
					t.Error("the object is gone from the cache")
				}
				w.below(cache.Current, "without a list")
				w.mu.Lock()
				if len(w.failed) == 0 {
					t.Error("no failure was reported")
				}
				w.mu.Unlock()
				w.server.Heal()
				w.reach(cache.Settled, 2*bound)
				w.isTrue("in the end")
			})
		})
	}
}

func TestAnErrorEventOnAWatchIsAFailure(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		w.begin()
		w.reach(cache.Converged, time.Second)
		w.wait(30 * time.Second)
		w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Fail, Code: http.StatusInternalServerError}))
		w.change("x")
		w.wait(time.Second)
		w.mu.Lock()
		if len(w.failed) != 1 {
			t.Errorf("the failures are %q, want one", w.failed)
		}
		w.mu.Unlock()
		w.reach(cache.Settled, bound)
		w.isTrue("in the end")
	})
}

// The server accepts the request for a streamed list, sends a part of it, and falls silent.
func TestAListThatStopsStreamingInIsAskedForAnew(t *testing.T) {
	silent := sourcestest.Fault{Action: sourcestest.Silence, Nth: 2}
	inLevelWorld(t, sourcestest.Options{Script: []sourcestest.Fault{silent}}, controller.Options{PageSize: -1}, func(w *levelWorld) {
		w.create("x", "y", "z")
		w.begin()
		w.wait(time.Minute)
		w.below(cache.Listed, "without a list")
		w.reach(cache.Settled, bound)
		w.isTrue("when it is settled")
	})
}

// A map function that hangs stops the pipeline, so that no newer confirmation reaches the cache.
func TestAMapFunctionThatHangsTakesTheLevelDownWithinTheBound(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		done := make(chan struct{})
		hangs := func(streams.Object) []types.NamespacedName { <-done; return nil }
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.Secret{}), controller.Watches(&corev1.ConfigMap{}, hangs)))
		w.run()
		w.reach(cache.Settled, time.Second)
		w.create("x")
		w.wait(bound + time.Second)
		w.below(cache.Current, "with a pipeline that stands still")
		close(done)
		w.reach(cache.Settled, time.Hour)
	})
}
