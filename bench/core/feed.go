package main

import (
	"context"
	"io"
	"sync/atomic"
	"time"
)

// encoder appends an event, by its number, to a frame.
type encoder func(frame []byte, n int) []byte

// feed is the body of one watch: it hands out the frames of a script, one a Read, the
// updates not before begin is closed and no faster than the pace.
type feed struct {
	script    *script
	encode    encoder
	begin     <-chan struct{}
	rate      float64         // updates per second; 0: as fast as they are read
	clock     time.Time       // what delivered counts from
	delivered []time.Duration // by number: when the frame was handed out
	watched   atomic.Bool
}

// tick is how often a paced feed hands out what is due. A timer of Go is no finer.
const tick = time.Millisecond

// body is one reading of a feed.
type body struct {
	feed   *feed
	ctx    context.Context // An io.Reader has no other place for it.
	cancel context.CancelFunc
	frame  []byte // what is left of the frame of number next-1
	buffer []byte
	next   int
	due    int // updates below this number may go
	ticker *time.Ticker
	begun  time.Time
}

func (f *feed) open(ctx context.Context) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	return &body{feed: f, ctx: ctx, cancel: cancel, due: f.script.keys + 1}
}

// Read hands out one frame at most: those who read a decoded feed rely on it.
func (b *body) Read(into []byte) (int, error) {
	if len(b.frame) == 0 {
		if b.next >= b.due && !b.wait() {
			return 0, io.EOF
		}
		b.feed.delivered[b.next] = time.Since(b.feed.clock)
		b.buffer = b.feed.encode(b.buffer[:0], b.next)
		b.frame = b.buffer
		b.next++
	}
	n := copy(into, b.frame)
	b.frame = b.frame[n:]
	return n, nil
}

// Close ends a Read that waits.
func (b *body) Close() error {
	b.cancel()
	return nil
}

// wait returns when the next number is due. It is false at the end of the watch, which
// stays open when the script is over.
func (b *body) wait() bool {
	if b.next >= b.feed.script.length() {
		<-b.ctx.Done()
		return false
	}
	select {
	case <-b.feed.begin:
	case <-b.ctx.Done():
		return false
	}
	if b.feed.rate == 0 {
		b.due = b.feed.script.length()
		return true
	}
	if b.ticker == nil {
		b.ticker, b.begun = time.NewTicker(tick), time.Now()
		context.AfterFunc(b.ctx, b.ticker.Stop)
	}
	for b.next >= b.due {
		select {
		case <-b.ticker.C:
			sent := int(b.feed.rate * time.Since(b.begun).Seconds())
			b.due = min(b.feed.script.keys+1+sent, b.feed.script.length())
		case <-b.ctx.Done():
			return false
		}
	}
	return true
}
