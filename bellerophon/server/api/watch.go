package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
)

// silence is after how long without an event a watch sends a comment. So both sides notice a dead connection.
const silence = 15 * time.Second

// patienceOfWrites is how long a client may take to read before its watch ends. It can go on from its last event.
const patienceOfWrites = 30 * time.Second

var kindNames = map[store.Kind]string{store.Put: "put", store.Delete: "delete"}

// watch sends events as server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html. The
// id of an event is its revision, so that a client that connects again misses nothing.
func (a *API) watch(w http.ResponseWriter, r *http.Request) {
	after, err := startOf(r)
	if err != nil {
		fail(w, err)
		return
	}
	if !a.readable(w, r) {
		return
	}
	held := a.member.Store()
	if after == nil {
		revision := held.Size().Revision
		after = &revision
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	send := func(text string) error {
		if err := out.SetWriteDeadline(time.Now().Add(patienceOfWrites)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		_, err := fmt.Fprint(w, text)
		return err
	}
	seen := func(event store.Event) error {
		data, err := json.Marshal(entry{event.Entry.Key, event.Entry.Value, event.Entry.Revision})
		if err != nil {
			return err
		}
		return send(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", event.Entry.Revision, kindNames[event.Kind], data))
	}
	if err := send(": watching after revision " + strconv.FormatUint(*after, 10) + "\n\n"); err != nil {
		return
	}
	ctx, stop := merge(r.Context(), a.ending)
	defer stop()
	err = held.Watch(ctx, store.Following{Prefix: r.URL.Query().Get("prefix"), After: *after, Silence: silence}, seen, func(silent bool) error {
		if silent {
			if err := send(":\n\n"); err != nil {
				return err
			}
		}
		return out.Flush()
	})
	if errors.Is(err, store.ErrExpired) {
		_ = send(fmt.Sprintf("event: expired\ndata: %q\n\n", err))
		_ = out.Flush()
	}
}

// startOf returns the revision after which a watch begins, or nil for the newest one. A client that connects
// again sends the id of its last event, which counts more than the address.
func startOf(r *http.Request) (*uint64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	if text == "" {
		return nil, nil
	}
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w revision %q; allowed is the revision of a list or an event", store.ErrInvalid, text)
	}
	return &revision, nil
}
