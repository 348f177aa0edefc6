package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal with a program, and what a person sees on it. It wraps lines anew when it becomes narrower, as most
// terminals do.
type terminal struct {
	t       testing.TB
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
func newTerminal(t testing.TB, width, height int, env []string, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	made := &terminal{t: t, master: master, lines: [][]rune{nil}, wraps: true, shows: true}
	number := 0
	made.control(func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	})
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	made.resize(width, height)
	program, err := exec.LookPath("bellerophon") // TestMain has put it there.
	if err != nil {
		t.Fatal(err)
	}
	made.command = exec.Command(program, args...)
	made.command.Stdin, made.command.Stdout, made.command.Stderr = slave, slave, slave
	made.command.Env = append([]string{"TERM=xterm", "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, env...)
	made.command.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	err = made.command.Start()
	_ = slave.Close() // The program has it.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if made.command.ProcessState == nil {
			_ = made.command.Process.Kill() // The test has failed.
			_ = made.command.Wait()
		}
		_ = master.Close()
	})
	return made
}

// control calls a function with the descriptor of the terminal.
func (o *terminal) control(call func(fd int) error) {
	o.t.Helper()
	raw, err := o.master.SyscallConn()
	if err != nil {
		o.t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = call(int(fd)) }); err != nil || failed != nil {
		o.t.Fatal(err, failed)
	}
}

// resize changes the size. The kernel signals it to the program.
func (o *terminal) resize(width, height int) {
	o.t.Helper()
	o.width, o.height = width, height
	o.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: uint16(height)})
	})
}

// types sends keys to the program.
func (o *terminal) types(keys string) {
	o.t.Helper()
	if _, err := o.master.WriteString(keys); err != nil {
		o.t.Fatal(err)
	}
}

// awaits reads until the screen has what is wanted.
func (o *terminal) awaits(what string, isThere func(text string) bool) {
	o.t.Helper()
	for began := time.Now(); !isThere(o.text()); {
		if !o.read() || time.Since(began) > 20*time.Second {
			o.t.Fatalf("the terminal does not show %s:\n%s", what, o.text())
		}
	}
}

// sees reads until the screen has a text.
func (o *terminal) sees(text string) {
	o.t.Helper()
	o.awaits(text, func(shown string) bool { return strings.Contains(shown, text) })
}

// ends reads until the program ends, and returns its exit code.
func (o *terminal) ends() int {
	o.t.Helper()
	for began := time.Now(); o.read(); {
		if time.Since(began) > 20*time.Second {
			o.t.Fatalf("the program does not end:\n%s", o.text())
		}
	}
	_ = o.command.Wait() // The exit code is its error.
	return o.command.ProcessState.ExitCode()
}

// read takes some output. It returns false after the last one.
func (o *terminal) read() bool {
	o.t.Helper()
	if err := o.master.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		o.t.Fatal(err)
	}
	block := make([]byte, 64<<10)
	count, err := o.master.Read(block)
	o.sent.Write(block[:count])
	o.unread = append(o.unread, block[:count]...)
	o.show()
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return true
	case errors.Is(err, unix.EIO): // No program has the terminal any more.
		return false
	}
	o.t.Fatal(err)
	return false
}

// show draws the output that was read. A sequence that is incomplete stays unread.
func (o *terminal) show() {
	text := string(o.unread)
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
	o.unread = []byte(text)
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
		count := 0
		switch {
		case command == 'm':
		case command == 'A':
			if _, err := fmt.Sscan(parameters, &count); err != nil {
				o.t.Fatal(err)
			}
			o.up(count)
		default:
			o.t.Fatalf("the terminal does not know ESC [ %s %c", parameters, command)
		}
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
