package webhook_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// Any pod may send bodies, and may leave them unfinished.
func TestBodiesInFlightHaveAPartOfTheMemoryLimit(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(256 << 20)) // So all bodies together have 32 MiB.
	made := newFlooded(t)
	defer made.end()
	server := httptest.NewServer(made.Handler)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	strangers := lifecycle.New(ctx)
	codes := make(chan int, 8)
	for range cap(codes) {
		strangers.Go("stranger", func(ctx context.Context) error {
			stalled, rest := io.Pipe()
			defer func() { _ = rest.Close() }() // A body that was refused is still being sent.
			stop := context.AfterFunc(ctx, func() { _ = rest.CloseWithError(ctx.Err()) })
			defer stop()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+validatePath, io.MultiReader(bytes.NewReader(make([]byte, 7<<20)), stalled))
			if err != nil {
				return err
			}
			request.Header.Set("Content-Type", "application/json")
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return nil // It was stalled to the end of the test, or refused while it sent.
			}
			codes <- answer.StatusCode
			return answer.Body.Close()
		})
	}
	select {
	case code := <-codes:
		if code != http.StatusServiceUnavailable {
			t.Errorf("a body is answered with %d", code)
		}
	case <-ctx.Done():
		t.Error("56 MiB of unfinished bodies are held")
	}
	strangers.Stop()
	if err := strangers.Wait(); err != nil {
		t.Error(err)
	}
	server.CloseClientConnections()
	// What the strangers held is free again.
	for tries := 0; ; tries++ {
		answer, err := http.Post(server.URL+validatePath, "application/json", strings.NewReader(strings.Repeat(" ", 7<<20)))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusBadRequest {
			break
		}
		if tries == 100 {
			t.Fatalf("after the strangers, a body is answered with %d", answer.StatusCode)
		}
		<-time.After(50 * time.Millisecond) // Their handlers end.
	}
}
