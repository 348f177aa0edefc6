package sources

import (
	"cmp"
	"fmt"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// firstPage is how much is told before the list at most, where lists have no pages.
const firstPage = 500

// first tells of what is to be told before the list. It is done before the list is asked for:
// what was deleted in between is then not in the list. Where it fails, the list tells of the same,
// or why it cannot.
func (s *sink) first() {
	w := s.watcher
	if w.options.First == "" {
		return
	}
	_ = lifecycle.Guard(func() error { // Decoding may panic, as in reflect.
		ctx, cancel := w.within(s.ctx, maxAnswer)
		defer cancel()
		list, err := w.get(ctx, metav1.ListOptions{FieldSelector: w.options.First, Limit: int64(cmp.Or(w.options.PageSize, firstPage))})
		if apierrors.IsBadRequest(err) { // It will be so for ever, and somebody may mend it.
			w.inlet.Error(s.ctx, &streams.Error{Source: w.name, Err: &RequestError{
				Verb: "list", Kind: w.kind, Namespace: w.namespace, Err: fmt.Errorf("first, those with %q: %w", w.options.First, err),
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
		for _, object := range page.Items {
			event, err := s.of(streams.Applied, object)
			if err != nil {
				return err
			}
			events = append(events, event)
		}
		if len(events) > 0 {
			w.inlet.Put(s.ctx, events...)
		}
		return nil
	})
}

// both is two field selectors, one of which may be empty, as one.
func both(one, other string) string {
	if one == "" || other == "" {
		return one + other
	}
	return one + "," + other
}
