package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
)

// key handles one key.
func (a *API) key(w http.ResponseWriter, r *http.Request, key string) {
	if err := store.ValidateKey(key); err != nil {
		fail(w, err)
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		a.get(w, r, key)
	case http.MethodPut:
		a.change(w, r, store.Command{Kind: store.Put, Key: key})
	case http.MethodDelete:
		a.change(w, r, store.Command{Kind: store.Delete, Key: key})
	default:
		w.Header().Set("Allow", "GET, HEAD, PUT, DELETE")
		refuse(w, http.StatusMethodNotAllowed, fmt.Errorf("the method is %s; allowed are GET, HEAD, PUT and DELETE", r.Method))
	}
}

// isLocal reports whether a read may be old. Such a read needs no leader.
func isLocal(r *http.Request) (bool, error) {
	switch consistency := r.URL.Query().Get("consistency"); consistency {
	case "", "linearizable":
		return false, nil
	case "local":
		return true, nil
	default:
		return false, fmt.Errorf("%w consistency %q; allowed are linearizable and local", store.ErrInvalid, consistency)
	}
}

// readable prepares a read, and answers the request if it cannot be served.
func (a *API) readable(w http.ResponseWriter, r *http.Request) bool {
	local, err := isLocal(r)
	if err == nil && !local {
		err = a.current(r.Context())
	}
	if err != nil {
		fail(w, err)
	}
	return err == nil
}

// revisionHeader has the revision of the store at a read.
const revisionHeader = "Bellerophon-Revision"

func (a *API) get(w http.ResponseWriter, r *http.Request, key string) {
	if !a.readable(w, r) {
		return
	}
	entry, revision, exists := a.member.Store().Get(key)
	w.Header().Set(revisionHeader, strconv.FormatUint(revision, 10))
	if !exists {
		refuse(w, http.StatusNotFound, fmt.Errorf("there is no key %q", key))
		return
	}
	w.Header().Set("ETag", etag(entry.Revision))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(entry.Value)))
	_, _ = w.Write(entry.Value)
}

func etag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

// changed is the answer to a change.
type changed struct {
	Revision uint64 `json:"revision"` // of the store
	Key      uint64 `json:"key"`      // the revision of the key; 0 if it does not exist
	Changed  bool   `json:"changed"`
}

// refusedError means that the key has another revision than the request wants.
type refusedError struct{ has uint64 }

func (e refusedError) Error() string {
	if e.has == 0 {
		return "the key does not exist"
	}
	return fmt.Sprintf("the key has the revision %d", e.has)
}

func (a *API) change(w http.ResponseWriter, r *http.Request, command store.Command) {
	var err error
	if command.If, err = condition(r.Header); err != nil {
		fail(w, err)
		return
	}
	if command.Kind == store.Put {
		if command.Value, err = io.ReadAll(http.MaxBytesReader(w, r.Body, store.MaxValue)); err != nil {
			code := http.StatusBadRequest
			if errors.As(err, new(*http.MaxBytesError)) {
				code = http.StatusRequestEntityTooLarge
				err = fmt.Errorf("the value has more than %d bytes", store.MaxValue)
			}
			refuse(w, code, err)
			return
		}
	}
	body := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(command.Value)), nil }
	a.onLeader(w, r, body, func(ctx context.Context) (any, error) {
		if err := a.fits(command); err != nil {
			return nil, err
		}
		result, err := a.member.Propose(ctx, command)
		switch {
		case err != nil:
			return nil, err
		case result.Refused:
			return nil, refusedError{result.Key}
		}
		return changed{Revision: result.Revision, Key: result.Key, Changed: result.Changed}, nil
	})
}

// fits returns errFull if a command would exceed the quota. Commands in flight are not counted, so they may
// exceed it by their own size. A smaller value for a key always fits.
func (a *API) fits(command store.Command) error {
	held, more := a.member.Store().Size().Bytes, int64(len(command.Key)+len(command.Value))
	if before, _, exists := a.member.Store().Get(command.Key); exists {
		more -= int64(len(before.Key) + len(before.Value))
	}
	if command.Kind == store.Put && more > 0 && held+more > a.Quota {
		return fmt.Errorf("%w: it has %d of %d bytes; delete keys, or start the members with a larger --quota", errFull, held, a.Quota)
	}
	return nil
}

// condition returns the revision that a request wants the key to have, or nil for any. RFC 9110
// defines the headers in section 13.
func condition(header http.Header) (*uint64, error) {
	match, none := header.Get("If-Match"), header.Get("If-None-Match")
	switch {
	case match == "" && none == "":
		return nil, nil
	case match != "" && none != "":
		return nil, fmt.Errorf("%w condition: give If-Match or If-None-Match, not both", store.ErrInvalid)
	case none == "*":
		return new(uint64), nil
	case none != "":
		return nil, fmt.Errorf("%w If-None-Match %q; allowed is *, which means that the key must not exist", store.ErrInvalid, none)
	}
	revision, err := strconv.ParseUint(strings.Trim(match, `"`), 10, 64)
	if err != nil || revision == 0 {
		return nil, fmt.Errorf("%w If-Match %q; allowed is the ETag of an earlier answer, such as \"7\"", store.ErrInvalid, match)
	}
	return &revision, nil
}

// entry is an element of a list. The value is in base64, as in all JSON of bytes.
type entry struct {
	Key      string `json:"key"`
	Value    []byte `json:"value"`
	Revision uint64 `json:"revision"`
}

// listed is the answer to a list.
type listed struct {
	Revision uint64  `json:"revision"` // of the store; a watch from here misses nothing
	Entries  []entry `json:"entries"`
	// More means that there are more entries. A list with after=KEY, the last key here, goes on. It may be of a
	// later revision.
	More bool `json:"more"`
}

// largestPage is how many entries a list has at most.
const largestPage = 1000

func (a *API) list(w http.ResponseWriter, r *http.Request) {
	query, limit := r.URL.Query(), largestPage
	if text := query.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > largestPage {
			fail(w, fmt.Errorf("%w limit %q; allowed are 1 to %d", store.ErrInvalid, text, largestPage))
			return
		}
	}
	if !a.readable(w, r) {
		return
	}
	held, revision, more := a.member.Store().List(query.Get("prefix"), query.Get("after"), limit)
	body := listed{Revision: revision, Entries: make([]entry, len(held)), More: more}
	for i, one := range held {
		body.Entries[i] = entry{one.Key, one.Value, one.Revision}
	}
	answer(w, http.StatusOK, body)
}
