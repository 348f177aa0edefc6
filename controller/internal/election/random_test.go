package election_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
)

var schedules = flag.Int("schedules", 2, "random schedules of replicas in virtual time")

// TestWhateverHappensNoDeposedReplicaWrites runs random schedules of three replicas. Each write is delivered as
// late as the kernel and the API server allow it, also when its sender has given up.
func TestWhateverHappensNoDeposedReplicaWrites(t *testing.T) {
	failovers, writes := 0, 0
	for seed := range *schedules {
		var steps []string
		inWorld(t, 3, func(r *replica, options *controller.Options) {
			r.lags, options.Grace = seed%2 == 0, time.Second
		}, func(w *world) {
			random := rand.New(rand.NewPCG(uint64(seed), 2))
			w.create("one", "two")
			begun := time.Now()
			for _, replica := range w.replicas {
				replica.start()
			}
			number, holder := len(w.replicas), ""
			for range 30 {
				at := random.IntN(len(w.replicas))
				steps = append(steps, fmt.Sprintf("%v (%s leads): %s", time.Since(begun), w.holder(), w.step(random, at, &number)))
				if random.IntN(3) > 0 {
					wait(time.Duration(random.Int64N(int64(20 * time.Second))))
				}
				if now := w.holder(); now != "" && now != holder {
					holder, failovers = now, failovers+1
				}
			}
			for _, replica := range w.replicas {
				replica.heal()
			}
			quiet := time.Now()
			wait(2 * time.Minute) // The leader may have to reopen its watches first, with a backoff.
			last := w.since(quiet.Add(100 * time.Second))
			if len(last) == 0 {
				w.t.Error("no replica writes after everything was healed")
			}
			for _, write := range last {
				if write.by != last[0].by {
					w.t.Errorf("%s and %s write after everything was healed", write.by, last[0].by)
				}
			}
			writes += len(w.since(time.Time{}))
			if w.check(); w.t.Failed() {
				w.t.Fatalf("seed %d: %s", seed, strings.Join(steps, ", "))
			}
		})
	}
	t.Logf("%d schedules with %d transitions and %d writes", *schedules, failovers, writes)
	if failovers < 2**schedules {
		t.Errorf("there were %d transitions in %d schedules", failovers, *schedules)
	}
}

// step does something to a replica, and returns what.
func (w *world) step(random *rand.Rand, at int, number *int) string {
	w.t.Helper()
	of := w.replicas[at]
	switch random.IntN(8) {
	case 0:
		of.hang(all)
		return "cut off " + of.name
	case 1:
		of.hang(isLease)
		return "freeze the renewals of " + of.name
	case 2:
		of.hang(func(request *http.Request) bool { return !isLease(request) })
		return "freeze all but the renewals of " + of.name
	case 3:
		of.loseAnswer(isLease)
		return "lose an answer about the Lease of " + of.name
	case 4:
		of.loseAnswer(func(request *http.Request) bool { return !isLease(request) && request.Method != http.MethodGet })
		return "lose the answer to a write of " + of.name
	case 5:
		of.stop()
		w.replicas = append(w.replicas[:at], w.replicas[at+1:]...)
		lags := of.lags
		next := w.add(*number, func(r *replica, options *controller.Options) { r.lags, options.Grace = lags, time.Second })
		*number++
		next.start()
		return fmt.Sprintf("stop %s, start %s", of.name, next.name)
	}
	of.heal()
	return "heal " + of.name
}
