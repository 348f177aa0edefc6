package server

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/history"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

var (
	disturbances = flag.Int("disturbances", 8, "how often a member is killed, frozen or deposed while histories are recorded")
	seed         = flag.Uint64("history-seed", 1, "the seed of the histories")
)

// TestHistoriesAreLinearizableWhileMembersAreKilledAndFrozen checks each read and each change against all others. A
// frozen leader is the interesting case: it takes itself for the leader when it goes on.
func TestHistoriesAreLinearizableWhileMembersAreKilledAndFrozen(t *testing.T) {
	w := newWorld(t, 3, true)
	w.formed()
	recorded := history.New()
	group := lifecycle.New(t.Context())
	for number := range 6 {
		random := rand.New(rand.NewPCG(*seed, uint64(number)))
		group.Go("client", func(ctx context.Context) error {
			return recorded.Client(ctx, number, random, func(_ context.Context, method, key, value string, header ...string) (history.Answer, error) {
				got, err := w.call(w.members[random.IntN(len(w.members))], method, "/v1/keys/"+key, value, header...)
				return history.Answer{Code: got.code, Body: got.body, ETag: got.header.Get("ETag")}, err
			})
		})
	}
	random := rand.New(rand.NewPCG(*seed, 100))
	for range *disturbances {
		before, _ := recorded.Counts()
		w.disturb(random)
		w.eventually("clients get answers", func() error {
			if known, _ := recorded.Counts(); known < before+50 {
				return fmt.Errorf("%d since the disturbance", known-before)
			}
			return nil
		})
	}
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := recorded.Check(); err != nil {
		t.Error(err)
	}
	known, unknown := recorded.Counts()
	t.Logf("%d operations, %d of unknown outcome, %d disturbances", known+unknown, unknown, *disturbances)
}

// disturb kills, freezes or deposes a member, half of the times the leader, and waits until all are ready again.
func (w *world) disturb(random *rand.Rand) {
	w.t.Helper()
	victim := w.members[random.IntN(len(w.members))]
	if random.IntN(2) == 0 {
		victim = w.ready(w.members...)
	}
	between := time.NewTimer(time.Duration(random.IntN(int(4 * election))))
	defer between.Stop()
	switch random.IntN(3) {
	case 0:
		w.kill(victim)
		<-between.C
		w.start(victim)
	case 1:
		if err := victim.command.Process.Signal(syscall.SIGSTOP); err != nil {
			w.t.Fatal(err)
		}
		<-between.C
		if err := victim.command.Process.Signal(syscall.SIGCONT); err != nil {
			w.t.Fatal(err)
		}
	case 2:
		_, _ = w.call(victim, http.MethodPut, "/v1/leader", `{}`) // It may be refused during an election.
	}
	w.ready(w.members...)
}

// TestALeaderThatWasFrozenServesNoStaleRead reads from a former leader in the moment when it goes on. It still takes
// itself for the leader then.
func TestALeaderThatWasFrozenServesNoStaleRead(t *testing.T) {
	w := newWorld(t, 3, true)
	w.formed()
	for round := range 5 {
		former := w.ready(w.members...)
		w.must(former, http.MethodPut, "/v1/keys/a", fmt.Sprint("old ", round), 200)
		// Reads in flight make heartbeats, whose answers wait for the frozen leader. They must not confirm a later read.
		before, end := context.WithCancel(t.Context())
		early := lifecycle.New(before)
		for range 8 {
			early.Go("reading before", func(ctx context.Context) error {
				for ctx.Err() == nil {
					_, _ = w.call(former, http.MethodGet, "/v1/keys/a", "")
				}
				return nil
			})
		}
		<-time.After(time.Duration(20+7*round) * time.Millisecond)
		if err := former.command.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		end()
		var others []*process
		for _, p := range w.members {
			if p != former {
				others = append(others, p)
			}
		}
		written := fmt.Sprint("new ", round)
		w.must(w.ready(others...), http.MethodPut, "/v1/keys/a", written, 200)
		group := lifecycle.New(t.Context())
		for range 20 {
			group.Go("reading", func(context.Context) error {
				if got, err := w.call(former, http.MethodGet, "/v1/keys/a", ""); err == nil && got.code == 200 && got.body != written {
					return fmt.Errorf("a read returned %q after %q was written", got.body, written)
				}
				return nil
			})
		}
		if err := former.command.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(group.Wait(), early.Wait()); err != nil {
			t.Fatal(err)
		}
	}
}
