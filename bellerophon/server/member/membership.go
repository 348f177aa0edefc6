package member

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	"github.com/hashicorp/raft"
)

// Bootstrap makes a cluster of this member alone, with a name that no other cluster has. It is idempotent. The error wraps
// [client.ErrOtherCluster] if the member already belongs to another cluster, also if it joined that.
func (m *Member) Bootstrap(cluster string) error {
	if cluster == "" {
		return errors.New("the name of the cluster is empty; give one that no other cluster has, such as a UID")
	}
	// The name is on the volume before the first entry of the log. A kill between the two leaves a member that
	// only this cluster can bootstrap.
	if err := m.identity.adopt(cluster); err != nil {
		return err
	}
	err := m.raft.BootstrapCluster(raft.Configuration{Servers: []raft.Server{{
		Suffrage: raft.Voter, ID: m.config.LocalID, Address: m.stream.address,
	}}}).Error()
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) { // It cannot, because it has a log already.
		return fmt.Errorf("bootstrapping the cluster %s: %w", cluster, err)
	}
	return nil
}

// Join adds a member to the cluster, or changes whether it votes. A new member should vote only when it has
// caught up: until then it would count for the majority and could not be part of it. The error wraps
// [client.ErrNotLeader] if nothing was done, and [client.ErrUnknown] if the change may still happen.
func (m *Member) Join(ctx context.Context, joining client.Server) error {
	if joining.ID == "" || joining.Address == "" {
		return errors.New("joining a member: its id or its address is empty; a member says both in its status")
	}
	id, address := raft.ServerID(joining.ID), addressOf(joining.ID, joining.Address)
	held, index, err := m.configuration()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(held, func(s raft.Server) bool { return s.ID == id })
	is := at >= 0 && held[at].Address == address
	if is && (held[at].Suffrage == raft.Voter) == joining.Voter {
		return nil
	}
	if !joining.Voter && at >= 0 && held[at].Suffrage == raft.Voter {
		if err := m.keepsVoters(held, id); err != nil {
			return err
		}
		return m.wait(ctx, m.raft.DemoteVoter(id, index, m.options.Election))
	}
	if joining.Voter {
		return m.wait(ctx, m.raft.AddVoter(id, address, index, m.options.Election))
	}
	return m.wait(ctx, m.raft.AddNonvoter(id, address, index, m.options.Election))
}

// Leave removes a member from the cluster. It is idempotent. A leader that is to leave has to hand its leadership
// over first: see Transfer.
func (m *Member) Leave(ctx context.Context, id string) error {
	held, index, err := m.configuration()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(held, func(s raft.Server) bool { return s.ID == raft.ServerID(id) }) {
		return nil
	}
	if err := m.keepsVoters(held, raft.ServerID(id)); err != nil {
		return err
	}
	return m.wait(ctx, m.raft.RemoveServer(raft.ServerID(id), index, m.options.Election))
}

func (m *Member) keepsVoters(held []raft.Server, without raft.ServerID) error {
	if slices.ContainsFunc(held, func(s raft.Server) bool { return s.ID != without && s.Suffrage == raft.Voter }) {
		return nil
	}
	return fmt.Errorf("%w: %s; let another one join first", client.ErrLastVoter, without)
}

// configuration returns the newest members, and the index by which a change of them is refused if they have
// changed in between.
func (m *Member) configuration() ([]raft.Server, uint64, error) {
	if m.raft.State() != raft.Leader {
		return nil, 0, client.ErrNotLeader
	}
	future := m.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return nil, 0, fmt.Errorf("reading the members: %w", err)
	}
	return future.Configuration().Servers, future.Index(), nil
}

// Transfer hands the leadership to a member, or to the one that is furthest if id is empty. It returns when
// this member does not lead any more. The error wraps [client.ErrNotLeader], [client.ErrNoMember] or [client.ErrLastVoter], or says why
// it failed; this member leads then.
func (m *Member) Transfer(ctx context.Context, id string) error {
	held, _, err := m.configuration()
	if err != nil {
		return err
	}
	if id == m.identity.id() {
		return nil
	}
	if err := m.keepsVoters(held, m.config.LocalID); err != nil {
		return err
	}
	future := m.raft.LeadershipTransfer
	if id != "" {
		at := slices.IndexFunc(held, func(s raft.Server) bool { return s.ID == raft.ServerID(id) && s.Suffrage == raft.Voter })
		if at < 0 {
			return fmt.Errorf("%w that votes: %s", client.ErrNoMember, id)
		}
		future = func() raft.Future { return m.raft.LeadershipTransferToServer(held[at].ID, held[at].Address) }
	}
	if err := m.wait(ctx, future()); err != nil {
		return fmt.Errorf("handing the leadership over: %w", err)
	}
	return nil
}

// HandOver gives the leadership to another member before this one ends, if it leads and there is another. It
// waits until ctx ends at most.
func (m *Member) HandOver(ctx context.Context) {
	err := m.Transfer(ctx, "")
	if err != nil && !errors.Is(err, client.ErrNotLeader) && !errors.Is(err, client.ErrLastVoter) {
		m.log.Info("no other member took the leadership before the end", "reason", err)
	}
}
