// Package screen shows progress to people, on a terminal or on a pipe.
//
// On a terminal the last lines are live: they are redrawn in place. On a pipe, and on a terminal
// that cannot redraw, every line is written once and stays. Colour is used only on a terminal, and
// not if the environment sets NO_COLOR (https://no-color.org).
package screen

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/term"
)

// Screen writes to one output. Its methods may be called from any goroutine.
type Screen struct {
	mu     sync.Mutex
	out    io.Writer
	width  func() int
	height func() int
	live   bool
	colour bool
	drawn  int      // number of live lines on the terminal
	lines  []string // the live lines
}

// New creates a screen on a file, such as os.Stdout.
func New(file *os.File) *Screen {
	fd := int(file.Fd())
	live := term.IsTerminal(fd) && os.Getenv("TERM") != "dumb"
	return &Screen{
		out:    file,
		live:   live,
		colour: live && os.Getenv("NO_COLOR") == "",
		width: func() int {
			width, _, err := term.GetSize(fd)
			if err != nil || width < 20 {
				return 80
			}
			return width
		},
		height: func() int {
			_, height, err := term.GetSize(fd)
			if err != nil || height < 2 {
				return 24
			}
			return height
		},
	}
}

// To creates a screen on a writer that is not a terminal.
func To(out io.Writer) *Screen { return &Screen{out: out} }

// IsLive reports whether lines can be redrawn.
func (s *Screen) IsLive() bool { return s.live }

// Println writes lines that stay.
func (s *Screen) Println(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	fmt.Fprintln(s.out, text)
	s.draw()
}

// Write implements io.Writer for logs: whole lines that stay.
func (s *Screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	n, err := s.out.Write(text)
	s.draw()
	return n, err
}

// Live replaces the live lines. It does nothing if the screen is not live.
func (s *Screen) Live(lines ...string) {
	if !s.live {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.lines = lines
	s.draw()
}

// Keep makes the live lines permanent.
func (s *Screen) Keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn, s.lines = 0, nil
}

// erase moves to the first live line and clears the terminal from there.
func (s *Screen) erase() {
	if s.drawn > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\r\x1b[J", s.drawn)
		s.drawn = 0
	}
}

func (s *Screen) draw() {
	if !s.live || len(s.lines) == 0 {
		return
	}
	var text bytes.Buffer
	width := s.width()
	lines := s.lines
	if most := s.height() - 1; len(lines) > most { // A line that has left the terminal cannot be redrawn.
		lines = lines[:most]
	}
	for _, line := range lines {
		text.WriteString(clip(line, width) + "\n")
	}
	_, _ = s.out.Write(text.Bytes()) // There is no place to report that the terminal is gone.
	s.drawn = len(lines)
}

// Clean replaces the control characters of a text from elsewhere, which could move the cursor or change colours.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// clip cuts a line to a width, so that it takes one row. Escape sequences count as no width.
func clip(line string, width int) string {
	var out strings.Builder
	column, escape := 0, false
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		case column == width:
			return out.String() + "\x1b[0m"
		default:
			column++
		}
		out.WriteRune(r)
	}
	return out.String()
}

// Colour is a colour of text.
type Colour string

// The colours.
const (
	Green  Colour = "32"
	Yellow Colour = "33"
	Red    Colour = "31"
	Dim    Colour = "2"
	Bold   Colour = "1"
)

// Paint colours a text if the screen uses colour.
func (s *Screen) Paint(colour Colour, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + string(colour) + "m" + text + "\x1b[0m"
}
