package member

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// timedLog measures how long writes to the log take. It embeds the log of the volume.
type timedLog struct {
	raft.LogStore
	synced func(time.Duration)
	since  atomic.Int64 // when the write in flight began, in nanoseconds since 1970; 0 if there is none

	failed atomic.Pointer[string] // why the last write failed; nil if it did not

	bytes, entries atomic.Int64  // since the log was last compacted
	full           chan struct{} // holds a token when the log is to be compacted
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
	if err := t.LogStore.StoreLogs(entries); err != nil {
		said := err.Error()
		t.failed.Store(&said)
		return err
	}
	t.failed.Store(nil)
	t.entries.Add(int64(len(entries)))
	for _, entry := range entries {
		t.bytes.Add(entryBytes + int64(len(entry.Data)))
	}
	if t.bytes.Load() >= maxLog {
		select {
		case t.full <- struct{}{}:
		default:
		}
	}
	return nil
}

const (
	maxLog     = 32 << 20 // bytes of the log that make a snapshot; raft itself only counts entries
	keptLog    = 8 << 20  // bytes of the log that a snapshot leaves for members that are a little behind
	entryBytes = 64       // of an entry without its data
	minKept    = 16       // entries that a snapshot leaves in any case
)

// compact makes a snapshot whenever the log has grown by maxLog, so that large values do not fill the volume. It returns
// when ctx ends.
func (m *Member) compact(ctx context.Context) error {
	for {
		select {
		case <-m.disk.full:
		case <-ctx.Done():
			return nil
		}
		bytes, entries := m.disk.bytes.Swap(0), m.disk.entries.Swap(0)
		if entries == 0 { // A token of before the last time.
			continue
		}
		settings := m.raft.ReloadableConfig()
		settings.TrailingLogs = uint64(min(max(keptLog*entries/bytes, minKept), int64(m.config.TrailingLogs)))
		if err := m.raft.ReloadConfig(settings); err != nil {
			return fmt.Errorf("compacting the log: %w", err)
		}
		if err := m.wait(ctx, m.raft.Snapshot()); err != nil && ctx.Err() == nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
			m.log.Warn("the log could not be compacted; the next entries try it again", "error", err)
			m.disk.bytes.Add(bytes / 2)
			m.disk.entries.Add(entries / 2)
		}
	}
}

// Hung returns for how long a write to the log has been in flight, or 0.
func (m *Member) Hung() time.Duration {
	if since := m.disk.since.Load(); since != 0 {
		return time.Since(time.Unix(0, since))
	}
	return 0
}
