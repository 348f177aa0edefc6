package member

import (
	"net/http"
	"time"

	"github.com/hashicorp/raft"
)

// Role is what a member does at the moment.
type Role string

// The roles.
const (
	Waiting   Role = "waiting" // it belongs to no cluster yet, or has left it
	Leader    Role = "leader"
	Follower  Role = "follower"
	Candidate Role = "candidate"
	Learner   Role = "learner" // a follower that does not vote
)

// Status is the state of a member and its cluster, as the member sees them. A follower may see an old state.
type Status struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Address   string   `json:"address"`
	Cluster   string   `json:"cluster,omitempty"` // empty if the member belongs to none
	Role      Role     `json:"role"`
	Ready     bool     `json:"ready"`
	Term      uint64   `json:"term"`
	Leader    *Server  `json:"leader,omitempty"` // none during an election
	Committed uint64   `json:"committed"`        // an index of the log
	Applied   uint64   `json:"applied"`          // an index of the log
	Members   []Server `json:"members,omitempty"`
	Revision  uint64   `json:"revision"`
	Keys      int      `json:"keys"`
	Bytes     int64    `json:"bytes"`
}

// Status returns the status of this moment.
func (m *Member) Status() Status {
	size := m.store.Size()
	status := Status{
		ID: m.identity.id(), Name: m.options.Name, Address: m.options.Address, Cluster: m.identity.cluster(),
		Term: m.raft.CurrentTerm(), Committed: m.raft.CommitIndex(), Applied: m.raft.AppliedIndex(), Ready: m.IsReady(),
		Revision: size.Revision, Keys: size.Keys, Bytes: size.Bytes,
	}
	status.Role = Waiting
	future := m.raft.GetConfiguration()
	if future.Error() != nil {
		return status
	}
	_, leader := m.raft.LeaderWithID()
	for _, server := range future.Configuration().Servers {
		one := Server{ID: string(server.ID), Address: hostOf(server.Address), Voter: server.Suffrage == raft.Voter}
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

func (m *Member) role(votes bool) Role {
	switch m.raft.State() {
	case raft.Leader:
		return Leader
	case raft.Candidate:
		return Candidate
	case raft.Follower:
		if !votes {
			return Learner
		}
		return Follower
	}
	return Waiting
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
