package container

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // for the scripts
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
)

//go:embed scripts/process.sh
var processScript string

//go:embed scripts/sync.sh
var syncScript string

//go:embed scripts/held.sh
var heldScript string

// Held returns the files of the last sync, as Containers says. A crash of the node can damage the list of files. Held
// returns no files then, and the next Sync first removes everything in the project's directory, with the marks. It is
// unknown which of these files the project still has, and one file too many can change a build.
func (e *Execs) Held(ctx context.Context, at Place) (worktree.Tree, error) {
	output, err := e.script(ctx, at, heldScript, noInput(), e.root, StateDirectory)
	if err != nil {
		e.forget(at, err)
		return nil, err
	}
	tree, seen, err := heldIn(output)
	if err != nil {
		return nil, fmt.Errorf("read the list of files in %s: %w", at, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known[at.key()] = seen
	return tree, nil
}

// heldIn reads the output of held.sh: the epoch, the files of a sync that did not end, and the list of files. The container may send
// anything. A list that is no list of files within the project counts as damaged.
func heldIn(output string) (worktree.Tree, version, error) {
	epoch, rest, _ := strings.Cut(output, "\n")
	tree, seen := worktree.Tree{}, version{epoch: epoch}
	var pending []string
	for {
		line, after, isMore := strings.Cut(rest, "\n")
		rest = after
		if line == "./none" {
			break
		}
		if line == "./manifest" {
			decoded, err := worktree.Decode([]byte(rest))
			if seen.isDamaged = err != nil || decoded == nil; !seen.isDamaged {
				tree = decoded
			}
			break
		}
		if !isMore {
			return nil, version{}, errors.New("it has no end")
		}
		pending = append(pending, line)
	}
	if seen.isDamaged || slices.ContainsFunc(pending, func(name string) bool { return !worktree.IsPath(name) }) {
		return worktree.Tree{}, version{epoch: epoch, isDamaged: true}, nil
	}
	for _, name := range pending {
		tree[name] = worktree.File{}
	}
	return tree, seen, nil
}

// Sync changes the files as Containers says. It fails without changing anything if another sync has changed them since
// the last call of Held or Sync, or if the last Sync failed. Call Held again then.
func (e *Execs) Sync(ctx context.Context, at Place, change worktree.Change, contents []worktree.Content, then worktree.Tree) error {
	if err := checkChange(change, contents); err != nil {
		return fmt.Errorf("sync files to %s: %w", at, err)
	}
	if !path.IsAbs(at.Project) {
		return fmt.Errorf("sync files to %s: the project's directory %q is no absolute path", at, at.Project)
	}
	e.mu.Lock()
	seen, isKnown := e.known[at.key()]
	delete(e.known, at.key()) // After an error, the files are unknown.
	e.mu.Unlock()
	if !isKnown {
		return fmt.Errorf("sync files to %s: %w", at, errStale)
	}
	next := rand.Text()
	_, err := e.script(ctx, at, processScript+syncScript,
		newUpload(at.Project, header(change, contents, seen.isDamaged), contents, then),
		e.root, StateDirectory, path.Clean(at.Project), at.id(), seen.epoch, next)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known[at.key()] = version{epoch: next}
	return nil
}

// forget frees the memory for a copy whose pod is gone.
func (e *Execs) forget(at Place, err error) {
	if errors.Is(err, ErrGone) {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.known, at.key())
	}
}

// checkChange checks that a change can go through the lines of a script and the JSON of a manifest.
func checkChange(change worktree.Change, contents []worktree.Content) error {
	for _, name := range slices.Concat(change.Paths(), change.RemoveEmpty) {
		switch {
		case strings.Contains(name, "\n"):
			return fmt.Errorf("%w: %q has a line break; rename or ignore the file", ErrName, name)
		case !worktree.IsPath(name):
			return fmt.Errorf("%w: %q is no path of UTF-8 within the project; rename or ignore the file", ErrName, name)
		}
	}
	if len(contents) != len(change.Send) {
		return fmt.Errorf("there are contents of %d files to send, and %d files", len(contents), len(change.Send))
	}
	for i, content := range contents {
		switch {
		case content.Path != change.Send[i]:
			return fmt.Errorf("the content of %s comes in place of the content of %s", content.Path, change.Send[i])
		case strings.Contains(content.File.Link, "\x00") || !utf8.ValidString(content.File.Link):
			return fmt.Errorf("%w: the link %s leads to %q, which is no path of UTF-8; change or ignore it", ErrName, content.Path, content.File.Link)
		}
	}
	return nil
}

// header returns the lines of a change for sync.sh. Each has a letter before a path:
//
//	d  a directory that files are sent to; something else there is removed
//	l  a directory that files are removed from; a link there is removed, so that nothing behind it is
//	r  a file to remove
//	p  a file that may be touched, without another action
//	s  a file to send; a directory there is removed
//	k  a symbolic link to send; a directory there is removed
//	e  a directory to remove if it is empty
//
// The line w removes everything. A dot ends the lines.
func header(change worktree.Change, contents []worktree.Content, isDamaged bool) []byte {
	var lines bytes.Buffer
	write := func(letter string, names ...string) {
		for _, name := range names {
			lines.WriteString(letter + name + "\n")
		}
	}
	if isDamaged {
		write("w", "")
	}
	into := parents(change.Send)
	write("d", into...)
	for _, directory := range parents(change.Remove) {
		if _, is := slices.BinarySearch(into, directory); !is {
			write("l", directory)
		}
	}
	for _, name := range change.Remove {
		_, isSent := slices.BinarySearch(change.Send, name)
		_, isDirectory := slices.BinarySearch(into, name)
		switch {
		case isDirectory: // If it is a directory already, its other files stay.
			write("p", name)
		case !isSent:
			write("r", name)
		}
	}
	for _, content := range contents {
		if content.File.IsLink() {
			write("k", content.Path)
		} else {
			write("s", content.Path)
		}
	}
	write("e", change.RemoveEmpty...)
	write(".", "")
	return lines.Bytes()
}

// parents returns the directories above some paths, sorted.
func parents(names []string) []string {
	seen := map[string]bool{}
	var found []string
	for _, name := range names {
		for directory := path.Dir(name); directory != "." && !seen[directory]; directory = path.Dir(directory) {
			seen[directory] = true
			found = append(found, directory)
		}
	}
	slices.Sort(found)
	return found
}
