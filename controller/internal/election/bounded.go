package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Bounded sends a write that must not take effect later than left from now. spare is the part of left that is not for
// the API server. One half of it is for what the write waits for before it is sent, such as a connection or a token.
// The other half is for bytes that the kernel has not sent. net/http says when it sends, so a write that waits for
// longer is given up. Other transports do not say it, and only the end of left gives their writes up.
//
// The time is bound when the body of the answer was read to the end, fails or is closed.
func Bounded(over http.RoundTripper, request *http.Request, left, spare time.Duration) (*http.Response, error) {
	ctx, expire := context.WithTimeout(request.Context(), left)
	ctx, giveUp := context.WithCancelCause(ctx)
	sending := &sending{until: time.Now().Add(spare / 2), giveUp: func() { giveUp(errUnsent) }}
	waited := time.AfterFunc(spare/2, sending.check)
	end := func() {
		waited.Stop()
		giveUp(nil)
		expire()
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { sending.waits(true) },
		WroteHeaders: func() { sending.waits(false) },
	})
	answer, err := over.RoundTrip(within(request.WithContext(ctx), left-spare))
	if err != nil {
		if errors.Is(context.Cause(ctx), errUnsent) { // Not as the end of a context, because the caller's goes on.
			err = fmt.Errorf("%w within %v: %v", errUnsent, spare/2, err)
		}
		end()
		return nil, err
	}
	answer.Body = ending(answer.Body, end)
	return answer, nil
}

var errUnsent = errors.New("the write got no connection to the API server, and was given up")

// sending tells whether a write waits for a connection. net/http may send it again over another one.
type sending struct {
	until  time.Time
	giveUp func()

	mu      sync.Mutex
	waiting bool
}

// waits records whether the write waits for a connection from now on.
func (s *sending) waits(now bool) {
	s.mu.Lock()
	s.waiting = now
	s.mu.Unlock()
	s.check()
}

// check gives up a write that waits for too long.
func (s *sending) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting && !time.Now().Before(s.until) {
		s.giveUp()
	}
}

// within returns a request whose handling the API server ends after a time: a millisecond at least, since it takes 0 for
// its default of a minute.
func within(request *http.Request, limit time.Duration) *http.Request {
	limit = max(limit, time.Millisecond)
	query := request.URL.Query()
	if given, err := time.ParseDuration(query.Get("timeout")); err == nil && given > 0 && given < limit {
		return request
	}
	query.Set("timeout", strconv.FormatInt(limit.Milliseconds(), 10)+"ms")
	address := *request.URL
	address.RawQuery = query.Encode()
	request.URL = &address
	return request
}

// ending returns the body of an answer, which calls end once: when it was read to the end, fails or is closed.
func ending(of io.ReadCloser, end func()) io.ReadCloser { return &body{of, end, atomic.Bool{}} }

// body is the body of an answer, which ends the write when it was read to the end, failed or was closed.
type body struct {
	io.ReadCloser
	end   func()
	ended atomic.Bool
}

func (b *body) finish() {
	if !b.ended.Swap(true) {
		b.end()
	}
}

func (b *body) Read(space []byte) (int, error) {
	n, err := b.ReadCloser.Read(space)
	if err != nil {
		b.finish()
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.finish()
	return err
}
