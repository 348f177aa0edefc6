package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fataler is a test or a script.
type fataler interface {
	Fatalf(format string, args ...any)
}

// terminal is a pseudo-terminal with a program, and what a person sees on it. It wraps lines anew when it becomes narrower, as most
// terminals do. It is a pipe if it has no size.
type terminal struct {
	t       fataler
	master  *os.File
	command *exec.Cmd

	width, height int
	lines         [][]rune // without wraps
	line, column  int      // of the cursor: a line, and a place in it
	wraps, shows  bool     // whether lines wrap, and the cursor is shown
	sent          strings.Builder
	unread        []byte
}

// newTerminal starts bellerophon on a terminal. Its environment has nothing of the test's but env.
func newTerminal(t *testing.T, width, height int, env []string, args ...string) *terminal {
	t.Helper()
	made := openTerminal(t, width, height, append(env, "HOME="+t.TempDir()), args...)
	t.Cleanup(made.close)
	return made
}

// endless is the size of a pipe.
const endless = 1 << 20

// openTerminal starts bellerophon on a terminal, or on a pipe if the width is 0.
func openTerminal(t fataler, width, height int, env []string, args ...string) *terminal {
	made := &terminal{t: t, lines: [][]rune{nil}, wraps: true, shows: true, width: endless, height: endless}
	program, err := exec.LookPath("bellerophon") // TestMain has put it there.
	if err != nil {
		t.Fatalf("%v", err)
	}
	made.command = exec.Command(program, args...)
	made.command.Env = append([]string{"TERM=xterm", "PATH=" + os.Getenv("PATH")}, env...)
	var slave *os.File
	if width == 0 {
		made.master, slave, err = os.Pipe()
	} else {
		made.master, slave, err = made.openPair(width, height)
		made.command.Stdin, made.command.SysProcAttr = slave, &unix.SysProcAttr{Setsid: true, Setctty: true}
	}
	if err != nil {
		t.Fatalf("opening a terminal: %v", err)
	}
	made.command.Stdout, made.command.Stderr = slave, slave
	err = made.command.Start()
	_ = slave.Close() // The program has it.
	if err != nil {
		t.Fatalf("%v", err)
	}
	return made
}

// openPair opens the two ends of a pseudo-terminal.
func (o *terminal) openPair(width, height int) (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0); err != nil {
		return nil, nil, err
	}
	o.master = master
	number := 0
	o.control(func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	})
	o.resize(width, height)
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	return master, slave, err
}

// close ends the program if it has not ended.
func (o *terminal) close() {
	if o.command.ProcessState == nil {
		_ = o.command.Process.Kill() // The test has failed.
		_ = o.command.Wait()
	}
	_ = o.master.Close()
}

// control calls a function with the descriptor of the terminal.
func (o *terminal) control(call func(fd int) error) {
	raw, err := o.master.SyscallConn()
	if err != nil {
		o.t.Fatalf("%v", err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = call(int(fd)) }); err != nil || failed != nil {
		o.t.Fatalf("%v, %v", err, failed)
	}
}

// resize changes the size. The kernel signals it to the program.
func (o *terminal) resize(width, height int) {
	o.width, o.height = width, height
	o.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: uint16(height)})
	})
}

// types sends keys to the program.
func (o *terminal) types(keys string) {
	if _, err := o.master.WriteString(keys); err != nil {
		o.t.Fatalf("%v", err)
	}
}

// awaits reads until the screen has what is wanted.
func (o *terminal) awaits(what string, isThere func(text string) bool) {
	for began := time.Now(); !isThere(o.text()); {
		if o.show() {
			continue
		}
		if !o.read() || time.Since(began) > 20*time.Second {
			o.t.Fatalf("the terminal does not show %s:\n%s", what, o.text())
		}
	}
}

// sees reads until the screen has a text.
func (o *terminal) sees(text string) {
	o.awaits(text, func(shown string) bool { return strings.Contains(shown, text) })
}

// interrupt ends the program as a person does, and returns its exit code.
func (o *terminal) interrupt() int {
	if o.width < endless {
		for before := -1; before != o.sent.Len(); o.read() { // With a ^C, the kernel drops what is not read.
			before = o.sent.Len()
		}
		o.types("\x03")
	} else if err := o.command.Process.Signal(os.Interrupt); err != nil {
		o.t.Fatalf("%v", err)
	}
	return o.ends()
}

// ends reads until the program ends, and returns its exit code.
func (o *terminal) ends() int {
	for began := time.Now(); o.read(); {
		if time.Since(began) > 20*time.Second {
			o.t.Fatalf("the program does not end:\n%s", o.text())
		}
	}
	for o.show() {
	}
	_ = o.command.Wait() // The exit code is its error.
	return o.command.ProcessState.ExitCode()
}

// read takes some output. It returns false after the last one.
func (o *terminal) read() bool {
	if err := o.master.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		o.t.Fatalf("%v", err)
	}
	block := make([]byte, 64<<10)
	count, err := o.master.Read(block)
	o.sent.Write(block[:count])
	o.unread = append(o.unread, block[:count]...)
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return true
	case errors.Is(err, unix.EIO), errors.Is(err, io.EOF): // No program has the terminal any more.
		return false
	}
	o.t.Fatalf("%v", err)
	return false
}

// show draws what was read up to the end of a drawing, and reports whether there may be another one. A sequence that is incomplete stays
// unread.
func (o *terminal) show() (again bool) {
	all, later := o.unread, []byte(nil)
	if end := bytes.Index(all, []byte("\x1b[?25h")); end >= 0 {
		end += len("\x1b[?25h")
		all, later, again = all[:end], all[end:], true
	}
	text := string(all)
	for text != "" {
		if sequence, is := strings.CutPrefix(text, "\x1b["); is || text == "\x1b" {
			end := strings.IndexFunc(sequence, func(r rune) bool { return r >= '@' && r <= '~' })
			if !is || end < 0 {
				break
			}
			o.obey(sequence[:end], sequence[end])
			text = sequence[end+1:]
			continue
		}
		r := []rune(text)[0]
		if r == '\uFFFD' && len(text) < 4 {
			break
		}
		text = text[len(string(r)):]
		switch r {
		case '\r':
			o.column -= o.column % o.width
		case '\n':
			if o.column += o.width; o.column > len(o.lines[o.line]) || o.column-o.width == len(o.lines[o.line]) {
				o.line, o.column = o.line+1, 0
			}
			if o.line == len(o.lines) {
				o.lines = append(o.lines, nil)
			}
		default:
			o.put(r)
		}
	}
	o.unread = append([]byte(text), later...)
	return again
}

func (o *terminal) put(r rune) {
	if !o.wraps && o.column >= o.width {
		o.column = o.width - 1
	}
	line := o.lines[o.line]
	if o.column < len(line) {
		line[o.column] = r
	} else {
		o.lines[o.line] = append(line, r)
	}
	o.column++
}

// obey does what an escape sequence says.
func (o *terminal) obey(parameters string, command byte) {
	switch parameters + string(command) {
	case "?25l", "?25h":
		o.shows = command == 'h'
	case "?7l", "?7h":
		o.wraps = command == 'h'
	case "J":
		o.lines = append(o.lines[:o.line], o.lines[o.line][:min(o.column, len(o.lines[o.line]))])
	default:
		o.move(parameters, command)
	}
}

// move does what a sequence with a number says.
func (o *terminal) move(parameters string, command byte) {
	switch command {
	case 'm':
	case 'A':
		count := 0
		if _, err := fmt.Sscan(parameters, &count); err != nil {
			o.t.Fatalf("%v", err)
		}
		o.up(count)
	default:
		o.t.Fatalf("the terminal does not know ESC [ %s %c", parameters, command)
	}
}

// up moves the cursor up by rows, but not out of the window.
func (o *terminal) up(count int) {
	row, total := 0, 0
	for i, line := range o.lines {
		if i == o.line {
			row = total + o.column/o.width
		}
		total += o.rows(line)
	}
	row = max(row-count, total-o.height, 0)
	for i, line := range o.lines {
		if row < o.rows(line) {
			o.line, o.column = i, row*o.width
			return
		}
		row -= o.rows(line)
	}
}

func (o *terminal) rows(line []rune) int { return max(1, (len(line)+o.width-1)/o.width) }

// window returns what the terminal shows.
func (o *terminal) window() string {
	rows := strings.Split(o.text(), "\n")
	return strings.Join(rows[max(0, len(rows)-o.height):], "\n")
}

// text returns what the terminal shows, below what has left its window.
func (o *terminal) text() string {
	var rows []string
	for _, line := range o.lines {
		for len(line) > o.width {
			rows = append(rows, string(line[:o.width]))
			line = line[o.width:]
		}
		rows = append(rows, string(line))
	}
	return strings.Join(rows, "\n")
}
