package contender

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/subprocess"
	"github.com/gofrs/flock"
	"golang.org/x/mod/modfile"
)

// modulePath is the path of the module whose checkout contains the source of the contenders.
const modulePath = "github.com/bellerophon-io/bellerophon"

// lockRetry is the interval between attempts to get a lock that another process holds. The
// operating system offers no wait for a lock that can also be cancelled.
const lockRetry = 50 * time.Millisecond

// noSource lists files and folders within a contender's folder that do not change its program: its page, and
// the folders that tools write to.
var noSource = []string{"README.md", "target", "bin"}

// builder builds contenders of one checkout.
type builder struct {
	root  string // the root of the checkout
	cache string // the folder for programs
	log   io.Writer
}

func newBuilder(log io.Writer) (*builder, error) {
	root, err := checkout()
	if err != nil {
		return nil, err
	}
	cache, err := cacheDirectory()
	if err != nil {
		return nil, err
	}
	b := &builder{root: root, cache: cache, log: log}
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return nil, fmt.Errorf("create the cache directory: %w; set XDG_CACHE_HOME to a directory that you can write", err)
	}
	return b, nil
}

// cacheDirectory returns the folder for built programs and for the notes of passed suites.
func cacheDirectory() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w; set XDG_CACHE_HOME to a directory that you can write", err)
	}
	return filepath.Join(cache, "bellerophon", "contenders"), nil
}

// checkout walks up from the working directory to the root of the checkout.
func checkout() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the source of the contenders: %w", err)
	}
	for directory := start; ; directory = filepath.Dir(directory) {
		content, err := os.ReadFile(filepath.Join(directory, "go.mod"))
		if err == nil && modfile.ModulePath(content) == modulePath {
			return directory, nil
		}
		if directory == filepath.Dir(directory) {
			return "", fmt.Errorf("find the source of the contenders: neither %s nor a directory above it is a checkout of %s; run this in a checkout", start, modulePath)
		}
	}
}

// checkoutID returns a hash that keeps the programs of different checkouts apart.
func (b *builder) checkoutID() string {
	sum := sha256.Sum256([]byte(b.root))
	return hex.EncodeToString(sum[:4])
}

// locked runs a build under the build lock, so that no other process builds at the same time.
func (b *builder) locked(ctx context.Context, build func() error) error {
	lock := flock.New(filepath.Join(b.cache, "build.lock"))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	return errors.Join(build(), lock.Close())
}

// run runs a tool in a folder of the checkout, until ctx ends.
func (b *builder) run(ctx context.Context, folder, name string, arguments ...string) error {
	runtime.LockOSThread() // See subprocess.Attributes: a build also ends with this process.
	defer runtime.UnlockOSThread()
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = filepath.Join(b.root, folder)
	command.Env = append(os.Environ(), "PWD="+command.Dir, "CGO_ENABLED=0", "GOWORK="+b.workspace(folder))
	command.Stdout, command.Stderr = b.log, b.log
	command.SysProcAttr = subprocess.Attributes()
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s %s was stopped: %w", name, arguments[0], context.Cause(ctx))
		}
		return fmt.Errorf("%s %s in %s: %w; its output says why", name, arguments[0], command.Dir, err)
	}
	return nil
}

// workspace returns the go.work for a folder of the checkout. Peers are modules of their own, outside of it.
func (b *builder) workspace(folder string) string {
	if strings.HasPrefix(folder, "bench/peers/") {
		return "off"
	}
	return filepath.Join(b.root, "go.work")
}

// once builds a folder and keeps artifacts of its folder target in the cache. The name of the
// cached folder contains the hash of the source. If that folder exists, once builds nothing. It
// returns the cached folder.
func (b *builder) once(ctx context.Context, name, folder string, artifacts []string, build func() error) (string, error) {
	hash, err := hashOf(filepath.Join(b.root, folder), noSource...)
	if err != nil {
		return "", fmt.Errorf("hash %s: %w", folder, err)
	}
	kept := filepath.Join(b.cache, name+"-"+hash)
	if _, err := os.Stat(kept); err == nil {
		return kept, nil
	}
	if err := build(); err != nil {
		return "", err
	}
	// The folder is renamed when it is complete, so that an existing folder is always complete.
	temporary, err := os.MkdirTemp(b.cache, "copy-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	for _, artifact := range artifacts {
		if err := keep(filepath.Join(temporary, artifact), filepath.Join(b.root, folder, "target", artifact)); err != nil {
			return "", fmt.Errorf("keep the build's artifact %s: %w", artifact, err)
		}
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return kept, os.Rename(temporary, kept)
}

// keep copies a file, or a folder with its content. Copies have the times of their originals: Java
// compares them with those in an archive of classes.
func keep(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.Chtimes(target, time.Time{}, info.ModTime())
	})
}

// hashOf returns a hash of a file, or of all files of a folder. It skips files and folders with the
// given names.
func hashOf(root string, without ...string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		skipped := slices.Contains(without, entry.Name())
		switch {
		case entry.IsDir() && skipped:
			return filepath.SkipDir
		case entry.IsDir() || skipped:
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		fmt.Fprintf(sum, "%s %d\n%s", relative, len(content), content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)[:8]), err
}
