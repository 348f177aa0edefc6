package member

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// timedLog measures how long writes to the log take. It embeds the log of the volume.
type timedLog struct {
	raft.LogStore
	synced func(time.Duration)
	since  atomic.Int64 // when the write in flight began, in nanoseconds since 1970; 0 if there is none
}

// StoreLog writes an entry.
func (t *timedLog) StoreLog(entry *raft.Log) error { return t.StoreLogs([]*raft.Log{entry}) }

// StoreLogs writes entries. They are on the volume when it returns.
func (t *timedLog) StoreLogs(entries []*raft.Log) error {
	began := time.Now()
	t.since.Store(began.UnixNano())
	defer func() {
		t.since.Store(0)
		if t.synced != nil {
			t.synced(time.Since(began))
		}
	}()
	return t.LogStore.StoreLogs(entries)
}

// Hung returns for how long a write to the log has been in flight, or 0.
func (m *Member) Hung() time.Duration {
	if since := m.disk.since.Load(); since != 0 {
		return time.Since(time.Unix(0, since))
	}
	return 0
}
