package member

import (
	"errors"
	"io"
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
)

// spool writes a snapshot to a nameless file of the volume, and returns the file and its size. Raft needs the size
// before the content.
func spool(dir string, from *store.Snapshot) (content *os.File, size int64, err error) {
	if content, err = os.CreateTemp(dir, "restore-*"); err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, content.Close())
		}
	}()
	// The name goes now, so that a kill leaves nothing behind.
	if err := os.Remove(content.Name()); err != nil {
		return nil, 0, err
	}
	if _, err := from.Write(content); err != nil {
		return nil, 0, err
	}
	if size, err = content.Seek(0, io.SeekEnd); err != nil {
		return nil, 0, err
	}
	_, err = content.Seek(0, io.SeekStart)
	return content, size, err
}
