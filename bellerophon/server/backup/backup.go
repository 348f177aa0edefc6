// Package backup keeps backups of a cluster in a folder, and restores them.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
)

// Folder is a folder with the backups of one cluster. Folders of several clusters may be the same. One process may use a
// folder at a time.
type Folder struct {
	Dir  string
	Name string // of the cluster: the files begin with it
}

const (
	ending = ".snapshot"
	// stamp is the time in a file's name, in UTC. Its order is the order of time.
	stamp = "20060102T150405Z"
)

// Errors that callers test.
var (
	// ErrNone means that a folder has no backup.
	ErrNone = errors.New("there is no backup")
	// ErrNotEmpty means that a cluster has keys, which a restore would replace.
	ErrNotEmpty = errors.New("the cluster has keys already; restore into a new one")
)

// Take takes a backup through a member, and then removes all but the newest ones. The file is complete, verified and on
// the disk before an older one is removed. Take returns the path of the file.
func (f Folder) Take(ctx context.Context, from *client.Client, host string, keep int, now time.Time) (file string, err error) {
	if keep < 1 {
		return "", fmt.Errorf("the number of backups to keep is %d; allowed is 1 and above", keep)
	}
	file = filepath.Join(f.Dir, f.Name+"-"+now.UTC().Format(stamp)+ending)
	partial, err := os.CreateTemp(f.Dir, "."+f.Name+"-*.partial")
	if err != nil {
		return "", fmt.Errorf("taking a backup of %s: %w", f.Name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("taking a backup of %s: %w", f.Name, err), os.Remove(partial.Name()))
		}
	}()
	defer func() { _ = partial.Close() }()
	content, err := from.Snapshot(ctx, host)
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }()
	if _, err := store.Read(io.TeeReader(content, partial)); err != nil {
		return "", err
	}
	if err := errors.Join(partial.Sync(), partial.Close()); err != nil {
		return "", err
	}
	if err := os.Rename(partial.Name(), file); err != nil {
		return "", err
	}
	if err := syncDir(f.Dir); err != nil {
		return "", fmt.Errorf("taking a backup of %s: %w", f.Name, err)
	}
	return file, f.prune(keep)
}

// syncDir makes the names in a folder durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// All returns the paths of the backups, the oldest first.
func (f Folder) All() (files []string, err error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return nil, fmt.Errorf("listing the backups of %s: %w", f.Name, err)
	}
	for _, entry := range entries {
		rest, is := strings.CutPrefix(entry.Name(), f.Name+"-")
		at, whole := strings.CutSuffix(rest, ending)
		// Another cluster may have a longer name that begins with this one.
		if _, err := time.Parse(stamp, at); is && whole && err == nil {
			files = append(files, filepath.Join(f.Dir, entry.Name()))
		}
	}
	slices.Sort(files)
	return files, nil
}

func (f Folder) prune(keep int) error {
	files, err := f.All()
	if err != nil {
		return err
	}
	for _, old := range files[:max(0, len(files)-keep)] {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an old backup: %w", err)
		}
	}
	return nil
}

// Restore restores a backup into a new cluster, through a member. An empty file stands for the newest backup of the
// folder. The cluster must have no keys, so that a restore never replaces any. Restore returns the path of the file.
func (f Folder) Restore(ctx context.Context, to *client.Client, host, file string) (string, error) {
	if file == "" {
		files, err := f.All()
		if err != nil {
			return "", err
		}
		if len(files) == 0 {
			return "", fmt.Errorf("restoring %s from %s: %w", f.Name, f.Dir, ErrNone)
		}
		file = files[len(files)-1]
	} else if !filepath.IsAbs(file) {
		file = filepath.Join(f.Dir, file)
	}
	content, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("restoring %s: %w", f.Name, err)
	}
	defer func() { _ = content.Close() }()
	empty, err := to.IsEmpty(ctx, host)
	switch {
	case err != nil:
		return "", fmt.Errorf("restoring %s: %w", f.Name, err)
	case !empty:
		return "", fmt.Errorf("restoring %s: %w", f.Name, ErrNotEmpty)
	}
	if err := to.Restore(ctx, host, content); err != nil {
		return "", fmt.Errorf("restoring %s from %s: %w", f.Name, file, err)
	}
	return file, nil
}
