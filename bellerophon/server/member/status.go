package member

import (
	"net/http"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	"github.com/hashicorp/raft"
)

// Status returns the status of this moment.
func (m *Member) Status() client.Status {
	size := m.store.Size()
	status := client.Status{
		ID: m.identity.id(), Name: m.options.Name, Address: m.options.Address, Cluster: m.identity.cluster(),
		Term: m.raft.CurrentTerm(), Committed: m.raft.CommitIndex(), Applied: m.raft.AppliedIndex(), Ready: m.IsReady(),
		Revision: size.Revision, Keys: size.Keys, Bytes: size.Bytes,
	}
	if failed := m.disk.failed.Load(); failed != nil {
		status.Problem = *failed
	}
	status.Role = client.Waiting
	future := m.raft.GetConfiguration()
	if future.Error() != nil {
		return status
	}
	_, leader := m.raft.LeaderWithID()
	for _, server := range future.Configuration().Servers {
		one := client.Server{ID: string(server.ID), Address: hostOf(server.Address), Voter: server.Suffrage == raft.Voter}
		status.Members = append(status.Members, one)
		if server.ID == leader {
			status.Leader = &one
		}
		if server.ID == m.config.LocalID {
			status.Role = m.role(one.Voter)
		}
	}
	return status
}

func (m *Member) role(votes bool) client.Role {
	switch m.raft.State() {
	case raft.Leader:
		return client.Leader
	case raft.Candidate:
		return client.Candidate
	case raft.Follower:
		if !votes {
			return client.Learner
		}
		return client.Follower
	}
	return client.Waiting
}

// IsReady reports whether the member should get requests: it leads, or it hears from its leader, and it has
// applied what was committed when it became that.
func (m *Member) IsReady() bool {
	if m.raft.State() == raft.Leader {
		return m.Leads()
	}
	return m.caughtUp.Load() && m.LeaderHost() != "" && time.Since(m.raft.LastContact()) < 2*m.options.Election
}

// ServeHTTP handles the requests at [Path], with which other members connect.
func (m *Member) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.stream.ServeHTTP(w, r) }

// ID returns the ID of the member: its name, and a part that is new for each volume.
func (m *Member) ID() string { return m.identity.id() }
