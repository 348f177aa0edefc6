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

// client returns the client for the server, and the token.
func (s Server) client() (*http.Client, string, error) {
	config := &tls.Config{InsecureSkipVerify: s.Insecure} //nolint:gosec // A person asked for it by a flag.
	if s.Authorities != "" {
		read, err := os.ReadFile(s.Authorities)
		if err != nil {
			return nil, "", fmt.Errorf("reading --certificate-authority: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(read) {
			return nil, "", fmt.Errorf("--certificate-authority: %s has no certificate in PEM", s.Authorities)
		}
	}
	token := s.token
	if s.TokenFile != "" {
		read, err := os.ReadFile(s.TokenFile)
		if err != nil {
			return nil, "", fmt.Errorf("reading --token-file: %w", err)
		}
		token = strings.TrimSpace(string(read))
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}, token, nil
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
	client, token, err := s.client()
	if err != nil {
		return err
	}
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.URL, "/")+q.Path+"?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("--server is %s; give a URL such as http://127.0.0.1:8080: %w", s.URL, err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		request.URL.Scheme = "http" // It is unprotected, and needs no token.
		request.Header.Del("Authorization")
		response, err = client.Do(request)
	}
	if err != nil {
		return fmt.Errorf("the operator does not answer: %w; name its metrics server with --server, or forward a port to it", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return refused(response, q.Path)
	}
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
