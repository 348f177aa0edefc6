package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/subprocess"
)

// gitLimit is how long git may take to add or remove a worktree, also after Ctrl-C.
const gitLimit = time.Minute

// side is one revision, checked out and built.
type side struct {
	name     string // base or change
	commit   string
	worktree string
	binaries string // folder of the binaries
}

// binary returns the path of a program of the side.
func (s side) binary(p program) string {
	return filepath.Join(s.binaries, strings.Trim(strings.ReplaceAll(p.pkg, "/", "-"), ".-"))
}

// checkout makes a worktree for each of two revisions in a new temporary folder. The returned
// function removes the worktrees and the folder. It is never nil.
func checkout(ctx context.Context, repository, baseRevision, changeRevision string) (base, change side, remove func() error, err error) {
	folder, err := os.MkdirTemp("", "bellerophon-pairs-")
	if err != nil {
		return base, change, func() error { return nil }, fmt.Errorf("check out revisions: %w", err)
	}
	var made []side
	remove = func() error {
		ctx, cancel := detached(ctx)
		defer cancel()
		var failed error
		for _, side := range made {
			_, err := run(ctx, repository, "git", "worktree", "remove", "--force", side.worktree)
			failed = errors.Join(failed, err)
		}
		return errors.Join(failed, os.RemoveAll(folder))
	}
	for _, wanted := range []struct{ name, revision string }{{"base", baseRevision}, {"change", changeRevision}} {
		checkedOut := side{
			name: wanted.name, worktree: filepath.Join(folder, wanted.name), binaries: filepath.Join(folder, wanted.name+"-bin"),
		}
		if checkedOut.commit, err = commitOf(ctx, repository, wanted.revision); err != nil {
			return base, change, remove, fmt.Errorf("check out --%s: %w", wanted.name, err)
		}
		if err := os.Mkdir(checkedOut.binaries, 0o755); err != nil {
			return base, change, remove, fmt.Errorf("check out --%s: %w", wanted.name, err)
		}
		if err := checkedOut.add(ctx, repository); err != nil {
			return base, change, remove, fmt.Errorf("check out --%s: %w", wanted.name, err)
		}
		made = append(made, checkedOut)
	}
	return made[0], made[1], remove, nil
}

// commitOf resolves a revision to the hash of its commit.
func commitOf(ctx context.Context, repository, revision string) (string, error) {
	commit, err := run(ctx, repository, "git", "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("git finds no commit %q: %w", revision, err)
	}
	return strings.TrimSpace(string(commit)), err
}

// add makes the worktree of a side. It cannot be interrupted, since an interrupted git leaves the
// worktree locked.
func (s side) add(ctx context.Context, repository string) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	_, err := run(ctx, repository, "git", "worktree", "add", "--detach", s.worktree, s.commit)
	return err
}

// detached returns a context that outlives Ctrl-C by gitLimit at most.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), gitLimit)
}

// folder returns the path of a program in the worktree, which may be from before a rename.
func (s side) folder(p program) string {
	if _, err := os.Stat(filepath.Join(s.worktree, p.pkg)); p.former != "" && errors.Is(err, fs.ErrNotExist) {
		return p.former
	}
	return p.pkg
}

// build builds a program. It leaves paths and version control data out of the binary, so that equal
// code makes equal binaries.
func (s side) build(ctx context.Context, p program) error {
	arguments := []string{"test", "-c", "-vet=off"}
	if p.command || p.rounds {
		arguments = []string{"build"}
	}
	arguments = append(arguments, "-trimpath", "-buildvcs=false", "-o", s.binary(p), s.folder(p))
	if _, err := run(ctx, s.worktree, "go", arguments...); err != nil {
		return fmt.Errorf("build %s of %s: %w", p.pkg, s.name, err)
	}
	if _, err := os.Stat(s.binary(p)); err != nil {
		return fmt.Errorf("build %s of %s: go wrote no binary: %w", p.pkg, s.name, err)
	}
	return nil
}

// run runs a program in a folder and returns its output.
func run(ctx context.Context, folder, name string, arguments ...string) ([]byte, error) {
	output, _, err := measured(ctx, folder, name, arguments...)
	return output, err
}

// measured runs a program in a folder and returns its output and the CPU time of its process.
func measured(ctx context.Context, folder, name string, arguments ...string) (output []byte, cpu time.Duration, err error) {
	runtime.LockOSThread() // The kernel kills the process when this thread ends: see subprocess.Attributes.
	defer runtime.UnlockOSThread()
	var out, trouble bytes.Buffer
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir, command.Stdout, command.Stderr = folder, &out, &trouble
	command.Env = append(command.Environ(), "GOWORK=") // A side is built with the go.work of its worktree, if it has one.
	command.SysProcAttr = subprocess.Attributes()
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) } // Kill the whole process group.
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, 0, fmt.Errorf("run %s: %w", filepath.Base(name), context.Cause(ctx))
		}
		return nil, 0, fmt.Errorf("run %s: %w%s", filepath.Base(name), err, tail(trouble.String()+out.String()))
	}
	return out.Bytes(), command.ProcessState.UserTime() + command.ProcessState.SystemTime(), nil
}

// tail returns the last lines of a text, indented below an error.
func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if text = strings.Join(lines[max(0, len(lines)-10):], "\n  "); text == "" {
		return ""
	}
	return "\n  " + text
}
