package main

import (
	"context"
	"io"
	"sync/atomic"
	"time"
)

// encoder appends the event of a number to a frame.
type encoder func(frame []byte, n int) []byte

// feed is the body of one watch. It emits the frames of a script, one for each Read. It emits
// updates only after begin is closed, and no faster than rate.
type feed struct {
	script    *script
	encode    encoder
	begin     <-chan struct{}
	rate      float64         // updates per second; 0 is as fast as they are read
	clock     time.Time       // the start of the times in delivered
	delivered []time.Duration // by number: when the frame was emitted
	watched   atomic.Bool
}

// tick is the interval at which a paced feed emits the due updates. Timers of Go are no finer.
const tick = time.Millisecond

// body is one reading of a feed.
type body struct {
	feed   *feed
	ctx    context.Context // The io.Reader interface has no context parameter.
	cancel context.CancelFunc
	frame  []byte // the rest of the frame of number next-1
	buffer []byte
	next   int
	due    int // updates below this number may be emitted
	ticker *time.Ticker
	begun  time.Time
}

func (f *feed) open(ctx context.Context) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	return &body{feed: f, ctx: ctx, cancel: cancel, due: f.script.keys + 1}
}

// Read returns at most one frame. The readers of a decoded feed rely on that.
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

// Close ends a waiting Read.
func (b *body) Close() error {
	b.cancel()
	return nil
}

// wait waits until the next number is due. It returns false at the end of the watch. The watch
// stays open after the last event of the script.
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
