package localcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lockRetry is the interval between attempts to get a lock that another process holds. The
// operating system offers no wait for a lock that can also be cancelled.
const lockRetry = 50 * time.Millisecond

// directory is the place where one cluster keeps its files. The owner holds a lock in it for as
// long as the cluster runs. The operating system frees the lock of a killed process, so that the
// next process can tell that the directory is abandoned.
type directory struct {
	path string
	lock *flock.Flock
}

// newDirectory creates a directory for a cluster. It first removes the abandoned directories in
// the same parent.
func newDirectory(ctx context.Context, parent string, logger *slog.Logger) (*directory, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, cacheError(parent, err)
	}
	// A directory looks abandoned between its creation and its lock, so no other process may
	// sweep in between.
	sweeping := flock.New(filepath.Join(parent, "sweep.lock"))
	if _, err := sweeping.TryLockContext(ctx, lockRetry); err != nil {
		return nil, cacheError(parent, fmt.Errorf("lock %s: %w", sweeping.Path(), err))
	}
	defer sweeping.Close()
	if err := sweep(parent, logger); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(parent, "cluster-")
	if err != nil {
		return nil, cacheError(parent, err)
	}
	d := &directory{path: path, lock: ownerLock(path)}
	locked, err := d.lock.TryLock()
	if err == nil && !locked {
		err = errors.New("another process holds it")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", d.lock.Path(), err), os.RemoveAll(path))
	}
	return d, nil
}

// sweep removes the directories whose lock is free. A directory that cannot be removed, perhaps
// because its processes are still exiting, is left to the next sweep.
func sweep(parent string, logger *slog.Logger) error {
	abandoned, err := filepath.Glob(filepath.Join(parent, "cluster-*"))
	if err != nil {
		return fmt.Errorf("list %s: %w", parent, err)
	}
	for _, path := range abandoned {
		lock := ownerLock(path)
		locked, err := lock.TryLock()
		if err == nil && !locked {
			continue // The directory is in use.
		}
		if err == nil {
			err = removeCgroups(cgroupOf(path))
		}
		if err == nil {
			err = os.RemoveAll(path)
		}
		err = errors.Join(err, lock.Close())
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			logger.Warn("could not remove the directory of a killed cluster", "directory", path, "error", err)
			continue
		}
		logger.Info("removed the directory of a killed cluster", "directory", path)
	}
	return nil
}

func ownerLock(path string) *flock.Flock { return flock.New(filepath.Join(path, "owner.lock")) }

// file returns the path of a file in the directory.
func (d *directory) file(name ...string) string {
	return filepath.Join(append([]string{d.path}, name...)...)
}

// write creates a file that only the user may read, because some files hold keys.
func (d *directory) write(name string, content []byte) error {
	if err := os.WriteFile(d.file(name), content, 0o600); err != nil {
		return cacheError(d.path, err)
	}
	return nil
}

// remove deletes the directory and the control group of the cluster, and releases the lock.
func (d *directory) remove() error {
	return errors.Join(removeCgroups(cgroupOf(d.path)), os.RemoveAll(d.path), d.lock.Close())
}
