package ask_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/bellerophon/why"
	"github.com/bellerophon-io/bellerophon/controller/history"
)

// serve serves one function at /debug/why.
func serve(t *testing.T, answer http.HandlerFunc) ask.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/why", answer)
	served := httptest.NewTLSServer(mux)
	t.Cleanup(served.Close)
	return ask.Server{URL: served.URL, Insecure: true}
}

func TestAnAnswerIsAskedForWithTheToken(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, request *http.Request) {
		if request.Header.Get("Authorization") != "Bearer wings" || request.URL.RawQuery != "follow=true&namespace=stables&object=riders%2Fpegasus" {
			t.Errorf("it asks %s with %s", request.URL, request.Header)
		}
		for range 2 {
			if err := json.NewEncoder(w).Encode(history.Answer{}); err != nil {
				t.Error(err)
			}
		}
	})
	server.TokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(server.TokenFile, []byte("wings\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	answers := 0
	if err := ask.Ask(t.Context(), server, why.Question("riders/pegasus", "stables", true), func(history.Answer) error { answers++; return nil }); err != nil || answers != 2 {
		t.Errorf("%d answers, %v", answers, err)
	}
	broken := errors.New("the pipe is broken")
	if err := ask.Ask(t.Context(), server, why.Question("riders/pegasus", "stables", true), func(history.Answer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	for want, refuse := range map[string]http.HandlerFunc{
		"give one with --token-file":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) },
		"grant it as a nonResourceURL":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
		"the server has no /debug/why":    http.NotFound,
		"no controller reconciles horses": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no controller reconciles horses", 404) },
		"is broken": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "is broken", http.StatusInternalServerError)
		},
		"the operator's answer ended": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"controllers":[`)) },
	} {
		err := ask.Ask(t.Context(), serve(t, refuse), why.Question("riders/x", "", false), func(history.Answer) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

// The enemy is a server that takes the request and says nothing.
func TestAServerThatHangsEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := serve(t, func(_ http.ResponseWriter, request *http.Request) {
		cancel()
		<-request.Context().Done()
	})
	if err := ask.Ask(ctx, server, why.Question("riders/x", "", true), func(history.Answer) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
