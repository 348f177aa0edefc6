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
	"strconv"
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
	ending  = ".snapshot"
	partial = ".partial" // a file that is not complete yet
	// stamp is the time in a file's name, in UTC. Its order is the order of time.
	stamp = "20060102T150405Z"
)

// ErrNone means that a folder has no backup.
var ErrNone = errors.New("there is no backup")

// Take takes a backup through a member, and then removes all but the newest ones. The file is complete, verified and on
// the disk before an older one is removed. Take first removes files that killed processes have left an hour ago or earlier. It returns the path of the file.
func (f Folder) Take(ctx context.Context, from *client.Client, host string, keep int, now time.Time) (file string, err error) {
	if keep < 1 {
		return "", fmt.Errorf("the number of backups to keep is %d; allowed is 1 and above", keep)
	}
	if err := f.removePartial(now); err != nil {
		return "", fmt.Errorf("taking a backup of %s: %w", f.Name, err)
	}
	file = filepath.Join(f.Dir, f.Name+"-"+now.UTC().Format(stamp)+ending)
	unfinished, err := os.CreateTemp(f.Dir, "."+f.Name+"-*"+partial)
	if err != nil {
		return "", fmt.Errorf("taking a backup of %s: %w", f.Name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("taking a backup of %s: %w", f.Name, err), os.Remove(unfinished.Name()))
		}
	}()
	defer func() { _ = unfinished.Close() }()
	content, err := from.Snapshot(ctx, host)
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }()
	if _, err := store.Read(io.TeeReader(content, unfinished)); err != nil {
		return "", err
	}
	if err := errors.Join(unfinished.Sync(), unfinished.Close()); err != nil {
		return "", err
	}
	if err := os.Rename(unfinished.Name(), file); err != nil {
		return "", err
	}
	if err := syncDir(f.Dir); err != nil {
		return "", fmt.Errorf("taking a backup of %s: %w", f.Name, err)
	}
	return file, f.prune(keep)
}

// staleAfter is the age of an incomplete file whose process has ended: a process that lives writes to it all the time.
const staleAfter = time.Hour

// removePartial removes the incomplete files of processes that were killed.
func (f Folder) removePartial(now time.Time) error {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		rest, is := strings.CutPrefix(entry.Name(), "."+f.Name+"-")
		number, whole := strings.CutSuffix(rest, partial)
		// Another cluster may have a longer name that begins with this one.
		if _, err := strconv.ParseUint(number, 10, 64); !is || !whole || err != nil {
			continue
		}
		info, err := entry.Info()
		if err == nil && now.Sub(info.ModTime()) > staleAfter {
			err = os.Remove(filepath.Join(f.Dir, entry.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
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
// folder. The cluster must have no keys, so that a restore never replaces any: the error wraps [client.ErrNotEmpty]. A restore of the same
// file that is tried again succeeds. Restore returns the path of the file.
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
	if err := to.Restore(ctx, host, content); err != nil {
		return "", fmt.Errorf("restoring %s from %s: %w", f.Name, file, err)
	}
	return file, nil
}
