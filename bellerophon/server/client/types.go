package client

import (
	"context"
	"errors"
	"net"
)

// Errors that callers test.
var (
	// ErrNotLeader means that the member is not the leader, or not yet. Nothing was changed.
	ErrNotLeader = errors.New("this member is not the leader")
	// ErrUnknown means that a change may have happened, or may happen later.
	ErrUnknown = errors.New("it is unknown whether the change was made")
	// ErrOtherCluster means that the member belongs to another cluster.
	ErrOtherCluster = errors.New("the member belongs to another cluster")
	// ErrNoMember means that the cluster has no such member.
	ErrNoMember = errors.New("no such member")
	// ErrLastVoter means that a cluster would be left without a member that votes.
	ErrLastVoter = errors.New("it is the last member that votes")
	// ErrNotEmpty means that the cluster has keys, which a restore would replace.
	ErrNotEmpty = errors.New("the cluster has keys already; restore into a new one")
)

// ExitDamaged is the exit code of a member whose volume is damaged: EX_DATAERR of sysexits. A restart does not mend that. A member
// of a cluster can begin with an empty volume instead, as a new one.
const ExitDamaged = 65

// Dialer connects to the address of a member, with TLS if members use it.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// Paths of requests that members and the operator send.
const (
	ProgressPath = "/v1/progress"
	MembersPath  = "/v1/members/"
)

// Progress is how far the leader is.
type Progress struct {
	Committed uint64 `json:"committed"` // an index of the log
	Revision  uint64 `json:"revision"`  // of the store
}

// Server is a member as the cluster's configuration has it.
type Server struct {
	ID      string `json:"id"`
	Address string `json:"address"` // host:port
	Voter   bool   `json:"voter"`
}

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
	// Problem is why the last write to the volume failed, such as a full disk. It is empty if it succeeded.
	Problem string `json:"problem,omitempty"`
}

// ClusterBody is the body of a request to make a cluster.
type ClusterBody struct {
	Name string `json:"name"`
}

// LeaderBody is the body of a request to hand the leadership over.
type LeaderBody struct {
	ID string `json:"id"` // empty for any member
}

// JoinBody is the body of a request to join.
type JoinBody struct {
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
}

// Failure is the body of an answer that is no success.
type Failure struct {
	Error string `json:"error"`
	// Changed is "no", or "unknown" if the change may have been made or may be made later.
	Changed string `json:"changed"`
	// Revision is the revision of the key, if that is why a change was refused.
	Revision *uint64 `json:"revision,omitempty"`
}
