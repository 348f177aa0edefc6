package member

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// followed is the transport of raft. It notes when each member last followed this one.
//
// VerifyLeader of raft also counts answers to heartbeats that were sent before it was called, and answers of members that do
// not vote. A leader that was frozen finds such answers when it goes on, although another one leads meanwhile. So a
// read also asks here.
type followed struct {
	*raft.NetworkTransport

	mu   sync.Mutex
	last map[raft.ServerID]acknowledged
}

// acknowledged is a request that a member has answered as a follower.
type acknowledged struct {
	term uint64
	sent time.Time // before the request was sent
}

// AppendEntries sends entries or a heartbeat, and notes the answer.
func (f *followed) AppendEntries(id raft.ServerID, target raft.ServerAddress, request *raft.AppendEntriesRequest, response *raft.AppendEntriesResponse) error {
	sent := time.Now()
	err := f.NetworkTransport.AppendEntries(id, target, request, response)
	if err == nil && response.Success {
		f.note(id, acknowledged{request.Term, sent})
	}
	return err
}

func (f *followed) note(id raft.ServerID, now acknowledged) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if before := f.last[id]; now.term > before.term || now.term == before.term && now.sent.After(before.sent) {
		f.last[id] = now
	}
}

// byMajority reports whether a majority of the members that vote have followed this one in a term. Only answers to requests
// count that were sent at a given time or later. The member itself counts.
func (f *followed) byMajority(servers []raft.Server, self raft.ServerID, term uint64, since time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	votes, follow := 0, 0
	for _, server := range servers {
		if server.Suffrage != raft.Voter {
			continue
		}
		votes++
		if last := f.last[server.ID]; server.ID == self || last.term == term && !last.sent.Before(since) {
			follow++
		}
	}
	return follow > votes/2
}
