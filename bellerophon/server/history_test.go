package server

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

var (
	disturbances = flag.Int("disturbances", 8, "how often a member is killed, frozen or deposed while histories are recorded")
	seed         = flag.Uint64("history-seed", 1, "the seed of the histories")
)

// request is what a client asks for in a history.
type request struct {
	kind     string // get, put, swap or delete
	value    string // of put and swap
	expected string // of swap: the value that the key must have
}

// response is what it got. The value of a missing key is empty, and no client writes an empty value.
type response struct {
	value   string // of get
	refused bool   // of swap
	unknown bool
}

// register is one key, as a client may expect it to be. A change whose outcome is unknown may have happened at any time, or
// never.
var register = porcupine.NondeterministicModel{
	Init: func() []any { return []any{""} },
	Step: func(state, input, output any) []any {
		asked, got, after := input.(request), output.(response), state
		switch asked.kind {
		case "get":
			if got.value != state {
				return nil
			}
			return []any{state}
		case "put":
			after = asked.value
		case "delete":
			after = ""
		case "swap":
			holds := state == asked.expected
			if !got.unknown && holds == got.refused {
				return nil
			}
			if holds {
				after = asked.value
			}
		}
		if got.unknown {
			return []any{state, after}
		}
		return []any{after}
	},
}

// history is what clients did to each key.
type history struct {
	mu    sync.Mutex
	began time.Time
	of    map[string][]porcupine.Operation
	known atomic.Int64 // operations with a known outcome
	lost  atomic.Int64 // operations with an unknown outcome

}

func (h *history) add(key string, client int, input request, output response, from, to time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := to.Sub(h.began).Nanoseconds()
	if output.unknown {
		end = time.Hour.Nanoseconds() // It may still happen.
		h.lost.Add(1)
	} else {
		h.known.Add(1)
	}
	h.of[key] = append(h.of[key], porcupine.Operation{
		ClientId: client, Input: input, Call: from.Sub(h.began).Nanoseconds(), Output: output, Return: end,
	})
}

// client sends random requests to random members until ctx ends.
func (h *history) client(ctx context.Context, w *world, number int) error {
	random := rand.New(rand.NewPCG(*seed, uint64(number)))
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprint("key-", random.IntN(8))
		at := w.members[random.IntN(len(w.members))]
		value := fmt.Sprintf("%d of %d", i, number)
		switch random.IntN(10) {
		case 0, 1, 2:
			h.change(w, at, number, key, request{kind: "put", value: value})
		case 3:
			h.change(w, at, number, key, request{kind: "delete"})
		case 4, 5, 6:
			held, etag, ok := h.get(w, at, number, key)
			if ok {
				header := []string{"If-Match", etag}
				if held == "" {
					header = []string{"If-None-Match", "*"}
				}
				h.change(w, at, number, key, request{kind: "swap", value: value, expected: held}, header...)
			}
		default:
			h.get(w, at, number, key)
		}
	}
	return nil
}

func (h *history) get(w *world, at *process, number int, key string) (value, etag string, ok bool) {
	from := time.Now()
	got, err := w.call(at, http.MethodGet, "/v1/keys/"+key, "")
	to := time.Now()
	if err != nil || got.code != 200 && got.code != 404 {
		return "", "", false // A read without an answer tells nothing.
	}
	if got.code == 404 {
		got.body = ""
	}
	h.add(key, number, request{kind: "get"}, response{value: got.body}, from, to)
	return got.body, got.header.Get("ETag"), true
}

func (h *history) change(w *world, at *process, number int, key string, input request, header ...string) {
	method := http.MethodPut
	if input.kind == "delete" {
		method = http.MethodDelete
	}
	from := time.Now()
	got, err := w.call(at, method, "/v1/keys/"+key, input.value, header...)
	to := time.Now()
	var dialing *net.OpError
	switch {
	case errors.As(err, &dialing) && dialing.Op == "dial", err == nil && got.code == http.StatusServiceUnavailable:
		return // Nothing was changed.
	case err != nil, got.code == http.StatusGatewayTimeout:
		h.add(key, number, input, response{unknown: true}, from, to)
	case got.code == http.StatusPreconditionFailed:
		h.add(key, number, input, response{refused: true}, from, to)
	case got.code == 200:
		h.add(key, number, input, response{}, from, to)
	default:
		w.t.Errorf("%s %s: %d %s", method, key, got.code, got.body)
	}
}

// TestHistoriesAreLinearizableWhileMembersAreKilledAndFrozen checks each read and each change against all others. A
// frozen leader is the interesting case: it takes itself for the leader when it goes on.
func TestHistoriesAreLinearizableWhileMembersAreKilledAndFrozen(t *testing.T) {
	w := newWorld(t, 3, true)
	w.formed()
	recorded := &history{began: time.Now(), of: map[string][]porcupine.Operation{}}
	group := lifecycle.New(t.Context())
	for number := range 6 {
		group.Go("client", func(ctx context.Context) error { return recorded.client(ctx, w, number) })
	}
	random := rand.New(rand.NewPCG(*seed, 100))
	for range *disturbances {
		w.disturb(random)
	}
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	model := register.ToModel()
	for key, operations := range recorded.of {
		if result := porcupine.CheckOperationsTimeout(model, operations, 2*time.Minute); result != porcupine.Ok {
			t.Errorf("the history of %s with %d operations is %s", key, len(operations), result)
		}
	}
	known, lost := recorded.known.Load(), recorded.lost.Load()
	t.Logf("%d operations, %d of unknown outcome, %d disturbances", known+lost, lost, *disturbances)
	if known < 50*int64(*disturbances) {
		t.Errorf("%d operations have a known outcome; that is too few to show anything", known)
	}
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

// TestTheCheckerFindsAStaleRead shows that the check can fail.
func TestTheCheckerFindsAStaleRead(t *testing.T) {
	model := register.ToModel()
	at := func(from, to int64, input request, output response) porcupine.Operation {
		return porcupine.Operation{Input: input, Output: output, Call: from, Return: to}
	}
	put := at(0, 10, request{kind: "put", value: "new"}, response{})
	for name, history := range map[string][]porcupine.Operation{
		"stale read":            {put, at(20, 30, request{kind: "get"}, response{value: ""})},
		"value from nowhere":    {put, at(20, 30, request{kind: "get"}, response{value: "other"})},
		"swap of another value": {put, at(20, 30, request{kind: "swap", expected: "other", value: "x"}, response{})},
		"refused without cause": {put, at(20, 30, request{kind: "swap", expected: "new", value: "x"}, response{refused: true})},
		"deleted key":           {put, at(20, 30, request{kind: "delete"}, response{}), at(40, 50, request{kind: "get"}, response{value: "new"})},
	} {
		if porcupine.CheckOperations(model, history) {
			t.Errorf("%s passes", name)
		}
	}
	fine := []porcupine.Operation{put, at(5, 30, request{kind: "get"}, response{value: ""}), at(11, 100, request{kind: "delete"}, response{unknown: true}), at(40, 50, request{kind: "get"}, response{value: "new"})}
	if !porcupine.CheckOperations(model, fine) {
		t.Error("a linearizable history fails")
	}
}

// TestALeaderThatWasFrozenServesNoStaleRead reads from a former leader in the moment when it goes on. It still takes
// itself for the leader then.
func TestALeaderThatWasFrozenServesNoStaleRead(t *testing.T) {
	w := newWorld(t, 3, true)
	w.formed()
	for round := range 5 {
		former := w.ready(w.members...)
		w.must(former, http.MethodPut, "/v1/keys/a", fmt.Sprint("old ", round), 200)
		if err := former.command.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
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
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}
