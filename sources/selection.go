package sources

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Selecting holds the [streams.Selection] of a watch, which may change. The zero value has none so far. Its
// methods may be called from any goroutine.
type Selecting struct {
	mu      sync.Mutex
	now     *streams.Selection
	changed chan struct{} // closed at the next change; nil while no reader waits
}

// Set sets the selection, which is not nil. The cache must have it already.
func (s *Selecting) Set(selection *streams.Selection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now = selection; s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// await returns the selection, and a channel that is closed when it changes.
func (s *Selecting) await() (now *streams.Selection, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.now, s.changed
}

// current returns the selection, or nil if there is none.
func (s *Selecting) current() *streams.Selection {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// number returns the number of the selection.
func (s *Selecting) number() int64 {
	if now := s.current(); now != nil {
		return now.Number
	}
	return 0
}

// server returns the selector for the API server.
func (s *Selecting) server() string {
	if now := s.current(); now != nil {
		return now.Server
	}
	return ""
}

// begun waits for the first selection, and returns false if ctx ends before.
func (s *Selecting) begun(ctx context.Context) bool {
	for s != nil {
		now, changed := s.await()
		if now != nil {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// selecting is the part of a watcher that follows the selection.
type selecting struct {
	woken chan struct{} // has a token when a list is complete or a watch was opened
	read  int64         // the number of the selection that was emitted; guarded by watcher.emitting
	lists int           // lists that were emitted; guarded by watcher.emitting
}

func (s *selecting) poke() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// followSelection emits the objects of each part by which the selection grows, until ctx ends. The watch goes
// on meanwhile: a change that it reports is newer than what is read, or already in it.
func (w *watcher) followSelection(ctx context.Context) error {
	var last *streams.Selection
	for ctx.Err() == nil {
		now, changed := w.options.Selecting.await()
		w.emitting.Lock()
		read, lists := w.selecting.read, w.selecting.lists
		w.emitting.Unlock()
		switch {
		case lists == 0 || !w.fresh.selects(now.Server):
			// The first list emits everything. A watch with another selector ends, and the next one pokes.
		case read < now.Number:
			if !w.readSelection(ctx, now, read, lists) {
				_ = lifecycle.Pause(ctx, time.Second) // The loop looks at ctx.
			}
			continue
		case now != last: // The event lets the cache drop what is no longer selected.
			last = now
			w.queue.Put(ctx, w.selected(now.Number))
		}
		select {
		case <-changed:
		case <-w.selecting.woken:
		case <-ctx.Done():
		}
	}
	return nil
}

// selected returns the event that says that everything of a selection was emitted.
func (w *watcher) selected(number int64) streams.Event {
	event := w.event(streams.Selected)
	event.ResourceVersion = strconv.FormatInt(number, 10)
	return event
}

// readSelection emits the objects that belong to a selection and did not belong to the one that was read. It
// returns false if it has to be tried again.
func (w *watcher) readSelection(ctx context.Context, now *streams.Selection, read int64, lists int) bool {
	query := metav1.ListOptions{Limit: int64(cmp.Or(w.options.PageSize, firstPage))}
	for {
		page, err := w.readPage(ctx, query)
		if err != nil {
			if ctx.Err() == nil {
				w.status.Errors.Add(1)
				w.queue.Error(ctx, &streams.Error{Source: w.name, Err: &RequestError{Verb: "list", Kind: w.kind, Namespace: w.namespace, Err: err}})
			}
			return false
		}
		var events []streams.Event
		for _, object := range page.objects {
			if since, kept := now.Keeps(object); kept && since > read {
				event := w.event(streams.Applied)
				event.Key = streams.KeyOf(event.Key.GroupKind, object)
				event.Object, event.ResourceVersion = object, object.GetResourceVersion()
				events = append(events, event)
			}
		}
		query.Continue = page.next
		if query.Continue == "" {
			events = append(events, w.selected(now.Number))
		}
		w.emitting.Lock()
		if w.selecting.lists != lists { // A later list has replaced everything, so these pages are too old.
			w.emitting.Unlock()
			return true
		}
		if query.Continue == "" {
			w.selecting.read = now.Number
		}
		w.queue.Put(ctx, events...)
		w.emitting.Unlock()
		if query.Continue == "" {
			return true
		}
	}
}

// selectedPage is a page of a list.
type selectedPage struct {
	objects []streams.Object
	next    string // the token of the next page; empty for the last one
}

func (w *watcher) readPage(ctx context.Context, query metav1.ListOptions) (page selectedPage, err error) {
	ctx, cancel := w.within(ctx, maxAnswer)
	defer cancel()
	list, err := w.get(ctx, query)
	if err != nil {
		return page, err
	}
	kept, err := w.kept(list)
	if err != nil {
		return page, err
	}
	for _, object := range kept.Items {
		page.objects = append(page.objects, object.(streams.Object))
	}
	page.next = kept.Continue
	return page, nil
}

// selects reports whether the open watch has the selector of a selection. A watch with another one ends, and
// the reflector opens the next one at the version at which it ended.
func (f *freshness) selects(selector string) bool {
	f.mu.Lock()
	open := f.open
	f.mu.Unlock()
	if open != nil && open.selector == selector {
		return true
	}
	if open != nil {
		f.stop()
	}
	return open == nil && selector == ""
}
