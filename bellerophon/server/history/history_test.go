package history

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestTheCheckerFindsAStaleRead shows that the check can fail.
func TestTheCheckerFindsAStaleRead(t *testing.T) {
	at := func(from, to int64, input request, output response) porcupine.Operation {
		return porcupine.Operation{Input: input, Output: output, Call: from, Return: to}
	}
	put := at(0, 10, request{kind: "put", value: "new"}, response{})
	for name, operations := range map[string][]porcupine.Operation{
		"stale read":            {put, at(20, 30, request{kind: "get"}, response{value: ""})},
		"value from nowhere":    {put, at(20, 30, request{kind: "get"}, response{value: "other"})},
		"swap of another value": {put, at(20, 30, request{kind: "swap", expected: "other", value: "x"}, response{})},
		"refused without cause": {put, at(20, 30, request{kind: "swap", expected: "new", value: "x"}, response{refused: true})},
		"deleted key":           {put, at(20, 30, request{kind: "delete"}, response{}), at(40, 50, request{kind: "get"}, response{value: "new"})},
	} {
		h := New()
		h.of["key"] = operations
		if h.Check() == nil {
			t.Errorf("%s passes", name)
		}
	}
	h := New()
	h.of["key"] = []porcupine.Operation{
		put, at(5, 30, request{kind: "get"}, response{value: ""}), at(11, 100, request{kind: "delete"}, response{unknown: true}),
		at(40, 50, request{kind: "get"}, response{value: "new"}),
	}
	if err := h.Check(); err != nil {
		t.Errorf("a linearizable history: %v", err)
	}
}
