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

// The parts of spare in a write that is [Bounded]. Half of spare is the API server's.
const (
	waitParts, kernelParts, spareParts = 3, 2, 10
)

// waits returns how long a write may wait for a connection, a token and the like.
func waits(spare time.Duration) time.Duration { return spare * waitParts / spareParts }

// unsent returns how long the kernel may try to send it.
func unsent(spare time.Duration) time.Duration { return spare * kernelParts / spareParts }

// Bounded sends a write that must not take effect later than left from now. Half of spare, which is a part of left, is for
// the way to the API server. The write waits for three tenths of spare at most before it is sent, such as for a connection
// or a token. The kernel has two tenths: see [LimitUnsent]. net/http says when it sends, so a write that waits for longer
// is given up. Other transports do not say it, and only the end of left gives their writes up.
//
// Bounded calls doubt if the outcome of the write is unknown: it may take effect until that time. The time is bound when the
// body of the answer was read to the end, fails or is closed.
func Bounded(over http.RoundTripper, request *http.Request, left, spare time.Duration, doubt func(until time.Time)) (*http.Response, error) {
	began := time.Now()
	ctx, expire := context.WithTimeout(request.Context(), left)
	ctx, giveUp := context.WithCancelCause(ctx)
	sending := &sending{until: began.Add(waits(spare)), giveUp: func() { giveUp(errUnsent) }}
	waited := time.AfterFunc(time.Until(sending.until), sending.check)
	end := func() {
		waited.Stop()
		giveUp(nil)
		expire()
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { sending.is(asking) },
		GotConn:      func(httptrace.GotConnInfo) { sending.is(connected) },
		WroteHeaders: func() { sending.is(sent) },
	})
	answer, err := over.RoundTrip(within(request.WithContext(ctx), left-spare/2))
	if err != nil {
		given := errors.Is(context.Cause(ctx), errUnsent)
		if given { // Not as the end of a context, because the caller's goes on.
			err = fmt.Errorf("%w within %v: %s", errUnsent, waits(spare), err.Error())
		}
		if sending.mayBeSent() {
			doubt(began.Add(left))
		}
		end()
		return nil, err
	}
	if answer.StatusCode >= http.StatusInternalServerError { // Such as a time-out: the API server does not say what it did.
		doubt(began.Add(left))
	}
	answer.Body = ending(answer.Body, end)
	return answer, nil
}

var errUnsent = errors.New("the write got no connection to the API server, and was given up")

// stage is how far the sending of a write is.
type stage uint8

const (
	unknown   stage = iota // the transport does not say it
	asking                 // it waits for a connection
	connected              // it has one. HTTP/2 does not send it any more if its context has ended; HTTP/1.1 may
	sent
)

// sending is the stage of a write. net/http may send it again over another connection.
type sending struct {
	until  time.Time // when it is given up unless it was sent
	giveUp func()

	mu      sync.Mutex
	now     stage
	reached bool // it has had a connection
}

// is records a stage.
func (s *sending) is(now stage) {
	s.mu.Lock()
	s.now, s.reached = now, s.reached || now >= connected
	s.mu.Unlock()
	s.check()
}

// check gives up a write that waits for too long.
func (s *sending) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if (s.now == asking || s.now == connected) && !time.Now().Before(s.until) {
		s.giveUp()
	}
}

// mayBeSent reports whether the write may have been sent.
func (s *sending) mayBeSent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached || s.now == unknown
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
