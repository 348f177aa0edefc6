package controller

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/bellerophon-io/bellerophon/controller/internal/election"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
)

// ErrNotLeading is wrapped in the error of a write, or of a reconcile, that only the leader may do: see
// [LeaderElection].
var ErrNotLeading = election.ErrNotLeading

// LeaderElection lets one of several replicas act, which is then the leader. The others stand by: their caches
// follow the cluster, and they reconcile nothing. The zero value is for a program with one replica.
//
// The leader holds a Lease and renews it. When it ends cleanly, it releases the Lease after its last reconcile
// has returned, and another replica leads at once. When it dies, another replica leads after LeaseDuration.
// A leader that cannot renew the Lease ends its reconciles and stands by. docs/replicas.md says what that
// promises.
//
// Controllers with [EveryReplica] and runnables with Runnable.EveryReplica run on each replica. Everything
// else that writes with the manager's connection needs the leader: otherwise the write fails with
// [ErrNotLeading], and is not sent. This does not hold for Events and for reviews of tokens and permissions.
type LeaderElection struct {
	Lease    string // the Lease, as "namespace/name"; empty for no leader election
	Identity string // of this replica, for people; default the name of the host. The Lease also gets a random part.

	// LeaseDuration is how long other replicas wait after the last renewal that they have seen. Whole
	// seconds, 1 s to 1 h; default 15 s.
	LeaseDuration time.Duration

	// RenewDeadline is how long the leader starts writes after its last renewal. The rest of
	// LeaseDuration is the time-out of a write that starts last: at least 250 ms. Default two thirds of
	// LeaseDuration.
	RenewDeadline time.Duration

	// RetryPeriod is the time between renewals: 20 ms to half of RenewDeadline. Default two fifteenths of
	// LeaseDuration.
	RetryPeriod time.Duration
}

// The ranges of LeaderElection.
const (
	defaultLeaseDuration = 15 * time.Second
	shortestLease        = time.Second
	longestLease         = time.Hour
	shortestWrite        = 250 * time.Millisecond
	shortestRetry        = 20 * time.Millisecond
	longestIdentity      = 200 // bytes
)

// withDefaults fills in the defaults, and returns the name of the Lease. It returns an error for an option that
// is out of its range.
func (l LeaderElection) withDefaults() (LeaderElection, types.NamespacedName, error) {
	var lease types.NamespacedName
	if l.Lease == "" {
		if l != (LeaderElection{}) {
			return l, lease, errors.New("LeaderElection.Lease is empty, but other fields are set; give namespace/name, or leave all out")
		}
		return l, lease, nil
	}
	namespace, name, found := strings.Cut(l.Lease, "/")
	if !found || len(validation.ValidateNamespaceName(namespace, false)) > 0 || len(validation.NameIsDNSSubdomain(name, false)) > 0 {
		return l, lease, fmt.Errorf("LeaderElection.Lease is %q; give namespace/name, each as Kubernetes allows it", l.Lease)
	}
	lease = types.NamespacedName{Namespace: namespace, Name: name}
	if l.LeaseDuration == 0 {
		l.LeaseDuration = defaultLeaseDuration
	}
	if l.RenewDeadline == 0 {
		l.RenewDeadline = l.LeaseDuration * 2 / 3
	}
	if l.RetryPeriod == 0 {
		l.RetryPeriod = min(l.LeaseDuration*2/15, l.RenewDeadline/2)
	}
	switch latest := l.LeaseDuration - shortestWrite; {
	case l.LeaseDuration < shortestLease || l.LeaseDuration > longestLease || l.LeaseDuration%time.Second != 0:
		return l, lease, fmt.Errorf("LeaderElection.LeaseDuration is %v; allowed are whole seconds, %v to %v", l.LeaseDuration, shortestLease, longestLease)
	case l.RenewDeadline < 2*shortestRetry || l.RenewDeadline > latest:
		return l, lease, fmt.Errorf("LeaderElection.RenewDeadline is %v; with a LeaseDuration of %v, allowed is %v to %v, because the rest is the time-out of a write that starts last",
			l.RenewDeadline, l.LeaseDuration, 2*shortestRetry, latest)
	case l.RetryPeriod < shortestRetry || l.RetryPeriod > l.RenewDeadline/2:
		return l, lease, fmt.Errorf("LeaderElection.RetryPeriod is %v; with a RenewDeadline of %v, allowed is %v to %v, so that one renewal may fail",
			l.RetryPeriod, l.RenewDeadline, shortestRetry, l.RenewDeadline/2)
	}
	if strings.ContainsFunc(l.Identity, func(r rune) bool { return !unicode.IsPrint(r) }) || len(l.Identity) > longestIdentity {
		return l, lease, fmt.Errorf("LeaderElection.Identity has %d bytes; allowed are up to %d printable characters", len(l.Identity), longestIdentity)
	}
	if l.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return l, lease, fmt.Errorf("LeaderElection.Identity is empty, and the host has no name; give one: %w", err)
		}
		l.Identity = host
	}
	// Two processes must never have the same identity, also if the second one replaces the first.
	l.Identity += "_" + rand.Text()[:10]
	return l, lease, nil
}

// EveryReplica makes the controller run on each replica, whether it leads or not: see [LeaderElection].
// Such a controller should write nothing, or write objects of its own replica alone.
func EveryReplica() Option { return option(func(d *definition) { d.everyReplica = true }) }
