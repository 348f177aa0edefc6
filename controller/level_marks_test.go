package controller_test

import (
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
)

// No bookmark confirms the version that was current at the reconnection, and the next probe is
// more than a minute away. Only an event can raise the level.
func TestAnEventAfterALossMakesAServerWithoutBookmarksCurrentAtOnce(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{NoBookmarks: true}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		w.begin()
		w.reach(cache.Converged, time.Second)
		w.wait(5 * time.Second) // A watch that lasted longer than a second is resumed.
		w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Disconnect, Verb: "watch"}))
		w.server.Break()
		w.must(w.server.Create(secret("others"))) // This raises the server's version.
		w.wait(time.Second)
		w.below(cache.Current, "after the failure")
		w.wait(2 * time.Second) // The watch is connected again.
		w.change("x")
		w.reach(cache.Settled, time.Second)
		w.isTrue("when it is settled")
	})
}

// The kinds of the added controller are Current before its map function returns.
func TestNothingIsSettledWhileAMapFunctionIsAskedAsAControllerJoins(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		w.must(w.server.Create(secret("y")))
		w.must(w.manager.Add("both", w.noting, controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Secret{})))
		w.run()
		w.reach(cache.Settled, time.Second)
		w.must(w.manager.Add("later", nothing, controller.For(&corev1.ConfigMap{}), controller.Watches(&corev1.Secret{}, slowly(time.Minute))))
		for range 59 {
			w.wait(time.Second)
			w.below(cache.Settled, "while a controller joins")
		}
		w.reach(cache.Settled, 20*time.Minute) // The loop duration is a minute.
	})
}
