// Package ask asks the metrics server of a running operator.
package ask

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Server is the metrics server of an operator.
type Server struct {
	URL         string // such as http://127.0.0.1:8080
	TokenFile   string // of a bearer token; empty for none
	Authorities string // a file with certificates in PEM; empty for the authorities of the system
	Insecure    bool   // do not verify the certificate of the server

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
	if err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		sent = request.Clone(request.Context())
		sent.URL.Scheme = "http"
		sent.Header.Del("Authorization")
		return t.next.RoundTrip(sent)
	}
	return response, err
}

// answerTimeout bounds a question that does not follow.
const answerTimeout = 30 * time.Second

// Question is a question to an operator.
type Question struct {
	Path   string // such as /debug/why
	Query  url.Values
	Follow bool // more answers come until the context ends, or the server ends
}

// Ask asks a question, and calls each with the answer. If the question follows, more answers come until ctx ends, each returns an
// error, or the server ends.
func Ask[T any](ctx context.Context, s Server, q Question, each func(T) error) error {
	if !q.Follow {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, answerTimeout)
		defer cancel()
	}
	query := maps.Clone(q.Query)
	if q.Follow {
		if query == nil {
			query = url.Values{}
		}
		query.Set("follow", "true")
	}
	response, err := s.get(ctx, q.Path, query)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	for decoder := json.NewDecoder(response.Body); ; {
		var answer T
		err := decoder.Decode(&answer)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("the operator's answer ended: %w", err)
		}
		if err := each(answer); err != nil {
			return err
		}
	}
}

// Read asks for a path whose answer is not JSON, and calls read with the answer. It ends when ctx ends.
func Read(ctx context.Context, s Server, path string, read func(io.Reader) error) error {
	response, err := s.get(ctx, path, nil)
	if err != nil {
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

// refused returns the error for an answer that is no success.
func refused(response *http.Response, path string) error {
	read, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // What was read until then says enough.
	said := strings.TrimSpace(string(read))
	switch response.StatusCode {
	case http.StatusUnauthorized:
		return errors.New("the operator needs a token; give one with --token-file, such as kubectl create token writes")
	case http.StatusForbidden:
		return fmt.Errorf("the token's user may not get %s; grant it as a nonResourceURL in a ClusterRole: see docs/permissions.md", path)
	case http.StatusNotFound:
		if said == "404 page not found" { // Of the server itself, which does not know the path.
			return fmt.Errorf("the server has no %s; is it the metrics server of an operator? /debug/why also needs the history", path)
		}
	}
	return errors.New(said)
}
