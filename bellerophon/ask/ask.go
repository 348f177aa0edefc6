// Package ask asks the metrics server of a running operator.
package ask

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
)

// Server is the metrics server of an operator.
type Server struct {
	URL         string // such as http://127.0.0.1:8080
	TokenFile   string // of a bearer token; empty for none
	Authorities string // a file with certificates in PEM; empty for the authorities of the system
	Insecure    bool   // do not verify the certificate of the server
	// Timeout bounds an answer. Of a question that follows, it bounds how long the server may send nothing. 0 means
	// DefaultTimeout.
	Timeout time.Duration

	token string // used without a TokenFile
}

// Transport returns a transport of requests to the server, which adds the token to each of them.
func (s Server) Transport() (http.RoundTripper, error) {
	config := &tls.Config{InsecureSkipVerify: s.Insecure} //nolint:gosec // A person asked for it by a flag.
	if s.Authorities != "" {
		read, err := os.ReadFile(s.Authorities)
		if err != nil {
			return nil, fmt.Errorf("reading --certificate-authority: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(read) {
			return nil, fmt.Errorf("--certificate-authority: %s has no certificate in PEM", s.Authorities)
		}
	}
	made := &transport{server: s, next: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	_, err := made.token()
	return made, err
}

// transport adds the token of a server to requests.
type transport struct {
	server Server
	next   http.RoundTripper
}

// token reads the token, because the file of a pod's token changes.
func (t *transport) token() (string, error) {
	if t.server.TokenFile == "" {
		return t.server.token, nil
	}
	read, err := os.ReadFile(t.server.TokenFile)
	if err != nil {
		return "", fmt.Errorf("reading --token-file: %w", err)
	}
	return strings.TrimSpace(string(read)), nil
}

// RoundTrip sends a request with the token. A server without TLS is unprotected and gets the request without it, if it was asked for
// with TLS.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := t.token()
	if err != nil {
		return nil, err
	}
	sent := request.Clone(request.Context())
	sent.Header.Del("Authorization")
	if token != "" {
		sent.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := t.next.RoundTrip(sent)
	var noTLS tls.RecordHeaderError
	if errors.As(err, &noTLS) && string(noTLS.RecordHeader[:]) == "HTTP/" {
		sent = request.Clone(request.Context())
		sent.URL.Scheme = "http"
		sent.Header.Del("Authorization")
		return t.next.RoundTrip(sent)
	}
	return response, err
}

// DefaultTimeout is the timeout of an answer.
const DefaultTimeout = 15 * time.Second

// Question is a question to an operator.
type Question struct {
	Path   string // such as /debug/why
	Query  url.Values
	Follow bool          // more answers come until the context ends, or the server ends
	Again  time.Duration // without Follow: the pause until the question is asked a second time; 0 for once
}

// Ask asks a question, and calls each with the answer. If the question follows, more answers come until ctx ends, each returns an
// error, or the server ends.
func Ask[T any](ctx context.Context, s Server, q Question, each func(T) error) error {
	if err := askOnce(ctx, s, q, each); err != nil || q.Follow || q.Again == 0 {
		return err
	}
	select {
	case <-time.After(q.Again):
	case <-ctx.Done():
		return ctx.Err()
	}
	return askOnce(ctx, s, q, each)
}

// askOnce asks a question as [Ask] does, but not again.
func askOnce[T any](ctx context.Context, s Server, q Question, each func(T) error) error {
	patience := cmp.Or(s.Timeout, DefaultTimeout)
	silent := silence(patience)
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(patience, func() { cancel(silent) })
	defer watchdog.Stop()
	query := maps.Clone(q.Query)
	if q.Follow {
		if query == nil {
			query = url.Values{}
		}
		query.Set("follow", "true")
	}
	response, err := s.get(bounded, q.Path, query)
	switch {
	case err != nil && context.Cause(bounded) == silent: //nolint:errorlint // It is this very error.
		return silent
	case err != nil:
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body := &body{Reader: response.Body, came: func() {}}
	if q.Follow {
		body.came = func() { watchdog.Reset(patience) }
	}
	err = decode(body, each)
	switch {
	case err == nil && q.Follow && context.Cause(bounded) == silent: //nolint:errorlint // A server that notices the end may still end its answer well.
		return silent
	case err == nil || !errors.Is(err, errAnswer):
		return err
	case context.Cause(bounded) == silent: //nolint:errorlint // It is this very error.
		return silent
	case ctx.Err() != nil && q.Follow:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// silence returns the error about an operator that does not answer.
func silence(patience time.Duration) error {
	return fmt.Errorf("the operator has not answered for %v; it hangs, or the network does: look at its log, or raise --timeout", patience)
}

// Read asks for a path whose answer is not JSON, and calls read with the answer. It ends when ctx ends.
func Read(ctx context.Context, s Server, path string, read func(io.Reader) error) error {
	patience := cmp.Or(s.Timeout, DefaultTimeout)
	silent := silence(patience)
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(patience, func() { cancel(silent) })
	response, err := s.get(bounded, path, nil)
	watchdog.Stop()
	switch {
	case err != nil && context.Cause(bounded) == silent: //nolint:errorlint // It is this very error.
		return silent
	case err != nil:
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if err := read(response.Body); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// get asks for a path, and returns an answer that is a success.
func (s Server) get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	asking, err := s.Transport()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.URL, "/")+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("--server is %s; give a URL such as http://127.0.0.1:8080: %w", s.URL, err)
	}
	response, err := asking.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("the operator does not answer: %w; name its metrics server with --server, or forward a port to it", err)
	}
	if response.StatusCode != http.StatusOK {
		defer func() { _ = response.Body.Close() }()
		return nil, refused(response, path)
	}
	return response, nil
}

// maxRefusal bounds what is shown of an answer that is no success.
const maxRefusal = 1024

// Refusal is an answer that is no success.
type Refusal struct {
	Code int // of HTTP
	text string
}

func (r *Refusal) Error() string { return r.text }

// IsLasting reports whether the same question will be refused again: for its words, or for its user.
func (r *Refusal) IsLasting() bool {
	return r.Code == http.StatusBadRequest || r.Code == http.StatusUnauthorized || r.Code == http.StatusForbidden
}

// refused returns the error for an answer that is no success.
func refused(response *http.Response, path string) error {
	read, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // What was read until then says enough.
	text := strings.TrimSpace(screen.Clean(string(read)))
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		text = "the operator needs a token; give one with --token-file, such as kubectl create token writes"
	case response.StatusCode == http.StatusForbidden:
		text = fmt.Sprintf("the token's user may not get %s; grant it as a nonResourceURL in a ClusterRole: see docs/permissions.md", path)
	case response.StatusCode == http.StatusNotFound && text == "404 page not found": // Of the server itself, which does not know the path.
		text = fmt.Sprintf("the server has no %s; is it the metrics server of an operator? /debug/why also needs the history", path)
	case text == "":
		text = fmt.Sprintf("the server answers %s to %s; is it the metrics server of an operator?", screen.Clean(response.Status), path)
	}
	return &Refusal{response.StatusCode, text}
}
