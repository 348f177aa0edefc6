package simple

import (
	"fmt"
	"sync"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"k8s.io/apimachinery/pkg/types"
)

// Servers are missing if no further one was created for twice as long as others take now. On a busy cluster,
// the StatefulSet controller creates a pod many seconds after it has seen the StatefulSet. The time has
// bounds, because a quota that refuses pods is to be reported even then.
const (
	leastStall = 10 * time.Second
	mostStall  = time.Minute
)

// missing tracks StatefulSets that have too few servers. Its methods may be called from any goroutine.
type missing struct {
	mu     sync.Mutex
	stalls map[types.NamespacedName]stall
	pace   pace // of one more server
}

// stall is a number of servers that is too small, and the time since which it has not changed.
type stall struct {
	servers  int32
	since    time.Time
	exceeded bool // it has lasted longer than others
}

func newMissing() *missing { return &missing{stalls: map[types.NamespacedName]stall{}} }

// forget drops the state of an object that is gone.
func (m *missing) forget(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.stalls, name)
}

// problem returns the problem that the StatefulSet has too few servers, or nil. It lasts since the
// number of servers changed.
func (m *missing) problem(name types.NamespacedName, servers *owned.StatefulSet, want int32, now time.Time) *owned.Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	if servers == nil || servers.Observed < servers.Generation {
		delete(m.stalls, name)
		return nil
	}
	known, stalls := m.stalls[name]
	if stalls && servers.Replicas > known.servers {
		m.pace.took(now.Sub(known.since), now)
	}
	if servers.Replicas >= want {
		delete(m.stalls, name)
		return nil
	}
	if !stalls || known.servers != servers.Replicas {
		known = stall{servers: servers.Replicas, since: now}
	}
	from := known.since.Add(m.pace.patience(leastStall, mostStall, now))
	if known.exceeded = known.exceeded || !now.Before(from); known.exceeded {
		from = time.Time{} // The problem was reported, and does not vanish because other servers come late, too.
	}
	m.stalls[name] = known
	message := fmt.Sprintf("%d of %d servers exist; see the Events of the StatefulSet for why the others are not created", known.servers, want)
	return &owned.Problem{Reason: v1.ReasonReplicasNotCreated, Message: message, From: from}
}
