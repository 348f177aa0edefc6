package client

import (
	"context"
	"io"
	"net/http"
)

// Snapshot asks a member for a backup. The caller closes it. It is complete only if store.Read reads it without an
// error.
func (c *Client) Snapshot(ctx context.Context, host string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL(host, "/v1/snapshot"), nil)
	if err != nil {
		return nil, err
	}
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer func() { _ = response.Body.Close() }()
		return nil, answerError(response)
	}
	return response.Body, nil
}

// Restore asks the cluster of a member to verify a backup, and to replace all keys by it.
func (c *Client) Restore(ctx context.Context, host string, from io.Reader) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, c.URL(host, "/v1/snapshot"), from)
	if err != nil {
		return err
	}
	return c.exchange(request, &struct{}{})
}

// IsEmpty reports whether the cluster of a member has no keys.
func (c *Client) IsEmpty(ctx context.Context, host string) (bool, error) {
	var listed struct {
		Entries []struct{} `json:"entries"`
	}
	if err := c.get(ctx, host, "/v1/keys?limit=1", &listed); err != nil {
		return false, err
	}
	return len(listed.Entries) == 0, nil
}
