package controller_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
)

// These tests check what the levels promise against a real API server, behind a proxy that injects
// faults. At each rise to Settled they read the state of the server past the proxy. They compare it
// with the cache and with what the reconciler saw.

// manyLies is the number of lies that ends a run, as more would not help to find the cause.
const manyLies = 20

// longRound is how long a round may take without a line in the log. Most rounds are shorter.
const longRound = 2 * truthBound

// An ordinary run checks sampleOfRises rises, or as many as sampleTime allows. After a fault client-go
// may wait for up to 30 s before its next request.
const (
	sampleOfRises = 20
	sampleTime    = 40 * time.Second
)

var (
	rises      = flag.Int("rises", sampleOfRises, "number of rises to Settled to check against a real API server; 1000 take about an hour")
	risesSeed  = flag.Uint64("rises-seed", 1, "seed of the writes and faults between the rises")
	startAmong = flag.Int("start-among", 0, "number of objects of a real API server, such as 20000, among which a start is checked as well; 0 is no such check")
)

func TestTheLevelsTellTheTruthOfARealServer(t *testing.T) {
	cluster, err := localcluster.Start(t.Context(), localcluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("a seeded lie is found", func(t *testing.T) { findsSeededLies(t, newTruth(t, cluster)) })
	t.Run("rises", func(t *testing.T) { checkRises(t, newTruth(t, cluster), *rises) })
	if *startAmong > 0 {
		t.Run("a start among many", func(t *testing.T) { startsAmong(t, newTruth(t, cluster), *startAmong) })
	}
}

// checkRises makes writes, injects faults and checks the claims of the levels, until it has checked
// the wanted number of rises.
func checkRises(t *testing.T, w *truth, wanted int) {
	w.start()
	w.awaitTruth("at the start", "none")
	var limit <-chan time.Time
	if wanted == sampleOfRises {
		limit = time.After(sampleTime)
	}
	for round := 1; w.tally.rises < wanted && w.tally.lies < manyLies; round++ {
		select {
		case <-limit:
			wanted = 0
		default:
		}
		w.random = rand.New(rand.NewPCG(*risesSeed, uint64(round)))
		fault, began := w.draw(round), time.Now()
		w.write(1 + w.random.IntN(10))
		struck := fault.strike(w)
		w.write(1 + w.random.IntN(4))
		w.awaitTruth("after the round", fault.name)
		if struck {
			w.proxy.Heal()
		}
		if w.manager.Cache().Level() < cache.Settled {
			w.awaitTruth("after the fault", fault.name)
		}
		if took := time.Since(began); took > longRound {
			t.Logf("round %d (fault: %s) took %v", round, fault.name, took.Round(time.Millisecond))
		}
	}
	t.Logf("seed %d: %+v; struck: %v; the proxy: %v", *risesSeed, w.tally, w.struck, w.proxy.Counts().Faults)
	if wanted >= 1000 && w.tally.afterFaults < 60 {
		t.Errorf("%d rises followed a fault, want 60 at least", w.tally.afterFaults)
	}
	if w.tally.afterFaults == 0 {
		t.Error("no rise followed a fault")
	}
}

// startsAmong checks the first rise of a manager that starts among many objects.
func startsAmong(t *testing.T, w *truth, objects int) {
	w.fill(objects)
	w.staleness = 0 // The default: under such a load the server answers too late for a short bound.
	began := time.Now()
	w.start()
	w.patience = 10 * time.Minute
	w.awaitTruth("of the start", "none")
	t.Logf("true after %v: %+v", time.Since(began), w.tally)
}

// findsSeededLies replaces the level with one that claims too much, and checks that each lie is found.
func findsSeededLies(t *testing.T, w *truth) {
	w.staleness, w.bound = -1, time.Second // Without a bound, a stalled watch is not noticed.
	w.start()
	w.awaitTruth("at the start", "none")
	honest := w.level
	defer func() { w.level = honest }()
	w.level = func() cache.Level { return cache.Settled }

	// The cache misses a committed write.
	w.proxy.Stall(faultproxy.Match{Verb: "watch"})
	w.mustWrite(configMap(w.namespaces[0], "unseen", "1"))
	if lies, _ := w.check(time.Now()); len(lies) != 0 {
		t.Errorf("within the bound a missing write is no lie: %q", lies)
	}
	idleFor(t.Context(), w.bound+2*truthSlack)
	lies, _ := w.check(time.Now())
	wantLie(t, lies, w.namespaces[0]+"/unseen", "is not in the cache")

	// A reconcile is pending.
	w.proxy.Drop()
	gate := w.hold()
	w.mustWrite(configMap(w.namespaces[1], "unreconciled", "1"))
	w.awaitCached(configMap(w.namespaces[1], "unreconciled", "1"))
	idleFor(t.Context(), w.bound+2*truthSlack)
	lies, _ = w.check(time.Now())
	wantLie(t, lies, w.namespaces[1]+"/unreconciled", "was not reconciled")

	// A child is missing.
	close(gate)
	w.level = honest
	w.awaitTruth("with the real level again", "none")
	w.broken.Store(true)
	w.level = func() cache.Level { return cache.Converged }
	w.mustWrite(configMap(w.namespaces[2], "unwritten", "1"))
	w.awaitSeen(configMap(w.namespaces[2], "unwritten", "1"))
	idleFor(t.Context(), w.bound+2*truthSlack)
	lies, _ = w.check(time.Now())
	wantLie(t, lies, w.namespaces[2]+"/unwritten", "has no Secret")
}

// idleFor waits for a duration, or until ctx ends.
func idleFor(ctx context.Context, duration time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	<-ctx.Done()
}
