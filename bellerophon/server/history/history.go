// Package history records what clients of the key-value store asked and what they got. It checks that one store, which
// handles one request after another, could have answered so: that the history is linearizable. It is for tests.
package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// request is what a client asks for.
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

// Answer is the answer of a member. The body of a read is the value.
type Answer struct {
	Code int
	Body string
	ETag string
}

// Call sends a request for a key to a member of its choice. header has names and values in turn.
type Call func(ctx context.Context, method, key, value string, header ...string) (Answer, error)

// History is what clients did to each key. Create it with [New]. Its methods may be called from any goroutine.
type History struct {
	mu      sync.Mutex
	began   time.Time
	of      map[string][]porcupine.Operation
	known   int
	unknown int
	refusal error
}

// New creates a history without a request.
func New() *History { return &History{began: time.Now(), of: map[string][]porcupine.Operation{}} }

// Counts returns how many requests have a known outcome, and how many have not.
func (h *History) Counts() (known, unknown int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known, h.unknown
}

func (h *History) add(key string, client int, input request, output response, from, to time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := to.Sub(h.began).Nanoseconds()
	if output.unknown {
		end = time.Hour.Nanoseconds() // It may still happen.
		h.unknown++
	} else {
		h.known++
	}
	h.of[key] = append(h.of[key], porcupine.Operation{
		ClientId: client, Input: input, Call: from.Sub(h.began).Nanoseconds(), Output: output, Return: end,
	})
}

// Client sends random requests for eight keys until ctx ends. Each client has a number of its own, from 0.
func (h *History) Client(ctx context.Context, number int, random *rand.Rand, call Call) error {
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprint("key-", random.IntN(8))
		value := fmt.Sprintf("%d of %d", i, number)
		switch random.IntN(10) {
		case 0, 1, 2:
			h.change(ctx, call, number, key, request{kind: "put", value: value})
		case 3:
			h.change(ctx, call, number, key, request{kind: "delete"})
		case 4, 5, 6:
			held, etag, ok := h.get(ctx, call, number, key)
			if !ok {
				continue
			}
			header := []string{"If-Match", etag}
			if held == "" {
				header = []string{"If-None-Match", "*"}
			}
			h.change(ctx, call, number, key, request{kind: "swap", value: value, expected: held}, header...)
		default:
			h.get(ctx, call, number, key)
		}
	}
	return nil
}

func (h *History) get(ctx context.Context, call Call, number int, key string) (value, etag string, ok bool) {
	from := time.Now()
	got, err := call(ctx, http.MethodGet, key, "")
	to := time.Now()
	if err != nil || got.Code != http.StatusOK && got.Code != http.StatusNotFound {
		return "", "", false // A read without an answer tells nothing.
	}
	if got.Code == http.StatusNotFound {
		got.Body = ""
	}
	h.add(key, number, request{kind: "get"}, response{value: got.Body}, from, to)
	return got.Body, got.ETag, true
}

func (h *History) change(ctx context.Context, call Call, number int, key string, input request, header ...string) {
	method := http.MethodPut
	if input.kind == "delete" {
		method = http.MethodDelete
	}
	from := time.Now()
	got, err := call(ctx, method, key, input.value, header...)
	to := time.Now()
	var dialing *net.OpError
	switch {
	case errors.As(err, &dialing) && dialing.Op == "dial", err == nil && got.Code == http.StatusServiceUnavailable:
		return // Nothing was changed.
	case err != nil, got.Code == http.StatusGatewayTimeout:
		h.add(key, number, input, response{unknown: true}, from, to)
	case got.Code == http.StatusPreconditionFailed:
		h.add(key, number, input, response{refused: true}, from, to)
	case got.Code == http.StatusOK:
		h.add(key, number, input, response{}, from, to)
	default:
		h.mu.Lock()
		h.refusal = fmt.Errorf("%s %s: %d %s", method, key, got.Code, got.Body)
		h.mu.Unlock()
	}
}

// checkTime bounds the check of a key, whose duration grows with the requests that ran at the same time.
const checkTime = 2 * time.Minute

// Check returns nil if the history is linearizable. Call it when all clients have returned.
func (h *History) Check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refusal != nil {
		return fmt.Errorf("a request was refused: %w", h.refusal)
	}
	model := register.ToModel()
	for key, operations := range h.of {
		if result := porcupine.CheckOperationsTimeout(model, operations, checkTime); result != porcupine.Ok {
			return fmt.Errorf("the history of %s with %d operations is %s", key, len(operations), result)
		}
	}
	return nil
}
