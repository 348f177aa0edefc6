package controller_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// oracleCredentials holds the token that the server accepts. The manager reads its own token from a file, as a
// Pod reads the token of its ServiceAccount.
type oracleCredentials struct {
	file     string // empty if the server accepts requests without a token
	accepted int
}

// admits reports whether the server accepts the token of a request. The caller holds o.mu.
func (c *oracleCredentials) admits(request *http.Request) bool {
	return c.file == "" || request.Header.Get("Authorization") == fmt.Sprint("Bearer token-", c.accepted)
}

// expire makes the server refuse the token of the file. The caller holds o.mu.
func (c *oracleCredentials) expire() { c.accepted++ }

// write puts the token that the server accepts into the file. It replaces the file at once, as the kubelet does.
// The caller holds o.mu.
func (c *oracleCredentials) write() error {
	if c.file == "" {
		return nil
	}
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Append(nil, "token-", c.accepted), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.file)
}

// useTokens makes the server demand a token, which the manager reads from a file in a directory.
func (o *oracle) useTokens(directory string) (file string, err error) {
	o.credentials = oracleCredentials{file: filepath.Join(directory, "token"), accepted: 1}
	return o.credentials.file, o.credentials.write()
}

// forward forwards a request to the server, over a connection that may end before the answer.
func (o *oracle) forward(request *http.Request) (*http.Response, error) {
	o.mu.Lock()
	admitted := o.credentials.admits(request)
	o.mu.Unlock()
	if !admitted {
		return refusal(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "the token is not valid"), nil
	}
	answer, err := o.server.RoundTrip(request)
	if err != nil {
		return answer, err
	}
	if err := o.goAways.lose(answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// errGoAway has the text of the HTTP/2 transport's error, by which client-go recognizes it.
var errGoAway = errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=""`)

// oracleGoAways makes the connections of the manager end by a GOAWAY.
type oracleGoAways struct {
	ended   atomic.Int64 // the number of connections that ended
	answers atomic.Int64 // the number of answers that are still lost
}

// goAway ends the connection of all watches. The server handles the next two requests, and their answers are
// lost, as if they had been in flight.
func (o *oracle) goAway() {
	o.goAways.ended.Add(1)
	o.goAways.answers.Store(2)
	o.server.Break()
}

// lose returns the error of a request whose answer a GOAWAY loses, or nil.
func (g *oracleGoAways) lose(answer *http.Response) error {
	if g.answers.Load() == 0 || g.answers.Add(-1) < 0 {
		return nil
	}
	if err := answer.Body.Close(); err != nil {
		return err
	}
	return errGoAway
}
