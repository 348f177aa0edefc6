package forward

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	patience   = 30 * time.Second // for which a local connection waits for a pod
	maxWaiting = 256              // local connections that wait for a pod
)

// Options configures [New].
type Options struct {
	Logger *slog.Logger // default slog.Default()
}

// Forwards forwards ports of a pod. Its methods may be called from any goroutine. Create it with [New].
type Forwards struct {
	config     *rest.Config
	pods       rest.Interface // for the addresses of pods
	logger     *slog.Logger
	changes    *streams.Subject[struct{}]
	patience   time.Duration
	maxWaiting int

	mu        sync.Mutex
	group     *lifecycle.Group // nil while Run does not run
	wanted    []contract.Port
	listeners map[port]*listener
	pod       container.Place
	abandon   context.CancelFunc // ends the context of the pod; nil while Run does not run
	link      *link              // nil without a connection to the pod
	linked    chan struct{}      // closed when link is set
	waiting   int
}

// port identifies a port of the application.
type port struct {
	name   string
	target int
}

// New creates Forwards for pods of the cluster of a configuration. Nothing is forwarded until Run is called.
func New(config *rest.Config, options Options) (*Forwards, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("forward ports: %w", err)
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	return &Forwards{
		config:     config,
		pods:       client.CoreV1().RESTClient(),
		logger:     options.Logger,
		changes:    streams.NewSubject[struct{}](0),
		patience:   patience,
		maxWaiting: maxWaiting,
		listeners:  map[port]*listener{},
		linked:     make(chan struct{}),
	}, nil
}

// Run forwards ports until ctx ends. It must be called at most once. If the API server does not answer at the end, Run
// returns after up to 30 seconds: client-go cannot cancel the opening of a stream.
func (f *Forwards) Run(ctx context.Context) error {
	group := lifecycle.New(ctx)
	f.mu.Lock()
	f.group = group
	f.listen()
	f.mu.Unlock()
	group.Go("connect to pods", f.connect)
	<-group.Context().Done()
	f.mu.Lock()
	f.group = nil // No function is added to the group from here on.
	for key := range f.listeners {
		f.unlisten(key)
	}
	f.mu.Unlock()
	group.Stop()
	err := group.Wait()
	f.changes.End()
	return err
}

// Set chooses the pod and its ports that are forwarded. Ports that stay keep their local ports. With a zero pod, local
// connections wait for the next pod. The local address in a port is ignored: see Bound.
func (f *Forwards) Set(pod container.Place, ports []contract.Port) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted = slices.Clone(ports)
	if f.group != nil {
		f.listen()
	}
	if !isSame(pod, f.pod) {
		f.pod = pod
		if f.abandon != nil {
			f.abandon()
		}
	}
}

// isSame reports whether two places are in one pod. A pod keeps its ports when its containers restart.
func isSame(a, b container.Place) bool {
	return a.Namespace == b.Namespace && a.Pod == b.Pod && a.PodUID == b.PodUID
}

// Bound returns the forwarded ports with their local addresses, in the order of Set.
func (f *Forwards) Bound() []contract.Port {
	f.mu.Lock()
	defer f.mu.Unlock()
	var bound []contract.Port
	for _, wanted := range f.wanted {
		if listener := f.listeners[port{wanted.Name, wanted.Target}]; listener != nil {
			bound = append(bound, contract.Port{Name: wanted.Name, Target: wanted.Target, Local: listener.Addr().String()})
		}
	}
	return bound
}

// Changes emits an item when Bound has changed.
func (f *Forwards) Changes() streams.Stream[struct{}] { return f.changes.Stream() }
