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
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/term"
)

// Screen writes to one output. Its methods may be called from any goroutine.
type Screen struct {
	mu     sync.Mutex
	out    io.Writer
	size   func() (width, height int)
	live   bool
	colour bool
	drawn  []int    // the columns of each live line on the terminal
	lines  []string // the live lines
}

// The size of a terminal that does not know its own.
const (
	unknownWidth  = 80
	unknownHeight = 24
)

// New creates a screen on a file, such as os.Stdout.
func New(file *os.File) *Screen {
	fd := int(file.Fd())
	live := term.IsTerminal(fd) && os.Getenv("TERM") != "dumb"
	return &Screen{
		out:    file,
		live:   live,
		colour: live && os.Getenv("NO_COLOR") == "",
		size: func() (width, height int) {
			width, height, err := term.GetSize(fd)
			if err != nil || width <= 0 {
				width = unknownWidth
			}
			if err != nil || height < 2 {
				height = unknownHeight
			}
			return width, height
		},
	}
}

// To creates a screen on a writer that is not a terminal.
func To(out io.Writer) *Screen { return &Screen{out: out} }

// IsLive reports whether lines can be redrawn.
func (s *Screen) IsLive() bool { return s.live }

// Width returns the columns of the terminal, or 0 if the screen is not live.
func (s *Screen) Width() int {
	if !s.live {
		return 0
	}
	width, _ := s.size()
	return width
}

// Println writes lines that stay.
func (s *Screen) Println(text string) { _, _ = s.Write([]byte(text + "\n")) } // There is no place to report that the output is gone.

// Write implements io.Writer for logs: whole lines that stay.
func (s *Screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		return s.out.Write(text)
	}
	if _, err := s.out.Write(s.redrawn(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Live replaces the live lines. It does nothing if the screen is not live.
func (s *Screen) Live(lines ...string) {
	if !s.live {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = lines
	_, _ = s.out.Write(s.redrawn(nil)) // There is no place to report that the terminal is gone.
}

// Keep makes the live lines permanent. It erases the ^C that the terminal shows below them when a person ends the program. With a ^C, the
// kernel drops what the terminal has not read, which may be the end of the last drawing.
func (s *Screen) Keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.drawn) > 0 {
		_, _ = io.WriteString(s.out, restored+"\r\x1b[J") // There is no place to report that the terminal is gone.
	}
	s.drawn, s.lines = nil, nil
}

// restored makes the terminal wrap lines and show the cursor, as before a drawing.
const restored = "\x1b[?7h\x1b[?25h"

// redrawn returns what erases the live lines, writes a text that stays, and draws the live lines again. As one write it does not
// flicker, and a program that is killed leaves the cursor shown. The caller holds the lock.
func (s *Screen) redrawn(text []byte) []byte {
	var out bytes.Buffer
	width, height := s.size()
	if rows := s.rows(width); rows > 0 {
		fmt.Fprintf(&out, "\x1b[?25l\x1b[%dA\r\x1b[J", rows)
	} else {
		out.WriteString("\x1b[?25l")
	}
	out.Write(text)
	s.drawn = s.drawn[:0]
	out.WriteString("\x1b[?7l") // A line with wide characters must not take a second row.
	for _, line := range cut(s.lines, height-1) {
		clipped, columns := clip(line, width)
		out.WriteString(clipped + "\n")
		s.drawn = append(s.drawn, columns)
	}
	out.WriteString(restored)
	return out.Bytes()
}

// rows returns the rows that the live lines take. A terminal that has become narrower has wrapped them.
func (s *Screen) rows(width int) (rows int) {
	for _, columns := range s.drawn {
		rows += max(1, (columns+width-1)/width)
	}
	return rows
}

// cut returns the first lines, and how many it leaves out. A line that has left the terminal cannot be redrawn.
func cut(lines []string, most int) []string {
	if len(lines) <= most {
		return lines
	}
	last := fmt.Sprintf("and %d more lines; make the window taller", len(lines)-most+1)
	return append(slices.Clone(lines[:most-1]), last)
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

// clip cuts a line to a width, so that it takes one row, and returns how many columns it takes. Escape sequences count as no width.
func clip(line string, width int) (clipped string, columns int) {
	var out strings.Builder
	escape := false
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		case columns == width:
			return out.String() + "\x1b[0m", columns
		default:
			columns++
		}
		out.WriteRune(r)
	}
	return out.String(), columns
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
	if !s.colour || text == "" {
		return text
	}
	return "\x1b[" + string(colour) + "m" + text + "\x1b[0m"
}
