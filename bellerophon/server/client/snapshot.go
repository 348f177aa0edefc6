package client

import (
	"context"
	"errors"
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

// Restore asks the cluster of a member to verify a backup, and to take its keys. The error wraps [ErrNotEmpty] if the cluster has
// keys already. It may be called again after any error: a cluster that has restored the same backup before does nothing.
func (c *Client) Restore(ctx context.Context, host string, from io.Reader) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, c.URL(host, "/v1/snapshot"), from)
	if err != nil {
		return err
	}
	request.Header.Set("If-None-Match", "*")
	err = c.exchange(request, &struct{}{})
	if answered := (&AnswerError{}); errors.As(err, &answered) && answered.Code == http.StatusPreconditionFailed {
		return ErrNotEmpty
	}
	return err
}
