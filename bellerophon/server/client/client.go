// Package client sends requests to members of the Bellerophon software. It links nothing of the store.
package client

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
)

// Client sends requests to members. Create it with [New]. Its methods may be called from any goroutine.
type Client struct {
	secure    bool
	dial      Dialer
	transport *http.Transport
}

// New creates a client. With a TLS configuration it connects by TLS. A connection that is not there after
// patience has failed.
func New(config *tls.Config, patience time.Duration) *Client {
	dialer := &net.Dialer{Timeout: patience, KeepAlive: patience}
	return NewOver(config, func(ctx context.Context, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", address)
	}, Reuse)
}

// Connections says whether a request may take the connection of an earlier one.
type Connections bool

const (
	// Reuse keeps connections for later requests.
	Reuse Connections = true
	// Once makes a connection for each request. It is for addresses whose member may become another one at any time,
	// while the earlier one still answers.
	Once Connections = false
)

// NewOver creates a client whose connections are made by a function, which gets host:port of a member.
func NewOver(config *tls.Config, connect Dialer, keep Connections) *Client {
	c := &Client{secure: config != nil, dial: connect}
	if c.secure {
		c.dial = func(ctx context.Context, address string) (net.Conn, error) {
			return handshake(ctx, config, connect, address)
		}
	}
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		conn, err := c.dial(ctx, address)
		if err != nil {
			return nil, dialError{err}
		}
		return conn, nil
	}
	c.transport = &http.Transport{DialContext: dial, DialTLSContext: dial, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, DisableKeepAlives: keep == Once}
	return c
}

// handshake connects with TLS.
func handshake(ctx context.Context, config *tls.Config, connect Dialer, address string) (net.Conn, error) {
	conn, err := connect(ctx, address)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	own := config.Clone()
	own.ServerName = host
	secure := tls.Client(conn, own)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
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

// URL returns the address of a path of a member.
func (c *Client) URL(host, path string) string {
	if c.secure {
		return "https://" + host + path
	}
	return "http://" + host + path
}

// Do sends a request. The error wraps [ErrNotLeader] if the request cannot have changed anything, and
// [ErrUnknown] otherwise.
func (c *Client) Do(request *http.Request) (*http.Response, error) {
	response, err := c.transport.RoundTrip(request)
	var unsent dialError
	switch {
	case err == nil:
		return response, nil
	case errors.As(err, &unsent):
		return nil, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
}

// Progress asks a leader how far it is.
func (c *Client) Progress(ctx context.Context, host string) (progress Progress, err error) {
	return progress, c.get(ctx, host, ProgressPath, &progress)
}

// Status asks a member for its status.
func (c *Client) Status(ctx context.Context, host string) (status Status, err error) {
	return status, c.get(ctx, host, "/v1/status", &status)
}

// Bootstrap asks a member to make a cluster of itself: see member.Member.Bootstrap.
func (c *Client) Bootstrap(ctx context.Context, host, cluster string) error {
	return c.put(ctx, host, "/v1/cluster", ClusterBody{Name: cluster})
}

// Transfer asks the cluster of a member to hand its leadership over: see member.Member.Transfer.
func (c *Client) Transfer(ctx context.Context, host, id string) error {
	return c.put(ctx, host, "/v1/leader", LeaderBody{ID: id})
}

// Leave asks the cluster of a member to remove a member: see member.Member.Leave.
func (c *Client) Leave(ctx context.Context, host, id string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, c.URL(host, MembersPath+url.PathEscape(id)), nil)
	if err != nil {
		return err
	}
	return c.exchange(request, &struct{}{})
}

// maxSilence is how long a followed member may say nothing. It sends its status every 15 s at least.
const maxSilence = 35 * time.Second

// errSilent is the error of a member that has stopped to send.
var errSilent = fmt.Errorf("it has said nothing for %v", maxSilence)

// Follow calls seen with the status of a member, at once and when it changes. It ends with ctx, with the connection, or
// when the member has said nothing for 35 s, and returns that error.
func (c *Client) Follow(ctx context.Context, host string, seen func(Status)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(maxSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL(host, "/v1/status?watch=true"), nil)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return &AnswerError{Code: response.StatusCode}
	}
	for decoder := json.NewDecoder(response.Body); ; {
		var status Status
		if err := decoder.Decode(&status); err != nil {
			if silent := context.Cause(ctx); errors.Is(silent, errSilent) {
				err = silent
			}
			return fmt.Errorf("following the status of %s: %w", host, err)
		}
		silence.Reset(maxSilence)
		seen(status)
	}
}

// Join asks the cluster of a member to let another one join: see member.Member.Join.
func (c *Client) Join(ctx context.Context, host string, joining Server) error {
	return c.put(ctx, host, MembersPath+url.PathEscape(joining.ID), JoinBody{Address: joining.Address, Voter: joining.Voter})
}

func (c *Client) put(ctx context.Context, host, path string, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, c.URL(host, path), bytes.NewReader(content))
	if err != nil {
		return err
	}
	return c.exchange(request, &struct{}{})
}

// limit bounds the answers that the client reads.
const limit = 1 << 20

func (c *Client) get(ctx context.Context, host, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL(host, path), nil)
	if err != nil {
		return err
	}
	return c.exchange(request, into)
}

// exchange sends a request and reads the answer. It fails unless the code is 200.
func (c *Client) exchange(request *http.Request, into any) (err error) {
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer func() {
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, limit)) // The connection can be used again.
		_ = response.Body.Close()
	}()
	if response.StatusCode != http.StatusOK {
		return answerError(response)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, limit)).Decode(into); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", request.URL, err)
	}
	return nil
}

// answerError returns the error of an answer that is no success.
func answerError(response *http.Response) error {
	var said Failure
	_ = json.NewDecoder(io.LimitReader(response.Body, limit)).Decode(&said)
	return &AnswerError{Code: response.StatusCode, Message: said.Error}
}

// AnswerError is the error of a member that answered with a code other than 200.
type AnswerError struct {
	Code    int
	Message string
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("it answered %d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
}
