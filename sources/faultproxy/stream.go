package faultproxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
)

// errCut ends a body that a fault cuts.
var errCut = errors.New("cut by the test")

// stream is one request and its answer in flight.
type stream struct {
	request Match
	watch   string // identifies a watch by its path and selectors; empty for other requests
	fault   Fault
	ctx     context.Context // ends with the request; body has no other access to it
	cancel  context.CancelFunc
	stalled atomic.Bool
	ended   atomic.Bool // the answer ends here, as one that is complete
}

// streams holds the requests in flight.
type streams struct {
	mu      sync.Mutex
	open    map[*stream]struct{}
	expired map[string]bool // watches that are refused when they continue
}

func newStreams() *streams {
	return &streams{open: map[*stream]struct{}{}, expired: map[string]bool{}}
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *streams) begin(made *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[made] = struct{}{}
}

func (s *streams) end(over *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, over)
}

// Cut resets the open streams that match and returns how many there were.
func (p *Proxy) Cut(match Match) int {
	return p.strike(Cut, match, func(s *stream) bool { s.cancel(); return true })
}

// Stall stops the open streams that match: neither data nor their end passes. It returns how many
// it stopped; streams that are already stalled do not count.
func (p *Proxy) Stall(match Match) int {
	return p.strike(Stall, match, func(s *stream) bool { return !s.stalled.Swap(true) })
}

// Expire ends the open watches that match, as an API server ends them after some minutes. It returns how many
// there were. When a client continues such a watch from a version, it is refused once with code 410: the
// version is too old, and the client has to list again. A client that lists before is not refused, and neither
// is a list that the API server streams.
func (p *Proxy) Expire(match Match) int {
	return p.strike(Refuse, match, func(s *stream) bool {
		if s.watch == "" {
			return false
		}
		p.streams.expired[s.watch] = true
		s.ended.Store(true)
		s.cancel()
		return true
	})
}

// watchOf returns what identifies the watch of a request, or "" if the request opens none.
func watchOf(r *http.Request, verb string) string {
	if verb != "watch" {
		return ""
	}
	return placeOf(r)
}

// placeOf returns what the list and the watch of the same objects have in common.
func placeOf(r *http.Request) string {
	query := r.URL.Query()
	return r.URL.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector")
}

// listed forgets that a watch has expired if its objects are listed: the version of the list is new.
func (s *streams) listed(r *http.Request, verb string) {
	if verb != "list" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.expired, placeOf(r))
}

// refuses reports whether a watch continues from a version that has expired, and forgets that.
func (s *streams) refuses(watch string, query url.Values) bool {
	version := query.Get("resourceVersion")
	if watch == "" || version == "" || version == "0" || query.Get("sendInitialEvents") == "true" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer delete(s.expired, watch)
	return s.expired[watch]
}

func (p *Proxy) strike(action Action, match Match, do func(*stream) bool) int {
	p.streams.mu.Lock()
	defer p.streams.mu.Unlock()
	struck := 0
	for open := range p.streams.open {
		if match.matches(open.request) && do(open) {
			struck++
		}
	}
	p.script.count(action, struck)
	return struck
}

// hang blocks until the client is gone, or Close is called.
func (s *stream) hang() error {
	<-s.ctx.Done()
	return s.ctx.Err()
}

// body is the body of an answer, with the fault that applies to it.
type body struct {
	io.ReadCloser
	stream *stream
	passed int64
}

// Read implements io.Reader.
func (b *body) Read(into []byte) (int, error) {
	if fault := b.stream.fault; fault.Action == Cut || fault.Action == Stall {
		left := fault.Bytes - b.passed
		switch {
		case left > 0:
			into = into[:min(int64(len(into)), left)]
		case fault.Action == Cut:
			return 0, errCut
		default:
			b.stream.stalled.Store(true)
		}
	}
	if b.stream.stalled.Load() {
		return 0, b.stream.hang()
	}
	n, err := b.ReadCloser.Read(into)
	b.passed += int64(n)
	if err != nil && b.stream.ended.Load() {
		err = io.EOF
	}
	if b.stream.stalled.Load() { // Stall was called while the read waited for the server.
		return 0, b.stream.hang()
	}
	return n, err
}
