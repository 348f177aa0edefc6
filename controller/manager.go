package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Manager runs controllers on one pipeline. Create it with [NewManager], add controllers, and call Run
// once. Controllers may be added and removed while it runs.
type Manager struct {
	options Options
	log     *slog.Logger
	metrics *metrics
	limits  logLimits
	history *history.History // nil without one
	tape    *tape            // nil unless the inputs are recorded
	guard   *guard           // nil if the HTTP servers are open

	access
	stages
	lifetime
	replica
	membership
}

// access is how a manager reads and writes objects of the API server.
type access struct {
	scheme   *runtime.Scheme
	config   *rest.Config
	http     *http.Client
	cache    *cache.Cache
	client   *Client
	recorder *Recorder
}

// stages are the pipeline of a manager, and what changes in it as controllers come and go.
type stages struct {
	inputs      *streams.MergeHub[streams.Event]
	rules       *operators.Rules
	controllers *operators.Controllers
	pipeline    *pipeline.Pipeline
}

// lifetime is when the manager was made, and the context of Run.
type lifetime struct {
	made    time.Time
	over    context.Context // ends when the pipeline has ended
	finish  func()
	running atomic.Pointer[context.Context]
}

// replica is the part of a manager among other replicas.
type replica struct {
	leader *leader // nil without leader election
	share  *share  // nil unless the work is shared: see Options.Shards
}

// NewManager creates a manager for the API server of a configuration. The scheme must have the types of
// the objects that the controllers read or write: see [sources.KindOf], which also allows other types.
// NewManager returns an error for an option that is out of its range.
func NewManager(config *rest.Config, scheme *runtime.Scheme, options Options) (*Manager, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if IsReplay(config) {
		options.Recording = nil // Otherwise a replay would begin a recording in the folder that it may be reading.
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // The workers bound the requests in flight, and the server has its own fairness.
	if options.QPS > 0 {
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(options.QPS, options.Burst) // All kinds share it.
	}
	config.UserAgent = options.UserAgent
	if err := options.checkAddresses(InCluster(config)); err != nil {
		return nil, err
	}
	client, err := clientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making an HTTP client for %s: %w", config.Host, err)
	}
	held, err := cache.New(options.Loop, options.Logger)
	if err != nil {
		return nil, err
	}
	if options.DetectMutations {
		held.DetectMutations()
	}
	held.SetMaxStaleness(options.MaxStaleness)
	m := &Manager{
		options: options,
		log:     options.Logger,
		access:  access{scheme: scheme, config: config, cache: held, recorder: &Recorder{}},
		stages: stages{
			inputs:      streams.NewMergeHub[streams.Event](),
			rules:       operators.NewRules(),
			controllers: operators.NewControllers(nil),
		},
	}
	m.demanded, m.beforeSync = make(chan struct{}, 1), newBeforeSync()
	m.made = time.Now()
	m.over, m.finish = context.WithCancel(context.Background())
	m.present.Store(&present{members: map[string]*member{}})
	if m.history, err = newHistory(m); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if m.tape, err = newTape(m.options); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if m.pipeline, err = m.assemble(); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	held.Follow(m.pipeline)
	m.client = newClient(m)
	if m.history != nil {
		client = recordingCalls(client)
	}
	if m.leader, m.http, err = newLeader(m, config, client); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if m.metrics, err = newMetrics(m); err != nil {
		return nil, fmt.Errorf("registering metrics; give each manager a Registry of its own: %w", err)
	}
	if m.limits, err = newLogLimits(m); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if options.Shards != nil {
		m.http = fenced(m.http) // Below the recording, which has the URLs of the reconciler.
	}
	if m.tape != nil {
		server, _, err := rest.DefaultServerUrlFor(config)
		if err != nil {
			return nil, fmt.Errorf("manager: reading the address of the API server: %w", err)
		}
		m.http = over(m.http, func(next http.RoundTripper) http.RoundTripper {
			return exchanges{next, m.tape, serializer.NewCodecFactory(scheme).UniversalDeserializer(), strings.TrimSuffix(server.Path, "/")}
		})
	}
	if err := m.leader.connect(); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if options.Shards != nil {
		if m.leader != nil {
			return nil, errors.New("manager: LeaderElection and Shards are both given; replicas that share their objects have no leader, so leave one out")
		}
		if m.share, err = newShare(m, *options.Shards); err != nil {
			return nil, fmt.Errorf("manager: %w", err)
		}
	}
	if options.Protection == Protected {
		if m.guard, err = newGuard(m); err != nil {
			return nil, fmt.Errorf("manager: %w", err)
		}
	}
	return m, nil
}

// assemble creates the pipeline from the manager's inputs to results.
func (m *Manager) assemble() (*pipeline.Pipeline, error) {
	var changed func([]streams.Change)
	var results []func(streams.Stream[operators.Result]) streams.Stream[operators.Result]
	if m.history != nil {
		changed = m.history.OnChanges
		results = append(results, m.history.Remember, m.history.HotLoops, m.history.Fights)
	}
	var applying func([]streams.Event, func() []streams.Change)
	if m.tape != nil {
		applying = m.tape.apply
	}
	return pipeline.New(m.inputs.Stream(), pipeline.Options{
		Cache:       m.cache,
		Rules:       m.rules,
		Controllers: m.controllers,
		Window:      m.options.Window,
		Burst:       operators.DefaultBurst,
		Stages:      m.options.Stages,
		Changed:     changed,
		Applying:    applying,
		Results:     results,
		Reconcile: operators.ReconcileOptions{
			Workers: m.options.Workers,
			Backoff: m.options.Backoff,
			Timeout: m.options.Timeout,
			Grace:   m.options.Grace,
		},
		Sources:  m.heldBySources,
		Attempts: m.heldByControllers,
	})
}

// Client returns the client that reads from the cache and writes to the API server.
func (m *Manager) Client() *Client { return m.client }

// Cache returns the manager's view of the cluster, with its level of sync.
func (m *Manager) Cache() *cache.Cache { return m.cache }

// Scheme returns the scheme of the manager.
func (m *Manager) Scheme() *runtime.Scheme { return m.scheme }

// Registry returns where the metrics of the manager are registered. Metrics of the program can be added, such as
// the ones of a webhook server.
func (m *Manager) Registry() *prometheus.Registry { return m.options.Registry }

// Connection returns the configuration and the HTTP client of the manager's requests, for clients of
// other libraries. The configuration is a copy.
func (m *Manager) Connection() (*rest.Config, *http.Client) { return rest.CopyConfig(m.config), m.http }

// Namespaces returns the namespaces that are watched, or nil for all.
func (m *Manager) Namespaces() []string { return slices.Clone(m.options.Namespaces) }

// Run runs the controllers until ctx ends. Then sources stop, and reconciles in flight may finish
// within the grace period. When Run returns, all its goroutines have returned. Run fails at once if it
// cannot listen on one of its addresses. It fails with [ErrOldServer] as soon as an API server answers that
// is too old. A cluster that does not answer is not a failure: sources retry.
//
// A controller reconciles no object before the controller's kinds are [cache.Current], except for
// objects that [ReconcileBeforeSync] selects. A kind that is missing or forbidden only holds up the
// controllers that need it.
func (m *Manager) Run(ctx context.Context) error {
	ctx = context.WithValue(ctx, managerKey{}, m)
	servers, err := m.listen(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // Looking up a host name ends with ctx.
	case err != nil:
		return err
	}
	return m.elect(ctx, func(ctx context.Context) error {
		return m.runAmong(ctx, func(ctx context.Context) error {
			group, err := m.start(ctx, servers)
			if err != nil {
				for _, server := range servers {
					_ = server.listener.Close() // Nothing was served yet, so nothing is lost.
				}
				return err
			}
			return group.Wait()
		})
	})
}

// start starts the goroutines of the manager. Controllers that are added later join the running
// manager: their goroutines may be added to the group until the pipeline has ended.
func (m *Manager) start(ctx context.Context, servers []*server) (*lifecycle.Group, error) {
	m.changing.Lock()
	defer m.changing.Unlock()
	now := m.present.Load()
	switch {
	case m.group != nil || m.ended:
		return nil, errors.New("the manager runs already, or has ended; make another one")
	case len(now.members) == 0 && len(m.standbys.all()) == 0:
		return nil, errors.New("the manager has no controllers; call Add before Run")
	}
	group := lifecycle.New(ctx)
	running := group.Context()
	m.running.Store(&running)
	for _, server := range servers {
		group.Go(server.name, server.run)
	}
	for _, member := range now.members {
		if member.elected {
			m.followEpochs(group, member)
		} else {
			m.awaitKinds(group, member)
		}
	}
	if m.share != nil {
		group.Go("shards", m.share.member.Run)
	}
	m.beforeSync.start(group, now)
	if m.tape != nil {
		group.Go("recording", func(context.Context) error { return m.tape.run(m.over, m.present.Load) }) // It records how attempts end.
		group.Go("recorded states", func(context.Context) error { return m.recordStates(m.over) })
	}
	group.Go("version of the API server", m.checkServer)
	group.Go("settle", m.pipeline.TrackQuiet)
	group.Go("demand", m.followDemand)
	group.Go("events", m.record)
	m.limits.start(m.over, group.Go)
	group.Go("pipeline", func(ctx context.Context) error {
		defer m.end()
		defer group.Stop()
		var last error
		err := m.pipeline.Run(ctx, m.onResults, func(err error) { last = err; m.onError(err) })
		if err == nil && ctx.Err() == nil { // Sources never end, so a stage has panicked or exited.
			if last == nil {
				return errors.New("it ended by itself")
			}
			return fmt.Errorf("it ended by itself: %w", last)
		}
		return err
	})
	m.group = group
	for _, standby := range m.standbys.all() {
		m.supervise(group, standby)
	}
	return group, nil
}

// awaitKinds opens the gate of a controller when its kinds are current.
func (m *Manager) awaitKinds(group *lifecycle.Group, of *member) {
	ctx, cancel := context.WithCancel(group.Context())
	of.leave = cancel
	m.share.locating(group, of)
	m.share.follow(group, of)
	group.Go("gate of controller "+of.name, func(context.Context) error {
		defer cancel()
		if m.awaitCurrent(ctx, of) == nil && ctx.Err() == nil {
			m.controllers.Open(of.name)
			m.followFeeds(ctx, of)
		}
		return nil // The manager has ended, or the controller is removed.
	})
}

// context returns a context that ends with Run, or one that never ends while the manager does not run.
func (m *Manager) context() context.Context {
	if running := m.running.Load(); running != nil {
		return *running
	}
	return context.Background()
}

// end prevents further goroutines in the group, and ends the streams of levels.
func (m *Manager) end() {
	m.changing.Lock()
	defer m.changing.Unlock()
	m.group, m.ended = nil, true
	m.finish()
}

// onResults adds results to metrics and logs.
func (m *Manager) onResults(results []operators.Result) {
	members := m.present.Load().members
	for _, result := range results {
		m.metrics.result(result)
		m.logResult(result)
		if m.options.OnResult != nil {
			m.options.OnResult(result)
		}
		if by := members[result.Controller]; by != nil {
			by.attempts.handled(result.Err != nil, len(result.Writes))
		}
	}
}

// logResult logs a result: a failure within the limit, a success at level Debug.
func (m *Manager) logResult(result operators.Result) {
	if result.Err == nil && !m.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	about := []any{"controller", result.Controller, "namespace", result.Namespace, "name", result.Name,
		"reconcileID", operators.AttemptID(result.Controller, result.NamespacedName, result.Started), "attempt", result.Attempt}
	if result.Err == nil {
		m.log.With(about...).Debug("reconciled", "duration", result.Duration, "queued", result.Queued, "writes", len(result.Writes), "causes", len(result.Causes))
		return
	}
	bounded := boundedLog{m.limits, logSubject{result.Controller, result.NamespacedName}, about}
	if panicked := (*lifecycle.PanicError)(nil); errors.As(result.Err, &panicked) {
		bounded.Error("reconcile panicked", "error", result.Err, "stack", string(panicked.Stack), "retryAfter", result.RequeueAfter)
		return
	}
	bounded.Warn("reconcile failed", "error", result.Err, "outcome", string(result.Outcome), "retryAfter", result.RequeueAfter)
}

// onError passes the failure of a source or of a map function to Options.OnError, or logs it.
func (m *Manager) onError(err error) {
	if m.options.OnError != nil {
		m.options.OnError(err)
		return
	}
	boundedLog{limits: m.limits}.Warn("source or map function failed", "error", err)
}
