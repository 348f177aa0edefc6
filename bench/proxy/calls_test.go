package proxy

import (
	"fmt"
	"net/http"
	"testing"
)

func TestACallThatBeginsAListIsMarked(t *testing.T) {
	w := newWorld(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	for i, test := range []struct {
		query string
		lists bool
	}{
		{"", true}, {"?limit=500", true}, {"?limit=500&continue=x", false}, {"?limit=1", false},
		{"?watch=true&sendInitialEvents=true", true}, {"?watch=true&resourceVersion=7", false},
	} {
		w.do(t, http.MethodGet, "/api/v1/pods"+test.query, "")
		if got := w.ended(t, i+1)[i].Lists; got != test.lists {
			t.Errorf("%q begins a list: %v, want %v", test.query, got, test.lists)
		}
	}
}

func TestARequestBreaksOffWhenTheAPIServerIsDown(t *testing.T) {
	w := newWorld(t, func(http.ResponseWriter, *http.Request) {})
	w.direct.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.config.Host+"/api/v1/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := w.client.Do(request); err == nil {
		response.Body.Close()
		t.Errorf("the contender gets the answer %d", response.StatusCode)
	}
	if call := w.ended(t, 1)[0]; call.Code != 0 {
		t.Errorf("recorded %+v, want a call without an answer", call)
	}
}
