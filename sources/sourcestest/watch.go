package sourcestest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// watching is an open watch, and the body of its answer. One goroutine reads it, and applies all
// faults. Other goroutines may push events and close it.
type watching struct {
	server    *Server
	selected  selection
	stream    string // names the watch, for chance
	form      form
	bookmarks bool
	ctx       context.Context // of the request: an io.Reader does not get one
	cancel    context.CancelFunc
	until     time.Time // when the watch ends by itself
	from      uint64    // the version that the client has; the watch sends only later events and bookmarks

	// The server's lock guards these fields.
	pending []event
	ending  bool          // the watch ends when nothing is pending
	pushed  chan struct{} // has a token when an event was pushed
	broken  chan struct{} // closed when the connection breaks
	silent  chan struct{} // closed when nothing more is sent while the connection stays open

	// These fields belong to the reader.
	buffer   []byte
	end      error // what Read returns when the buffer is empty
	number   int   // the number of events so far
	held     *held
	bookmark time.Time // when the next bookmark is due

	collectAt time.Time // when the garbage collector is due, or zero
}

// held is an event that waits until another one has overtaken it.
type held struct {
	event     event
	withinKey bool
	until     time.Time
}

// Other goroutines call the functions below. The caller holds the lock.

func (w *watching) push(pushed ...event) {
	if isClosed(w.silent) {
		return
	}
	w.pending = append(w.pending, pushed...)
	w.wake()
}

func (w *watching) endWhenSent() {
	w.ending = true
	w.wake()
}

func (w *watching) wake() {
	select {
	case w.pushed <- struct{}{}:
	default:
	}
}

func (w *watching) breakOff() {
	delete(w.server.watches, w)
	close(w.broken)
}

func (w *watching) silence() {
	if !isClosed(w.silent) {
		close(w.silent)
		w.pending = nil
	}
}

// Read waits for the next event.
func (w *watching) Read(into []byte) (int, error) {
	for len(w.buffer) == 0 {
		if w.end != nil {
			return 0, w.end
		}
		w.advance()
	}
	n := copy(into, w.buffer)
	w.buffer = w.buffer[n:]
	return n, nil
}

// Close ends a blocked Read.
func (w *watching) Close() error {
	w.cancel()
	w.forget()
	return nil
}

func (w *watching) forget() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	delete(w.server.watches, w)
}

// over ends the watch after the buffer has been read. A held event is not sent, because nothing has
// overtaken it yet. A client that resumes gets it.
func (w *watching) over(end error) {
	w.end = end
	w.forget()
}

// advance sends the next event, ends the watch, or waits until one of these may be due.
func (w *watching) advance() {
	next, found, ending := w.next()
	now := time.Now()
	switch {
	case w.ctx.Err() != nil:
		w.over(w.ctx.Err())
	case isClosed(w.broken):
		w.over(io.ErrUnexpectedEOF)
	case isClosed(w.silent):
		select {
		case <-w.broken:
		case <-w.ctx.Done():
		}
	case found:
		w.send(next)
	case ending || !now.Before(w.until):
		w.over(io.EOF)
	case w.held != nil && !now.Before(w.held.until):
		w.release()
	default:
		wake := w.until
		if w.bookmarks && w.bookmark.Before(wake) {
			wake = w.bookmark
		}
		if w.held != nil && w.held.until.Before(wake) {
			wake = w.held.until
		}
		if !w.collectAt.IsZero() && w.collectAt.Before(wake) {
			wake = w.collectAt
		}
		w.wait(time.Until(wake), w.pushed)
	}
}

// lastBookmark is how long before its end a watch sends a bookmark, as real API servers do. A client that
// resumes is then up to date.
const lastBookmark = 2 * time.Second

// nextBookmark returns when the next bookmark is due.
func (w *watching) nextBookmark(now time.Time) time.Time {
	next := now.Add(w.server.options.Bookmarks)
	if last := w.until.Add(-lastBookmark); last.After(now) && last.Before(next) {
		return last
	}
	return next
}

// next takes a pending event, or a bookmark that is due. A bookmark is sent only if nothing is
// pending, because it promises that the client has everything up to the current version.
func (w *watching) next() (next event, found, ending bool) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.collect()
	w.collectAt = w.server.collectAt
	switch {
	case w.ctx.Err() != nil || isClosed(w.broken) || isClosed(w.silent):
		return event{}, false, w.ending
	case len(w.pending) > 0:
		next, w.pending = w.pending[0], w.pending[1:]
		return next, true, w.ending
	case w.bookmarks && !w.ending && !time.Now().Before(w.bookmark):
		w.bookmark = w.nextBookmark(time.Now())
		if w.server.version < w.from {
			return event{}, false, false
		}
		return bookmarkAt(w.selected.place, w.server.version, false), true, false
	}
	return event{}, false, w.ending
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// wait returns after duration, or earlier if the watch has to act.
func (w *watching) wait(duration time.Duration, early <-chan struct{}) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-w.broken:
	case <-w.silent:
	case <-w.ctx.Done():
	}
}

// send sends an event, or applies its fault.
func (w *watching) send(sent event) {
	fault, found := w.fault(sent)
	if !found {
		w.emit(sent)
		return
	}
	switch fault.Action {
	case Drop:
	case Duplicate:
		w.emit(sent)
		w.emit(sent)
	case Delay:
		w.wait(fault.For, nil)
		if w.ctx.Err() == nil && !isClosed(w.broken) && !isClosed(w.silent) {
			w.emit(sent)
		}
	case Reorder:
		if w.held != nil || sent.Type == watch.Bookmark {
			w.emit(sent)
			return
		}
		w.held = &held{sent, fault.WithinKey, time.Now().Add(fault.For)}
	case Cut:
		frame := w.encode(sent)
		w.buffer = append(w.buffer, frame[:len(frame)/2]...)
		w.over(io.ErrUnexpectedEOF)
	case End:
		w.over(io.EOF)
	case Expire:
		w.buffer = append(w.buffer, failed(apierrors.NewResourceExpired("the watch was expired by the test"))...)
		w.over(io.EOF)
	case Silence:
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		w.silence()
	case Fail:
		w.buffer = append(w.buffer, failed(fault.refusal("watch", w.selected.place.GroupResource(), ""))...)
		w.over(io.EOF)
	}
}

func (w *watching) fault(sent event) (Fault, bool) {
	if sent.Type != watch.Bookmark {
		w.number++
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	return w.server.decide(occasion{
		resource: w.selected.place.Resource, key: sent.key, event: sent.Type, stream: w.stream, number: w.number,
	})
}

// emit appends an event to the buffer, followed by the held event that it overtakes.
func (w *watching) emit(sent event) {
	if w.held != nil && (sent.Type == watch.Bookmark || sent.key == w.held.event.key && !w.held.withinKey) {
		w.release()
	}
	w.buffer = append(w.buffer, w.encode(sent)...)
	w.release()
}

func (w *watching) release() {
	if w.held != nil {
		w.buffer = append(w.buffer, w.encode(w.held.event)...)
		w.held = nil
	}
}

func (w *watching) encode(sent event) []byte {
	if object, is := sent.Object.(*unstructured.Unstructured); is {
		sent.Object = w.form.of(object)
	}
	return encoded(sent)
}

// failed returns an error as an encoded ERROR event.
func failed(err error) []byte {
	return encoded(event{Type: watch.Error, Object: statusOf(err)})
}

// bookmarkAt returns a bookmark, which may end the list at the beginning of a watch.
func bookmarkAt(place *served, version uint64, endOfList bool) event {
	metadata := map[string]any{"resourceVersion": strconv.FormatUint(version, 10)}
	if endOfList {
		metadata["annotations"] = map[string]any{metav1.InitialEventsAnnotationKey: "true"}
	}
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata}}
	object.SetGroupVersionKind(place.kind)
	return event{Type: watch.Bookmark, Object: object}
}

// encoded returns a value as JSON and a newline, which is the framing of watch events.
func encoded(value any) []byte {
	made, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("sourcestest: encoding %T: %v", value, err)) // All stored values came from JSON.
	}
	return append(made, '\n')
}
