package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEverySideSeesEveryEventOfEveryFeed(t *testing.T) {
	for _, contender := range []side{bellerophon("window0", 0), bellerophon("default", operators.DefaultWindow), clientGo(), generator()} {
		for _, wire := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/wire=%v", contender.name, wire), func(t *testing.T) {
				load := load{kinds: bothKinds, wire: wire, keys: 50, updates: 1000}
				var served *world
				var books *recorder
				spied := side{contender.name, func(ctx context.Context, w *world, r *recorder) error {
					served, books = w, r
					return contender.run(ctx, w, r)
				}}
				got, err := run(t.Context(), load, spied)
				if err != nil {
					t.Fatal(err)
				}
				if got.Updates != load.updates {
					t.Errorf("%d updates were measured, want %d", got.Updates, load.updates)
				}
				delayed := 0
				for kind, books := range books.kinds {
					script := served.feeds[kind].script
					for key, last := range books.last {
						if script.after(last) < script.length() {
							t.Errorf("of %s the last event seen is %d of %d", nameOf(key), last, script.length())
						}
					}
					for _, delay := range books.delay {
						if delay > 0 {
							delayed++
						}
					}
				}
				if delayed < load.updates/2 {
					t.Errorf("%d of %d updates were seen some time after their delivery, want most", delayed, load.updates)
				}
				if contender.name != "generator" && (got.Reconciles < load.keys || got.Reconciles > load.updates+2*load.keys) {
					t.Errorf("there were %d reconciles for %d updates of %d keys", got.Reconciles, load.updates, load.keys)
				}
			})
		}
	}
}

func TestALostEventFailsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := side{"deaf", func(ctx context.Context, w *world, r *recorder) error {
			for kind, feed := range w.feeds {
				for key := range feed.script.keys {
					r.saw(kind, key, key, 0)
				}
			}
			for key := range w.feeds[0].script.keys { // The updates of the first kind only.
				r.saw(0, key, w.feeds[0].script.length()-1-(w.feeds[0].script.keys-1-key), 0)
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		_, err := run(t.Context(), load{kinds: bothKinds, keys: 5, updates: 100}, deaf)
		if err == nil || !strings.Contains(err.Error(), "0 listed objects and 50 updates were not seen") {
			t.Errorf("run() = %v, want that 50 updates were not seen", err)
		}
	})
}

func TestASideThatEndsEarlyFailsTheRun(t *testing.T) {
	quitter := side{"quitter", func(context.Context, *world, *recorder) error { return nil }}
	_, err := run(t.Context(), load{kinds: bothKinds, keys: 5, updates: 100}, quitter)
	if err == nil || !strings.Contains(err.Error(), "it ended early") {
		t.Errorf("run() = %v, want that it ended early", err)
	}
}

func TestAReconcileSeesWhatWasFoldedIntoItsObject(t *testing.T) {
	world, err := newWorld(load{kinds: []string{sheroKind}, keys: 2, updates: 6})
	if err != nil {
		t.Fatal(err)
	}
	books := newRecorder(world)
	at := func(number int) metav1.Object { return shero(nameOf(1), versionOf(number)) }
	reconcile := func(number int) {
		books.reconcile(nameOf(1), func(int) (metav1.Object, bool) { return at(number), true })
	}
	reconcile(1) // The listed object.
	reconcile(8) // Its last update; 4 and 6 were coalesced into it.
	reconcile(8) // Nothing new.
	if listing, updating := books.listing.Load(), books.updating.Load(); listing != 1 || updating != 3 {
		t.Errorf("%d listed objects and %d updates are left, want 1 and 3", listing, updating)
	}
	if reconciles := books.reconciles.Load(); reconciles != 3 {
		t.Errorf("%d reconciles were counted, want 3", reconciles)
	}
}

func TestAPacedFeedIsNeitherEarlyNorShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := load{kinds: bothKinds, keys: 10, updates: 1000, rate: 10_000}
		began := time.Now()
		got, err := run(t.Context(), load, generator())
		if err != nil {
			t.Fatal(err)
		}
		if elapsed := time.Since(began); elapsed != 100*time.Millisecond || got.Elapsed != elapsed {
			t.Errorf("1000 updates at 10,000/s took %v, measured as %v; want 100ms", elapsed, got.Elapsed)
		}
	})
}

func TestAPercentileIsTheSmallestValueThatSoManyPercentDoNotExceed(t *testing.T) {
	var sorted []time.Duration
	for i := range 200 {
		sorted = append(sorted, time.Duration(i+1))
	}
	for percent, want := range map[int]time.Duration{0: 1, 50: 100, 99: 198, 100: 200} {
		if got := percentile(sorted, percent); got != want {
			t.Errorf("percentile(%d) = %d, want %d", percent, got, want)
		}
	}
	if got := percentile(nil, 99); got != 0 {
		t.Errorf("percentile of nothing = %d, want 0", got)
	}
}
