package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/member"
)

// Client sends requests to members. Create it with [NewClient]. Its methods may be called from any goroutine.
type Client struct {
	secure    bool
	dial      member.Dialer
	transport *http.Transport
}

// NewClient creates a client. With a TLS configuration it connects by TLS. A connection that is not there after
// patience has failed.
func NewClient(config *tls.Config, patience time.Duration) *Client {
	dialer := &net.Dialer{Timeout: patience, KeepAlive: patience}
	c := &Client{secure: config != nil}
	c.dial = func(ctx context.Context, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", address)
	}
	if c.secure {
		secure := &tls.Dialer{NetDialer: dialer, Config: config}
		c.dial = func(ctx context.Context, address string) (net.Conn, error) {
			return secure.DialContext(ctx, "tcp", address)
		}
	}
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		conn, err := c.dial(ctx, address)
		if err != nil {
			return nil, dialError{err}
		}
		return conn, nil
	}
	c.transport = &http.Transport{DialContext: dial, DialTLSContext: dial, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}
	return c
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Dial connects to a member.
func (c *Client) Dial(ctx context.Context, address string) (net.Conn, error) {
	return c.dial(ctx, address)
}

// dialError means that a request was not sent.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

func (c *Client) url(host, path string) string {
	if c.secure {
		return "https://" + host + path
	}
	return "http://" + host + path
}

// do sends a request. The error wraps [member.ErrNotLeader] if the request cannot have changed anything, and
// [member.ErrUnknown] otherwise.
func (c *Client) do(request *http.Request) (*http.Response, error) {
	response, err := c.transport.RoundTrip(request)
	var unsent dialError
	switch {
	case err == nil:
		return response, nil
	case errors.As(err, &unsent):
		return nil, fmt.Errorf("%w: %w", member.ErrNotLeader, err)
	}
	return nil, fmt.Errorf("%w: %w", member.ErrUnknown, err)
}

// Progress asks a leader how far it is.
func (c *Client) Progress(ctx context.Context, host string) (progress member.Progress, err error) {
	return progress, c.get(ctx, host, progressPath, &progress)
}

// Status asks a member for its status.
func (c *Client) Status(ctx context.Context, host string) (status member.Status, err error) {
	return status, c.get(ctx, host, "/v1/status", &status)
}

// Join asks the cluster of a member to let another one join: see [member.Member.Join].
func (c *Client) Join(ctx context.Context, host string, joining member.Server) error {
	return c.put(ctx, host, membersPath+url.PathEscape(joining.ID), joinBody{Address: joining.Address, Voter: joining.Voter})
}

func (c *Client) put(ctx context.Context, host, path string, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, c.url(host, path), bytes.NewReader(content))
	if err != nil {
		return err
	}
	return c.exchange(request, &struct{}{})
}

// limit bounds the answers that the client reads.
const limit = 1 << 20

func (c *Client) get(ctx context.Context, host, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(host, path), nil)
	if err != nil {
		return err
	}
	return c.exchange(request, into)
}

// exchange sends a request and reads the answer. It fails unless the code is 200.
func (c *Client) exchange(request *http.Request, into any) (err error) {
	response, err := c.do(request)
	if err != nil {
		return err
	}
	defer func() {
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, limit)) // The connection can be used again.
		_ = response.Body.Close()
	}()
	if response.StatusCode != http.StatusOK {
		var said failure
		_ = json.NewDecoder(io.LimitReader(response.Body, limit)).Decode(&said)
		return &AnswerError{Code: response.StatusCode, Message: said.Error}
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, limit)).Decode(into); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", request.URL, err)
	}
	return nil
}

// AnswerError is the error of a member that answered with a code other than 200.
type AnswerError struct {
	Code    int
	Message string
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("it answered %d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
}
