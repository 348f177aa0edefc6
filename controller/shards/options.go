package shards

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// These are the defaults of [Options]. They are the ones of leader election in client-go.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// Options configures a member. Group and Namespace are required.
type Options struct {
	// Group is the name that all replicas of a program share: a DNS label of at most 63 characters.
	Group string
	// Namespace is where the Leases are. The program needs the verbs get, list, watch, create, update and
	// delete for leases of coordination.k8s.io there.
	Namespace string
	// Identity is the name of this replica, for people. The default is the host name, which is the name of the
	// pod in a cluster. [New] appends a random suffix, so that no two processes share an identity.
	Identity string

	LeaseDuration time.Duration // after which others take the slots over: 1 s to 1 h; default 15 s
	RenewDeadline time.Duration // after which the member stops its own work: below LeaseDuration; default 10 s
	RetryPeriod   time.Duration // between renewals: at most a third of RenewDeadline; default 2 s

	// ByNamespace makes all objects of a namespace one key. Then an API server that offers sharded lists and
	// watches (KEP-5866, the gate ShardedListAndWatch of Kubernetes 1.36) sends each replica its share alone.
	// It suits programs with many namespaces of similar size.
	ByNamespace bool
}

// WithDefaults fills in the defaults, and returns an error for an option that is out of its range.
func (o Options) WithDefaults() (Options, error) {
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return o, fmt.Errorf("shards: Identity is empty, and the host has no name; set it: %w", err)
		}
		o.Identity = host
	}
	if o.LeaseDuration == 0 {
		o.LeaseDuration = DefaultLeaseDuration
	}
	if o.RenewDeadline == 0 {
		o.RenewDeadline = min(DefaultRenewDeadline, o.LeaseDuration*2/3)
	}
	if o.RetryPeriod == 0 {
		o.RetryPeriod = min(DefaultRetryPeriod, o.RenewDeadline/5)
	}
	switch {
	case len(validation.IsDNS1123Label(o.Group)) > 0:
		return o, fmt.Errorf("shards: Group is %q; allowed is a DNS label: %s", o.Group, strings.Join(validation.IsDNS1123Label(o.Group), "; "))
	case len(validation.IsDNS1123Label(o.Namespace)) > 0:
		return o, fmt.Errorf("shards: Namespace is %q; give the namespace of the Leases", o.Namespace)
	case len(o.Identity) > 200:
		return o, errors.New("shards: Identity is longer than 200 characters; shorten it")
	case o.LeaseDuration < time.Second || o.LeaseDuration > time.Hour || o.LeaseDuration%time.Second != 0:
		return o, fmt.Errorf("shards: LeaseDuration is %v; allowed is 1s to 1h, in whole seconds", o.LeaseDuration)
	case o.RenewDeadline <= 0 || o.RenewDeadline >= o.LeaseDuration:
		return o, fmt.Errorf("shards: RenewDeadline is %v; allowed is above 0 and below LeaseDuration, which is %v", o.RenewDeadline, o.LeaseDuration)
	case o.RetryPeriod <= 0 || o.RetryPeriod > o.RenewDeadline/3:
		return o, fmt.Errorf("shards: RetryPeriod is %v; allowed is above 0, up to a third of RenewDeadline, which is %v", o.RetryPeriod, o.RenewDeadline)
	}
	return o, nil
}
