package promserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// Ask reads an answer of Prometheus' HTTP API into a variable. The path has the query, such as /api/v1/rules.
func Ask(ctx context.Context, server, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+path, nil)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("ask Prometheus for %s: %w", path, err)
	}
	defer answer.Body.Close()
	var read struct {
		Error string
		Data  json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&read); err != nil {
		return fmt.Errorf("read the answer of Prometheus to %s: %w", path, err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("ask Prometheus for %s: it answered %s: %s", path, answer.Status, read.Error)
	}
	if err := json.Unmarshal(read.Data, into); err != nil {
		return fmt.Errorf("read the answer of Prometheus to %s: %w", path, err)
	}
	return nil
}

// Query runs a query of PromQL, and returns the number of series that it finds now.
func Query(ctx context.Context, server, query string) (series int, err error) {
	var found struct{ Result []json.RawMessage }
	err = Ask(ctx, server, "/api/v1/query?"+url.Values{"query": {query}}.Encode(), &found)
	return len(found.Result), err
}
