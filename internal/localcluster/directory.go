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

// lockRetry is how often a lock that another process holds is tried: the operating
// system does not say when it becomes free to somebody who can also be cancelled.
const lockRetry = 50 * time.Millisecond

// directory is where one cluster keeps its files. Its owner holds a lock in it for as
// long as the cluster runs. The system frees the lock of a process that was killed, and
// so tells the next one that the directory may go.
type directory struct {
	path string
	lock *flock.Flock
}

// newDirectory makes a directory for a cluster, after removing those in the same parent
// whose owners are gone.
func newDirectory(ctx context.Context, parent string, logger *slog.Logger) (*directory, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, cacheError(parent, err)
	}
	// Between the creation of a directory and its lock, it looks abandoned: nobody sweeps
	// meanwhile.
	sweeping := flock.New(filepath.Join(parent, "sweep.lock"))
	if _, err := sweeping.TryLockContext(ctx, lockRetry); err != nil {
		return nil, cacheError(parent, fmt.Errorf("locking %s: %w", sweeping.Path(), err))
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
		return nil, errors.Join(fmt.Errorf("locking %s: %w", d.lock.Path(), err), os.RemoveAll(path))
	}
	return d, nil
}

// sweep removes the directories whose lock is free. One that resists (its processes may
// be dying right now) is left to the next sweep.
func sweep(parent string, logger *slog.Logger) error {
	abandoned, err := filepath.Glob(filepath.Join(parent, "cluster-*"))
	if err != nil {
		return fmt.Errorf("listing %s: %w", parent, err)
	}
	for _, path := range abandoned {
		lock := ownerLock(path)
		locked, err := lock.TryLock()
		if err == nil && !locked {
			continue // It is in use.
		}
		if err == nil {
			err = os.RemoveAll(path)
		}
		err = errors.Join(err, lock.Close())
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			logger.Warn("could not remove what a killed cluster left", "directory", path, "error", err)
			continue
		}
		logger.Info("removed what a killed cluster left", "directory", path)
	}
	return nil
}

func ownerLock(path string) *flock.Flock { return flock.New(filepath.Join(path, "owner.lock")) }

// file is the path of a file of the directory.
func (d *directory) file(name ...string) string {
	return filepath.Join(append([]string{d.path}, name...)...)
}

// write makes a file that only the user may read, as there are keys among them.
func (d *directory) write(name string, content []byte) error {
	if err := os.WriteFile(d.file(name), content, 0o600); err != nil {
		return cacheError(d.path, err)
	}
	return nil
}

// remove deletes the directory and gives up the lock.
func (d *directory) remove() error {
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}
