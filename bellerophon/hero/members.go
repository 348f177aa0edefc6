package hero

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// dialer connects to the member in a pod.
type dialer func(ctx context.Context, pod *corev1.Pod) (net.Conn, error)

// dialPod connects to the address of a pod. Names of members are not resolved, so that the operator may run outside of
// the cluster.
func dialPod(ctx context.Context, pod *corev1.Pod) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(port)))
}

const (
	// requestTimeout bounds a request to a member. A write of its log may wait for a slow volume.
	requestTimeout = 15 * time.Second
	// again is the delay after which the status of a member is followed again.
	again = time.Second
	// firstAnswer is how long a member that was not asked before may take to answer. Until then its hero's status
	// stays as it is, so that a new operator does not report members that it has not reached yet.
	firstAnswer = 2 * time.Second
)

// members follows the status of all members: a stream of the outside world. Each change makes a request for the hero.
// Its methods may be called from any goroutine.
type members struct {
	dial    dialer
	changed *streams.Queue[types.NamespacedName]

	mu      sync.Mutex
	group   *lifecycle.Group // nil while the manager does not run
	clients map[types.NamespacedName]*clientOf
	pods    map[types.NamespacedName]map[string]*corev1.Pod // by name
	known   map[types.UID]*followed                         // by pod
}

// followed is the member in a pod.
type followed struct {
	status *memberReport // nil while it does not answer
	since  time.Time
	asked  bool // it has answered or failed once
	silent silence
	stop   context.CancelFunc
}

// silence is since when a member does not answer, and why.
type silence struct {
	since  time.Time
	reason error
}

// memberReport is what a member says.
type memberReport struct {
	client.Status
	// lag is how many entries it has yet to apply, of the entries that the leader had committed before. It is 0 if they are
	// few. The two report at different times. So a report of the leader is compared only with later reports of others. By
	// an earlier one, a member in step would seem to lag.
	lag int64
}

// fewEntries is a number of entries that may be in flight to a member at any time.
const fewEntries = 100

// lagOf returns the lag of a member of a hero that says something now. The caller holds the lock.
func (m *members) lagOf(hero types.NamespacedName, said client.Status) int64 {
	committed, term := uint64(0), uint64(0)
	for _, pod := range m.pods[hero] {
		held := m.known[pod.UID]
		if held != nil && held.status != nil && held.status.Role == client.Leader && held.status.Term >= term {
			committed, term = held.status.Committed, held.status.Term
		}
	}
	if said.Role == client.Leader || committed < said.Applied+fewEntries {
		return 0
	}
	return int64(committed - said.Applied)
}

func newMembers(dial dialer) *members {
	return &members{
		dial: dial, changed: streams.NewQueue[types.NamespacedName](), clients: map[types.NamespacedName]*clientOf{},
		pods: map[types.NamespacedName]map[string]*corev1.Pod{}, known: map[types.UID]*followed{},
	}
}

// run holds the goroutines of the members. It returns when all of them have returned.
func (m *members) run(ctx context.Context) error {
	group := lifecycle.New(ctx)
	m.mu.Lock()
	m.group = group
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.group = nil
	m.mu.Unlock()
	err := group.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.known)
	for _, held := range m.clients {
		held.client.Close()
	}
	return err
}

// clientOf is the client for the members of a hero, with the version of its certificate.
type clientOf struct {
	client  *client.Client
	version string
}

// client returns the client for the members of a hero. It makes a new one when the certificate has another version.
func (m *members) client(hero types.NamespacedName, secure *tls.Config, version string) *client.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	if held := m.clients[hero]; held == nil || held.version != version {
		if held != nil {
			held.client.Close()
		}
		made := client.NewOver(secure, func(ctx context.Context, address string) (net.Conn, error) {
			name, _, _ := strings.Cut(address, ".")
			m.mu.Lock()
			pod := m.pods[hero][name]
			m.mu.Unlock()
			if pod == nil {
				return nil, fmt.Errorf("there is no pod %s", name)
			}
			return m.dial(ctx, pod)
		}, client.Once) // The next pod of a name is another member, even while the last one still answers.
		m.clients[hero] = &clientOf{made, version}
	}
	return m.clients[hero].client
}

// follow follows the members in the running pods of a hero, and no others of this hero. It returns their statuses, by
// the name of the pod. A member that does not answer has a silence instead. unasked is how long members may take that have neither
// answered nor failed yet, or 0 if there are none.
func (m *members) follow(hero types.NamespacedName, address func(pod string) string, pods []*corev1.Pod) (statuses map[string]*memberReport, silent map[string]silence, unasked time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.group == nil {
		return nil, nil, firstAnswer
	}
	wanted := map[string]*corev1.Pod{}
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" {
			wanted[pod.Name] = pod
		}
	}
	for name, pod := range m.pods[hero] {
		if wanted[name] == nil || wanted[name].UID != pod.UID {
			m.forget(pod.UID)
		}
	}
	m.pods[hero] = wanted
	statuses, silent = map[string]*memberReport{}, map[string]silence{}
	for name, pod := range wanted {
		if m.known[pod.UID] == nil {
			m.start(hero, address(name), pod.UID)
		}
		held := m.known[pod.UID]
		if held.status != nil {
			statuses[name] = held.status
		} else if held.silent.reason != nil {
			silent[name] = held.silent
		}
		if !held.asked {
			unasked = max(unasked, time.Until(held.since.Add(firstAnswer)))
		}
	}
	if len(wanted) == 0 {
		delete(m.pods, hero)
	}
	return statuses, silent, unasked
}

// gone ends everything about a hero that does not exist any more.
func (m *members) gone(hero types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pod := range m.pods[hero] {
		m.forget(pod.UID)
	}
	delete(m.pods, hero)
	if held := m.clients[hero]; held != nil {
		held.client.Close()
		delete(m.clients, hero)
	}
}

// forget ends the watch of a pod's member. The caller holds the lock.
func (m *members) forget(pod types.UID) {
	if held := m.known[pod]; held != nil {
		held.stop()
		delete(m.known, pod)
	}
}

// start follows one member. Each connection is made with the newest certificate. The caller holds the lock.
func (m *members) start(hero types.NamespacedName, address string, pod types.UID) {
	ctx, stop := context.WithCancel(m.group.Context())
	m.known[pod] = &followed{since: time.Now(), stop: stop}
	m.group.Go("following "+address, func(context.Context) error {
		defer stop()
		set := func(status *client.Status, failed error) {
			m.mu.Lock()
			held := m.known[pod]
			news := held != nil && (held.status != nil || status != nil || !held.asked)
			if held != nil {
				held.status, held.asked = nil, true
				if status != nil {
					held.status, held.silent = &memberReport{*status, m.lagOf(hero, *status)}, silence{}
				} else if held.silent.reason = failed; held.silent.since.IsZero() {
					held.silent.since = time.Now()
				}
			}
			m.mu.Unlock()
			if news {
				m.changed.Put(ctx, hero)
			}
		}
		for ctx.Err() == nil {
			m.mu.Lock()
			held := m.clients[hero]
			m.mu.Unlock()
			if held == nil {
				return nil // The hero is gone.
			}
			err := held.client.Follow(ctx, address, func(status client.Status) { set(&status, nil) })
			set(nil, err)
			wait(ctx, again)
		}
		return nil
	})
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
