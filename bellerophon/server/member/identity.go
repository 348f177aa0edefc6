package member

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
)

// identity is the part of a volume that names its member. It is written before the member takes part in a cluster.
type identity struct {
	mu   sync.Mutex
	path string
	held struct {
		ID      string `json:"id"`
		Cluster string `json:"cluster,omitempty"` // empty until the member belongs to one
	}
}

// openIdentity reads the identity of a volume, and gives an empty volume a new one.
func openIdentity(dir, name string) (*identity, error) {
	i := &identity{path: filepath.Join(dir, "identity.json")}
	content, err := os.ReadFile(i.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Join(dir, logFile)); err == nil {
			return nil, fmt.Errorf("%w: %s is missing beside a log; restore it, or empty the volume", ErrDamaged, i.path)
		}
		i.held.ID = name + "." + strings.ToLower(rand.Text()[:8])
		return i, i.write()
	case err != nil:
		return nil, fmt.Errorf("reading the identity of the member: %w", err)
	}
	err = json.Unmarshal(content, &i.held)
	if err == nil && i.held.ID == "" {
		err = errors.New("it has no id")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: reading %s: %w; restore it, or empty the volume", ErrDamaged, i.path, err)
	}
	return i, nil
}

// id returns the name of the member, which is unique for its volume.
func (i *identity) id() string { return i.held.ID }

// cluster returns the name of the cluster, or "" if the member belongs to none.
func (i *identity) cluster() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.held.Cluster
}

// adopt makes the member one of a cluster, for ever. It is idempotent. The error wraps [client.ErrOtherCluster] if the
// member belongs to another one.
func (i *identity) adopt(cluster string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch i.held.Cluster {
	case cluster:
		return nil
	case "":
		i.held.Cluster = cluster
		if err := i.write(); err != nil {
			i.held.Cluster = ""
			return err
		}
		return nil
	}
	return fmt.Errorf("%w: %s", client.ErrOtherCluster, i.held.Cluster)
}

// write replaces the file. After a crash the old or the new content is there.
func (i *identity) write() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing the identity of the member: %w", err)
		}
	}()
	content, err := json.Marshal(i.held)
	if err != nil {
		return err
	}
	next, err := os.OpenFile(i.path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = next.Write(append(content, '\n'))
	if err := errors.Join(err, next.Sync(), next.Close()); err != nil {
		return err
	}
	if err := os.Rename(next.Name(), i.path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(i.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
