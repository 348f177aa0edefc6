// Package live shows what an operator answers again and again, as lines of a terminal that are drawn anew in place.
package live

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
)

// tick is the time between two drawings. Ages grow without an answer.
const tick = time.Second

// Board shows lines on a live screen. Its methods may be called from any goroutine.
type Board struct {
	screen *screen.Screen
	lines  func(width int) []string

	mu     sync.Mutex
	filled bool
	lost   time.Time // when the operator ended; zero while it answers
	reason string
}

// New creates a board. lines returns what is shown, for a number of columns. It is not called before the first [Board.Update].
func New(on *screen.Screen, lines func(width int) []string) *Board {
	return &Board{screen: on, lines: lines}
}

// Update calls add, which changes what lines returns, and draws.
func (b *Board) Update(add func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := add(); err != nil {
		return err
	}
	b.filled, b.lost = true, time.Time{}
	b.draw()
	return nil
}

// Lost shows that there is no answer, above the lines of the last one.
func (b *Board) Lost(reason error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost.IsZero() {
		b.lost = time.Now()
	}
	b.reason = screen.Clean(reason.Error())
	b.draw()
}

// Run draws each second, and when the terminal has changed its size, until ctx ends.
func (b *Board) Run(ctx context.Context) error {
	resized, stop := screen.Resizes()
	defer stop()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-resized:
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		b.mu.Lock()
		b.draw()
		b.mu.Unlock()
	}
}

// draw draws the lines. The caller holds the lock.
func (b *Board) draw() {
	if !b.filled {
		return
	}
	lines := b.lines(b.screen.Width())
	if !b.lost.IsZero() {
		note := fmt.Sprintf("no answer for %d s, asking again: %s", int(time.Since(b.lost).Seconds()), b.reason)
		lines = append([]string{b.screen.Paint(screen.Red, note)}, lines...)
	}
	b.screen.Live(lines...)
}
