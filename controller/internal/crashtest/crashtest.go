// Package crashtest stops a client at any of its writes, as the end of a process does. [World] is the fake
// API server of such a test, in virtual time.
package crashtest

import (
	"errors"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// Client is the connection of one client.
type Client struct {
	next http.RoundTripper

	// OnWrite, if set, is called before each write that is sent, with its HTTP method and the path of the
	// object.
	OnWrite func(method, path string)

	mu     sync.Mutex
	writes int
	stopAt int // the number of the last write, or 0
	after  bool
}

// ErrStopped is the error of requests after the last write.
var ErrStopped = errors.New("the client has stopped")

// New returns a client of the API server that a configuration connects to, and its configuration.
func New(config *rest.Config) (*Client, *rest.Config) {
	made := &Client{next: config.Transport}
	copied := rest.CopyConfig(config)
	copied.Transport = made
	return made, copied
}

// StopAt makes the client stop at its nth write from now: all requests fail from then on. after says
// whether that write is done, and only its answer is lost. It returns the client.
func (c *Client) StopAt(nth int, after bool) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopAt, c.after = c.writes+nth, after
	return c
}

// Writes returns the number of writes so far, and whether the client has stopped.
func (c *Client) Writes() (writes int, stopped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes, c.stopAt > 0 && c.writes >= c.stopAt
}

// RoundTrip implements http.RoundTripper.
func (c *Client) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		if _, stopped := c.Writes(); stopped {
			return nil, ErrStopped
		}
		return c.next.RoundTrip(request)
	}
	return c.write(request, request.URL.Path)
}

// write sends a write, unless the client has stopped.
func (c *Client) write(request *http.Request, object string) (*http.Response, error) {
	c.mu.Lock()
	stopped := c.stopAt > 0 && c.writes >= c.stopAt
	if !stopped {
		c.writes++
	}
	last := c.stopAt > 0 && c.writes == c.stopAt
	c.mu.Unlock()
	if stopped || last && !c.after {
		return nil, ErrStopped
	}
	if c.OnWrite != nil {
		c.OnWrite(request.Method, object)
	}
	answer, err := c.next.RoundTrip(request)
	if err == nil && last {
		return nil, errors.Join(ErrStopped, answer.Body.Close())
	}
	return answer, err
}
