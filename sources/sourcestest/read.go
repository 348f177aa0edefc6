package sourcestest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// token is the continue token of a list.
type token struct {
	Version uint64
	After   types.NamespacedName
}

func (s *Server) list(place *served, made *request) (any, error) {
	selected, err := made.selection(place)
	if err != nil {
		return nil, err
	}
	limit, err := made.number("limit")
	if err != nil {
		return nil, err
	}
	at, err := s.versionOf(made)
	if err != nil {
		return nil, err
	}
	from := token{Version: s.version}
	if made.query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact) {
		from.Version = at
	}
	if text := made.query.Get("continue"); text != "" {
		decoded, err := base64.RawURLEncoding.DecodeString(text)
		if err == nil {
			err = json.Unmarshal(decoded, &from)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("continue key is not valid: %v", err))
		}
	}
	if from.Version > s.version { // The list was begun before a Restore.
		return nil, s.tooLarge(from.Version)
	}
	was, err := s.past(place, from.Version)
	if err != nil {
		return nil, err
	}
	items, more := selected.page(was, from.After, limit)
	var next string
	if more {
		next = base64.RawURLEncoding.EncodeToString(encoded(token{from.Version, keyOf(items[limit-1])}))
	}
	return made.form.list(place, from.Version, next, items), nil
}

// versionOf returns the resource version in a request, or 0 if it has none.
func (s *Server) versionOf(made *request) (uint64, error) {
	version, err := made.number("resourceVersion")
	if err == nil && version > s.version {
		return 0, s.tooLarge(version)
	}
	return version, err
}

func (s *Server) tooLarge(version uint64) error {
	tooLarge := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, s.version), 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return tooLarge
}

// noStreamedLists returns the refusal of a server without the feature WatchList.
func noStreamedLists() error {
	return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", field.ErrorList{
		field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
	})
}

// open opens a watch.
func (s *Server) open(place *served, made *request) (io.ReadCloser, error) {
	selected, err := made.selection(place)
	if err != nil {
		return nil, err
	}
	streamed := made.query.Get("sendInitialEvents") == "true"
	noBookmarks := s.options.NoBookmarks || place.unversioned
	if streamed && noBookmarks {
		return nil, noStreamedLists()
	}
	version, err := made.number("resourceVersion")
	if err != nil {
		return nil, errors.New(err.Error()) // API servers answer with code 500 here.
	}
	timeout, err := made.number("timeoutSeconds")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(made.Context())
	w := &watching{
		server: s, selected: selected, form: made.form, ctx: ctx, cancel: cancel,
		stream:    fmt.Sprintf("%s #%d", made.stream(), s.numbers[made.stream()]),
		bookmarks: made.query.Get("allowWatchBookmarks") == "true" && !noBookmarks,
		until:     time.Now().Add(either(time.Duration(timeout)*time.Second, time.Hour)),
		pushed:    make(chan struct{}, 1), broken: make(chan struct{}), silent: make(chan struct{}),
	}
	w.bookmark = w.nextBookmark(time.Now())
	switch {
	case streamed && version > s.version: // Other watches may begin at a future version.
		w.buffer, w.end = failed(s.tooLarge(version)), io.EOF
		return w, nil
	case streamed || version == 0:
		for _, object := range selected.of(place.objects) {
			w.push(event{watch.Added, object, keyOf(object)})
		}
		if streamed && w.bookmarks {
			w.push(bookmarkAt(place, s.version, true))
		}
	case version < s.forgot:
		w.buffer, w.end = failed(expired(version, s.forgot)), io.EOF
		return w, nil
	default:
		w.from = version
		for _, change := range s.history {
			if event, ok := selected.event(change); ok && change.version > version {
				w.push(event)
			}
		}
	}
	s.watches[w] = struct{}{}
	return w, nil
}
