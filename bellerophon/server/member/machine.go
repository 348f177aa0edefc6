package member

import (
	"errors"
	"fmt"
	"io"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
	"github.com/hashicorp/raft"
)

// machine applies the committed log to a store. It implements raft.FSM.
type machine struct{ store *store.Store }

// Apply carries out one command. Its response is a store.Result.
func (m machine) Apply(entry *raft.Log) any {
	command, err := store.Decode(entry.Data)
	if err != nil {
		// All members have this entry. To skip it on one would let their stores differ.
		panic(fmt.Errorf("applying the log entry %d: %w; this version of the program cannot read it", entry.Index, err))
	}
	return m.store.Apply(command)
}

// errStaging delays a snapshot until the parts of a restore are used or dropped. Raft tries it again later.
var errStaging = errors.New("a restore is in progress")

// Snapshot returns the state of this moment.
func (m machine) Snapshot() (raft.FSMSnapshot, error) {
	// Raft calls Apply from the same goroutine, so no part comes in between.
	if m.store.IsStaging() {
		return nil, errStaging
	}
	return persisted{m.store.Snapshot()}, nil
}

// Restore replaces the state by a snapshot.
func (m machine) Restore(content io.ReadCloser) error {
	read, err := store.Read(content)
	if err == nil {
		m.store.Restore(read)
	}
	_ = content.Close()
	return err
}

type persisted struct{ *store.Snapshot }

// Persist writes the snapshot to the volume.
func (p persisted) Persist(sink raft.SnapshotSink) error {
	if _, err := p.Write(sink); err != nil {
		_ = sink.Cancel()
		return err
	}
	return sink.Close()
}

// Release does nothing: the garbage collector frees a snapshot.
func (persisted) Release() {}
