package ask_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		"the operator's answer ended":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"controllers":[`)) },
		"the operator's answer is nonsense": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<html>`)) },
		"is nonsense (json: cannot":         func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`[1, 2]`)) },
		"the operator's answer is empty":    func(http.ResponseWriter, *http.Request) {},
		"answers 302 Found to /debug/why":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) },
		"no [2J escape": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no\x1b[2J escape", http.StatusBadGateway)
		},
		"more than 64 MiB": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"controllers":[{"name":"`))
			for block := bytes.Repeat([]byte("x"), 1<<20); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		},
	} {
		server := serve(t, refuse)
		server.Timeout = 5 * time.Minute // The race detector on a slow machine reads 4 MiB in a second.
		err := ask.Ask(t.Context(), server, why.Question("riders/x", "", false), func(history.Answer) error { return nil })
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

// The enemies are servers that hang: before an answer, within one, and between two.
func TestAServerThatHangsIsNamedAfterTheTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		sent   string
		follow bool
		shown  int
	}{
		"before an answer":        {"", false, 0},
		"before the first answer": {"", true, 0},
		"within an answer":        {`{"controllers":[`, false, 0},
		"between two answers":     {`{"controllers":[]}` + "\n", true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, request *http.Request) {
				if test.sent != "" {
					_, _ = w.Write([]byte(test.sent))
					_ = http.NewResponseController(w).Flush()
				}
				<-request.Context().Done()
			})
			server.Timeout = 200 * time.Millisecond
			shown := 0
			question := ask.Question{Path: "/debug/why", Follow: test.follow}
			err := ask.Ask(t.Context(), server, question, func(history.Answer) error { shown++; return nil })
			if err == nil || !strings.Contains(err.Error(), "has not answered for 200ms") || shown != test.shown {
				t.Errorf("the error is %v after %d answers", err, shown)
			}
		})
	}
}

func TestASignOfLifeKeepsAnAnswerThatFollows(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 5 {
			_, _ = w.Write([]byte("\n"))
			_ = http.NewResponseController(w).Flush()
			<-time.After(100 * time.Millisecond)
		}
		_, _ = w.Write([]byte("{}"))
	})
	server.Timeout = 300 * time.Millisecond
	shown := 0
	if err := ask.Ask(t.Context(), server, ask.Question{Path: "/debug/why", Follow: true}, func(history.Answer) error { shown++; return nil }); err != nil || shown != 1 {
		t.Errorf("%d answers, %v", shown, err)
	}
}

func TestAQuestionIsAskedASecondTime(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	shown, began := 0, time.Now()
	err := ask.Ask(t.Context(), server, ask.Question{Path: "/debug/why", Again: 50 * time.Millisecond}, func(history.Answer) error { shown++; return nil })
	if err != nil || shown != 2 || time.Since(began) < 50*time.Millisecond {
		t.Errorf("%d answers after %v, %v", shown, time.Since(began), err)
	}
}

// A token must not be sent in the clear.
func TestAServerWithoutTLSIsAskedWithoutTheToken(t *testing.T) {
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if got := request.Header.Get("Authorization"); got != "" {
			t.Errorf("it gets %s", got)
		}
		_, _ = w.Write([]byte("{}"))
	}))
	defer served.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("wings"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := ask.Server{URL: strings.Replace(served.URL, "http://", "https://", 1), TokenFile: token, Insecure: true}
	shown := 0
	if err := ask.Ask(t.Context(), server, ask.Question{Path: "/debug/why"}, func(history.Answer) error { shown++; return nil }); err != nil || shown != 1 {
		t.Errorf("%d answers, %v", shown, err)
	}
}
