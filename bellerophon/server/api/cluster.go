package api

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
)

// hungAfter is for how long a write to the volume may be in flight before the member counts as dead.
const hungAfter = 30 // seconds

func (a *API) alive(w http.ResponseWriter, _ *http.Request) {
	if hung := a.member.Hung().Seconds(); hung > hungAfter {
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("a write to the volume has been in flight for %.0f s", hung))
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

func (a *API) ready(w http.ResponseWriter, _ *http.Request) {
	if !a.member.IsReady() {
		status := a.member.Status()
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("the member is %s, and has no leader or is behind it", status.Role))
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

func (a *API) status(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "true" {
		a.follow(w, r)
		return
	}
	answer(w, http.StatusOK, a.member.Status())
}

// lookEvery is how often a followed status is looked at. Raft reports changes of the leadership, but none of the
// members, to followers.
const lookEvery = 250 * time.Millisecond

// follow sends the status as a line of JSON, at once and when it changes. Changes of its counters alone are sent
// once in each silence.
func (a *API) follow(w http.ResponseWriter, r *http.Request) {
	ctx, stop := merge(r.Context(), a.ending)
	defer stop()
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/jsonl")
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var sent time.Time
	var last client.Status
	for {
		changed, status := a.member.Changed(), a.member.Status()
		plain := status
		plain.Committed, plain.Applied, plain.Revision, plain.Keys, plain.Bytes = 0, 0, 0, 0, 0
		if !reflect.DeepEqual(plain, last) || time.Since(sent) > silence {
			if err := json.NewEncoder(w).Encode(status); err != nil {
				return
			}
			if err := out.Flush(); err != nil {
				return
			}
			last, sent = plain, time.Now()
		}
		select {
		case <-changed:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (a *API) progress(w http.ResponseWriter, _ *http.Request) {
	progress, err := a.member.Lead()
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, progress)
}

// largestBody bounds the bodies of requests that change the cluster.
const largestBody = 64 << 10

// read reads a body that is JSON, and answers the request if it cannot. It returns the body as it was.
func read(w http.ResponseWriter, r *http.Request, into any) (content, bool) {
	sent, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestBody))
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(sent))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(into)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("reading the body: %w", err))
		return nil, false
	}
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(sent)), nil }, true
}

// bootstrap makes a cluster of this member alone. It is never forwarded.
func (a *API) bootstrap(w http.ResponseWriter, r *http.Request) {
	var wanted client.ClusterBody
	if _, ok := read(w, r, &wanted); !ok {
		return
	}
	if err := a.member.Bootstrap(wanted.Name); err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, a.member.Status())
}

// done is the answer to a change of the cluster.
type done struct {
	Done bool `json:"done"`
}

func (a *API) join(w http.ResponseWriter, r *http.Request) {
	var wanted client.JoinBody
	body, ok := read(w, r, &wanted)
	if !ok {
		return
	}
	a.onLeader(w, r, body, func(ctx context.Context) (any, error) {
		return done{true}, a.member.Join(ctx, client.Server{ID: r.PathValue("id"), Address: wanted.Address, Voter: wanted.Voter})
	})
}

// leave removes a member. A leader that is asked to remove itself hands its leadership over, and the next leader
// removes it.
func (a *API) leave(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	none := func() (io.ReadCloser, error) { return http.NoBody, nil }
	a.onLeader(w, r, none, func(ctx context.Context) (any, error) {
		if id != a.member.ID() {
			return done{true}, a.member.Leave(ctx, id)
		}
		if err := a.member.Transfer(ctx, ""); err != nil {
			return nil, err
		}
		return nil, client.ErrNotLeader // So the request goes to the next leader.
	})
}

func (a *API) transfer(w http.ResponseWriter, r *http.Request) {
	var wanted client.LeaderBody
	body, ok := read(w, r, &wanted)
	if !ok {
		return
	}
	a.onLeader(w, r, body, func(ctx context.Context) (any, error) {
		return done{true}, a.member.Transfer(ctx, wanted.ID)
	})
}

// sumTrailer has the SHA-256 sum of a snapshot. The snapshot holds it, too.
const sumTrailer = "Bellerophon-Sha256"

func (a *API) backup(w http.ResponseWriter, r *http.Request) {
	if !a.readable(w, r) {
		return
	}
	snapshot := a.member.Store().Backup()
	w.Header().Set("Trailer", sumTrailer)
	w.Header().Set(revisionHeader, strconv.FormatUint(snapshot.Revision(), 10))
	w.Header().Set("Content-Type", "application/octet-stream")
	sum, err := snapshot.Write(w)
	if err != nil {
		a.Log.Warn("a snapshot was not sent as a whole", "reason", err)
		panic(http.ErrAbortHandler) // The client must not take it for a whole one.
	}
	w.Header().Set(sumTrailer, hex.EncodeToString(sum))
}

// restorePatience is the time for a restore. All members write the snapshot to their volumes, which takes seconds for a large one.
const restorePatience = 5 * time.Minute

// restore replaces all keys. The snapshot is verified before anything changes.
func (a *API) restore(w http.ResponseWriter, r *http.Request) {
	wanted, err := condition(r.Header)
	if err == nil && wanted != nil && *wanted != 0 {
		err = fmt.Errorf("%w condition: allowed is If-None-Match: *, which means that the cluster must have no keys", store.ErrInvalid)
	}
	if err != nil {
		fail(w, err)
		return
	}
	file, err := os.CreateTemp("", "bellerophon-restore-*")
	if err != nil {
		fail(w, err)
		return
	}
	defer func() { _ = file.Close() }()
	// The name goes now, so that a kill leaves nothing behind.
	if err := os.Remove(file.Name()); err != nil {
		fail(w, err)
		return
	}
	snapshot, err := store.Read(io.TeeReader(r.Body, file))
	if err != nil {
		fail(w, err)
		return
	}
	body := func() (io.ReadCloser, error) {
		size, err := file.Seek(0, io.SeekEnd)
		return io.NopCloser(io.NewSectionReader(file, 0, size)), err
	}
	a.onLeaderWithin(max(a.Patience, restorePatience), w, r, body, func(ctx context.Context) (any, error) {
		if size := snapshot.Bytes(); size > a.Quota {
			return nil, fmt.Errorf("%w: the snapshot has %d bytes, and allowed are %d; start the members with a larger --quota", errFull, size, a.Quota)
		}
		return done{true}, a.member.Restore(ctx, snapshot, wanted != nil)
	})
}

// merge returns a context that ends with either.
func merge(a, b context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(a)
	stop := context.AfterFunc(b, func() { cancel(context.Cause(b)) })
	return ctx, func() { stop(); cancel(nil) }
}
