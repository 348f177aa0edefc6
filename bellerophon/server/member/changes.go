package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
	"github.com/hashicorp/raft"
)

// Propose carries out a valid command, if this member is the leader. It returns when the command is on the
// volumes of a majority and in the store of this member. The error wraps [client.ErrNotLeader] if nothing was done,
// and [client.ErrUnknown] if the command may still happen.
func (m *Member) Propose(ctx context.Context, command store.Command) (store.Result, error) {
	if m.raft.State() != raft.Leader {
		return store.Result{}, client.ErrNotLeader
	}
	content, err := command.Encode()
	if err != nil {
		return store.Result{}, fmt.Errorf("encoding the command: %w", err)
	}
	future := m.raft.Apply(content, m.options.Election)
	if err := m.wait(ctx, future); err != nil {
		return store.Result{}, err
	}
	return future.Response().(store.Result), nil
}

// wait waits for a change of the log, which takes as long as the disk and a majority take. The context bounds
// only how long the caller waits.
func (m *Member) wait(ctx context.Context, future raft.Future) error {
	done := make(chan error, 1)
	m.waits.Go("waiting for raft", func(context.Context) error {
		done <- future.Error()
		return nil
	})
	select {
	case err := <-done:
		return meaning(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", client.ErrUnknown, context.Cause(ctx))
	}
}

// meaning returns what an error of raft says about a change.
func meaning(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrEnqueueTimeout), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", client.ErrNotLeader, err)
	}
	return fmt.Errorf("%w: %w", client.ErrUnknown, err)
}

// Lead returns how far this member is, if it is the leader. Every change that was acknowledged before the call
// is within that. The error wraps [client.ErrNotLeader].
//
// A majority confirms the leadership for each call, so no clock is trusted: see section 6.4 of Ongaro's thesis.
func (m *Member) Lead() (client.Progress, error) {
	term := m.ledTerm.Load()
	if term == 0 || m.raft.CurrentTerm() != term {
		return client.Progress{}, client.ErrNotLeader
	}
	for began, servers := time.Now(), m.raft.GetConfiguration().Configuration().Servers; ; {
		if err := m.raft.VerifyLeader().Error(); err != nil { // It also sends heartbeats.
			return client.Progress{}, fmt.Errorf("%w: %w", client.ErrNotLeader, err)
		}
		if m.carrier.byMajority(servers, m.config.LocalID, term, began) {
			break
		}
		if time.Since(began) > m.options.Election {
			return client.Progress{}, fmt.Errorf("%w: no majority follows it any more", client.ErrNotLeader)
		}
	}
	progress := client.Progress{Committed: m.raft.CommitIndex(), Revision: m.store.Size().Revision}
	// Another leader may have written in between, and this one may lead again without having applied that.
	if m.raft.CurrentTerm() != term {
		return client.Progress{}, client.ErrNotLeader
	}
	return progress, nil
}

// Read returns when the store of this member has every change that was acknowledged before the call. A follower
// asks its leader. The error wraps [client.ErrNotLeader] if there is no leader at the moment.
func (m *Member) Read(ctx context.Context) error {
	answer := make(chan read, 1)
	select {
	case m.reads <- answer:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case read := <-answer:
		if read.err != nil {
			return read.err
		}
		return m.store.Reach(ctx, read.revision)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read is the answer to a read: the revision that the store has to reach.
type read struct {
	revision uint64
	err      error
}

// answerReads asks once for all reads that wait. Each question begins after the reads that it is for.
func (m *Member) answerReads(ctx context.Context) error {
	for {
		var waiting []chan read
		select {
		case one := <-m.reads:
			waiting = append(waiting, one)
		case <-ctx.Done():
			return ctx.Err()
		}
		for more := true; more; {
			select {
			case one := <-m.reads:
				waiting = append(waiting, one)
			default:
				more = false
			}
		}
		progress, err := m.ask(ctx)
		for _, one := range waiting {
			one <- read{progress.Revision, err}
		}
	}
}

// ask returns how far the leader is, whichever member that is.
func (m *Member) ask(ctx context.Context) (client.Progress, error) {
	if m.raft.State() == raft.Leader {
		return m.Lead()
	}
	host := m.LeaderHost()
	if host == "" {
		return client.Progress{}, client.ErrNotLeader
	}
	ctx, cancel := context.WithTimeout(ctx, m.options.Election)
	defer cancel()
	progress, err := m.options.Ask(ctx, host)
	if err != nil {
		return client.Progress{}, fmt.Errorf("%w, and the leader at %s does not answer: %w", client.ErrNotLeader, host, err)
	}
	return progress, nil
}
