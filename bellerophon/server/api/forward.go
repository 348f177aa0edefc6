package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
)

// forwarded marks a request that a member has forwarded. It is not forwarded again.
const forwarded = "Bellerophon-Forwarded"

// content returns the body of a request from its start. It is called for each attempt.
type content func() (io.ReadCloser, error)

// onLeader carries out a change on the leader, and answers the request. If this member leads, it calls local, which
// returns the body of the answer. Otherwise it forwards the request. It waits for a leader, and repeats an
// attempt only if the attempt changed nothing.
func (a *API) onLeader(w http.ResponseWriter, r *http.Request, body content, local func(context.Context) (any, error)) {
	a.onLeaderWithin(a.Patience, w, r, body, local)
}

// onLeaderWithin does what onLeader does, within a time for the request as a whole.
func (a *API) onLeaderWithin(patience time.Duration, w http.ResponseWriter, r *http.Request, body content, local func(context.Context) (any, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	for {
		changed := a.member.Changed()
		reason := fmt.Errorf("%w, and there is no leader", client.ErrNotLeader)
		switch host := a.member.LeaderHost(); {
		case a.member.Leads():
			done, err := local(ctx)
			if err == nil {
				answer(w, http.StatusOK, done)
				return
			}
			if !errors.Is(err, client.ErrNotLeader) {
				fail(w, err)
				return
			}
			reason = err
		case r.Header.Get(forwarded) != "":
			fail(w, client.ErrNotLeader) // The member that forwarded it knows better when to try again.
			return
		case host != "":
			err := a.forward(ctx, w, r, host, body)
			if err == nil {
				return
			}
			if !errors.Is(err, client.ErrNotLeader) {
				fail(w, err)
				return
			}
			reason = err
		}
		if err := wait(ctx, changed, reason); err != nil {
			fail(w, err)
			return
		}
	}
}

// forward sends a request to the leader and copies its answer. It has answered unless it returns an error,
// which wraps [client.ErrNotLeader] if nothing was changed.
func (a *API) forward(ctx context.Context, w http.ResponseWriter, r *http.Request, host string, body content) error {
	sent, err := body()
	if err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, a.Client.URL(host, r.URL.EscapedPath()), sent)
	if err != nil {
		return errors.Join(err, sent.Close())
	}
	request.URL.RawQuery = r.URL.RawQuery
	request.Header = r.Header.Clone()
	request.Header.Set(forwarded, "true")
	request.Header.Del("Connection")
	response, err := a.Client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusServiceUnavailable {
		return fmt.Errorf("%w: %s answered %s", client.ErrNotLeader, host, response.Status)
	}
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body) // The code is sent; a client sees by the length that the rest is missing.
	return nil
}
