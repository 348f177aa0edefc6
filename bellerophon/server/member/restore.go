package member

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
)

// Restore replaces all keys of the cluster by a snapshot, if this member is the leader. With onlyEmpty it returns an error that
// wraps [client.ErrNotEmpty] if the cluster has keys. Keys from an earlier restore of the same snapshot are a success then.
//
// The snapshot goes through the log, in parts. Its last command replaces the keys, so a restore happens as a whole or not at all,
// and other changes come before or after it. The other errors are the ones of Propose.
func (m *Member) Restore(ctx context.Context, from *store.Snapshot, onlyEmpty bool) error {
	select {
	case m.restoring <- struct{}{}: // A second one would drop the parts of the first one.
		defer func() { <-m.restoring }()
	case <-ctx.Done():
		return fmt.Errorf("%w: another restore is in progress: %w", client.ErrNotLeader, context.Cause(ctx))
	}
	if _, err := m.Lead(); err != nil {
		return err
	}
	if onlyEmpty && m.store.HasRestored(from.Sum()) {
		return nil
	}
	if onlyEmpty && m.store.Size().Keys > 0 {
		return client.ErrNotEmpty
	}
	for command, err := range from.Restoration(rand.Text(), onlyEmpty) {
		if err != nil {
			return err
		}
		result, err := m.Propose(ctx, command)
		switch {
		case command.Kind == store.Stage && errors.Is(err, client.ErrUnknown):
			return fmt.Errorf("%w: a part of the snapshot: %s", client.ErrNotLeader, err.Error()) // A part alone changes no key.
		case err != nil:
			return err
		case result.Lost:
			return fmt.Errorf("%w: the parts of the snapshot were dropped", client.ErrNotLeader)
		case result.Refused:
			return client.ErrNotEmpty
		}
	}
	return nil
}
