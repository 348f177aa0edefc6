package sources

import (
	"cmp"
	"context"
	"fmt"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// firstPage bounds the objects that are emitted before the list, if lists have no pages.
const firstPage = 500

// first emits the objects selected by First. It runs before the list is requested, so that an
// object deleted in between is missing from the list. If it fails, the list emits the same objects,
// or reports why it cannot.
func (s *sink) first() {
	w := s.watcher
	if w.options.First == "" {
		return
	}
	told := w.options.OnFirst == nil
	tell := func(objects []streams.Object) {
		if !told {
			told = true
			w.options.OnFirst(objects)
		}
	}
	defer func() { tell(nil) }()
	_ = lifecycle.Guard(func() error { // Decoding may panic, for example in reflect.
		ctx, cancel := w.within(s.ctx, maxAnswer)
		defer cancel()
		query := metav1.ListOptions{FieldSelector: w.options.First, Limit: int64(cmp.Or(w.options.PageSize, firstPage))}
		list, err := w.get(ctx, query)
		if moved, _ := w.relocated(ctx, err); moved {
			list, err = w.get(ctx, query)
		}
		if apierrors.IsBadRequest(err) { // The request will never succeed; the caller has to correct the selector.
			w.queue.Error(s.ctx, &streams.Error{Source: w.name, Err: &RequestError{
				Verb: "list", Kind: w.kind, Namespace: w.namespace, Err: fmt.Errorf("option First %q: %w", w.options.First, err),
			}})
		}
		if err != nil {
			return err
		}
		page, err := w.kept(list)
		if err != nil {
			return err
		}
		events := make([]streams.Event, 0, len(page.Items))
		objects := make([]streams.Object, 0, len(page.Items))
		for _, object := range page.Items {
			event, err := s.of(streams.Applied, object)
			if err != nil {
				return err
			}
			events, objects = append(events, event), append(objects, event.Object)
		}
		tell(objects)
		if len(events) > 0 {
			w.queue.Put(s.ctx, events...)
		}
		return nil
	})
}

// begins waits until the first list may be requested. It returns false if ctx ends before.
func (w *watcher) begins(ctx context.Context) bool {
	if w.options.Begin == nil {
		return true
	}
	select {
	case <-w.options.Begin:
		return true
	case <-ctx.Done():
		return false
	}
}

// both joins two field selectors, either of them possibly empty.
func both(one, other string) string {
	if one == "" || other == "" {
		return one + other
	}
	return one + "," + other
}
