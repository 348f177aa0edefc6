package dev_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
)

// requests records the requests that are no watches.
type requests struct {
	next http.RoundTripper

	mu   *sync.Mutex
	seen *[]string
}

// RoundTrip implements http.RoundTripper.
func (r requests) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") == "" {
		r.mu.Lock()
		*r.seen = append(*r.seen, request.Method+" "+request.URL.Path)
		r.mu.Unlock()
	}
	return r.next.RoundTrip(request)
}

func TestAnApplicationAtRestOnARealNodeCausesNoRequests(t *testing.T) {
	s := newSession(t, "script")
	s.name = "greeting-script"
	var mu sync.Mutex
	var seen []string
	s.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return requests{next, &mu, &seen} })
	s.start(dev.Options{})
	s.until(func(status contract.Status) bool { return status.State == contract.RunCommandRunning })
	rest := func(lasting time.Duration) []string {
		<-time.After(lasting)
		mu.Lock()
		defer mu.Unlock()
		made := seen
		seen = nil
		return made
	}
	if made := rest(5 * time.Second); len(made) == 0 {
		t.Error("the test sees no requests")
	}
	if made := rest(20 * time.Second); len(made) > 0 {
		t.Errorf("at rest it sent %q", made)
	}
}
