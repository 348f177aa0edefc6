package worktree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

// linkMode is the mode of all symbolic links. Systems disagree about their permissions, which have no effect.
const linkMode = fs.ModeSymlink | fs.ModePerm

// errGone says that a path leads to no file, or to another one than a moment ago. An event follows.
var errGone = &fs.PathError{Op: "read", Err: fs.ErrNotExist}

// unsyncedError is why a file that exists is not synced.
type unsyncedError struct{ reason string }

func (e *unsyncedError) Error() string { return e.reason }

func unsynced(format string, arguments ...any) error {
	return &unsyncedError{"not synced: " + fmt.Sprintf(format, arguments...)}
}

// reader reads the files of a project. It follows no symbolic link, neither at the end of a path nor within. It keeps
// the directory of the last path open, because most paths come sorted.
type reader struct {
	root   *os.Root // of the project
	limit  int64    // of the size of a file
	hash   hash.Hash
	buffer []byte

	directory string   // the path of opened
	opened    *os.Root // nil if only the root is open
}

func newReader(root *os.Root, limit int64) *reader {
	return &reader{root: root, limit: limit, hash: sha256.New(), buffer: make([]byte, 64<<10)}
}

// close closes what the reader has opened. The root stays open.
func (r *reader) close() {
	if r.opened != nil {
		_ = r.opened.Close()
		r.opened = nil
	}
}

// enter opens a directory of the project.
func (r *reader) enter(directory string) (*os.Root, error) {
	if directory == "." {
		return r.root, nil
	}
	if r.opened != nil && r.directory == directory {
		return r.opened, nil
	}
	r.close()
	at := r.root
	for name := range strings.SplitSeq(directory, "/") {
		next, err := step(at, name)
		if at != r.root {
			_ = at.Close()
		}
		if err != nil {
			return nil, err
		}
		at = next
	}
	r.directory, r.opened = directory, at
	return at, nil
}

// step opens a directory in another one. An [os.Root] follows links that stay within it, so step compares what it has
// opened with what is there.
func step(at *os.Root, name string) (*os.Root, error) {
	before, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, errGone
	}
	next, err := at.OpenRoot(name + "/.") // With the dot, a FIFO that takes its place is not opened.
	if err != nil {
		if now, failed := at.Lstat(name); failed != nil || !os.SameFile(before, now) {
			return nil, errGone
		}
		return nil, err
	}
	if after, err := next.Stat("."); err != nil || !os.SameFile(before, after) {
		_ = next.Close()
		return nil, errGone
	}
	return next, nil
}

// list returns why a directory cannot be listed.
func (r *reader) list(name string) error {
	directory, err := r.enter(name)
	if err != nil {
		return err
	}
	opened, err := directory.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	if _, err := opened.Readdirnames(1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// stat returns what is at a path.
func (r *reader) stat(name string) (fs.FileInfo, error) {
	directory, err := r.enter(path.Dir(name))
	if err != nil {
		return nil, err
	}
	return directory.Lstat(path.Base(name))
}

// read reads the file at a path, and writes its content to a writer, too. The result is about the bytes that were read.
// Its info is from before the first byte.
func (r *reader) read(name string, content io.Writer) (File, fs.FileInfo, error) {
	if !utf8.ValidString(name) {
		return File{}, nil, unsynced("the name is not valid UTF-8; rename it, or ignore it")
	}
	directory, err := r.enter(path.Dir(name))
	if err != nil {
		return File{}, nil, err
	}
	base := path.Base(name)
	info, err := directory.Lstat(base)
	switch {
	case err != nil:
		return File{}, nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return readLink(directory, name, info)
	case !info.Mode().IsRegular():
		return File{}, nil, errGone
	case info.Size() > r.limit:
		return File{}, nil, r.tooLarge(info.Size())
	}
	// Opening a FIFO that has just taken the file's place would wait for its writer.
	file, err := directory.OpenFile(base, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if now, failed := directory.Lstat(base); failed != nil || !os.SameFile(info, now) {
			return File{}, nil, errGone
		}
		return File{}, nil, err
	}
	defer func() { _ = file.Close() }()
	opened, err := file.Stat()
	if err != nil {
		return File{}, nil, err
	}
	if !os.SameFile(info, opened) {
		return File{}, nil, errGone
	}
	r.hash.Reset()
	// Without the structs, io.CopyBuffer would let the file choose a buffer of its own.
	size, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(r.hash, content)}, io.LimitReader(file, r.limit+1), r.buffer)
	if err != nil {
		return File{}, nil, err
	}
	if size > r.limit {
		return File{}, nil, r.tooLarge(size)
	}
	return File{Mode: opened.Mode().Perm(), Size: size, Sum: hex.EncodeToString(r.hash.Sum(nil))}, opened, nil
}

func (r *reader) tooLarge(size int64) error {
	return unsynced("its size of %d bytes is over the limit of %d; raise the limit with --max-file-size, or ignore the file", size, r.limit)
}

// readLink reads a symbolic link. Its target is a part of the copy, but nothing follows it here.
func readLink(directory *os.Root, name string, info fs.FileInfo) (File, fs.FileInfo, error) {
	target, err := directory.Readlink(path.Base(name))
	if errors.Is(err, syscall.EINVAL) {
		return File{}, nil, errGone // A file has taken the link's place.
	}
	if err != nil {
		return File{}, nil, err
	}
	if err := checkTarget(name, target); err != nil {
		return File{}, nil, err
	}
	return File{Mode: linkMode, Link: filepath.ToSlash(target)}, info, nil
}

// checkTarget returns why a link may lead out of the project. The directories above a link are no links, so ".." is safe
// in front. Behind a name that is a link itself, it could lead anywhere.
func checkTarget(name, target string) error {
	if filepath.IsAbs(target) || strings.HasPrefix(target, "/") {
		return unsynced("the link leads out of the project, to %s; make it relative to a file in the project, or ignore it", target)
	}
	if !utf8.ValidString(target) {
		return unsynced("the target of the link is not valid UTF-8; rename it, or ignore the link")
	}
	depth, named := strings.Count(name, "/"), false
	for part := range strings.SplitSeq(filepath.ToSlash(target), "/") {
		switch part {
		case "", ".":
		case "..":
			if named {
				return unsynced("the link to %s may lead out of the project, because .. follows a name; write the target without it, or ignore the link", target)
			}
			if depth--; depth < 0 {
				return unsynced("the link leads out of the project, to %s; make it relative to a file in the project, or ignore it", target)
			}
		default:
			named = true
		}
	}
	return nil
}

// isGone reports whether an error means that a path leads to no file.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}
