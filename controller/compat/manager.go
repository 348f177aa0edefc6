package compat

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Manager is a manager of controller-runtime whose controllers, cache and client are Bellerophon's. The
// rest is controller-runtime's own: leader election, webhooks, runnables, health checks, metrics server
// and recorders of events. Create it with [NewManager].
type Manager struct {
	manager.Manager
	bellerophon *controller.Manager
	cache       *informers
	untimed     bool    // reconciles have no timeout but their controller's own
	backsOff    bool    // failures wait for the backoff of Bellerophon's options, and not for their controller's rate limiter
	replay      *replay // nil unless the manager is for a replay
}

// NewManager creates a manager for a program that was written for controller-runtime. Controllers are added
// with ctrl.NewControllerManagedBy or controller.New, as before.
//
// Bellerophon watches the kinds that controllers watch, and kinds with an index. It reads other kinds
// from the API server. It calls the predicates and event handlers of the controllers for each change, and
// their reconcilers for the requests that result.
//
// These differ from controller-runtime:
//
//   - Reads see own writes.
//   - A RateLimiter sets the wait after an error, unless Backoff of Bellerophon's options is set. In either case,
//     a change of the object's generation gets one attempt at once, and the failures still count.
//   - Priorities, NewQueue, EnableWarmup, CacheSyncTimeout for kinds that are served, and
//     ReconcileIDFromContext have no effect.
//   - Bellerophon has its own metrics of reconciles: see MetricsAddress of its options.
//
// Options that Bellerophon cannot support are errors: NewCache, NewClient, and most options of the cache.
// So are sources and handlers that it cannot run, when the manager starts.
//
// As in controller-runtime, reconciles have no timeout and managed fields are kept in the cache.
// Options.Timeout of Bellerophon sets a timeout, and Cache.DefaultTransform can strip managed fields.
func NewManager(config *rest.Config, theirs manager.Options, ours controller.Options) (*Manager, error) {
	if config == nil {
		return nil, errors.New("making a manager: the configuration is nil")
	}
	made := &Manager{untimed: ours.Timeout == 0, backsOff: ours.Backoff != (operators.Backoff{})}
	if controller.IsReplay(config) {
		made.replay = &replay{of: config.Transport}
		theirs = forReplay(theirs)
	}
	theirs, ours, err := merged(config, theirs, ours)
	if err != nil {
		return nil, fmt.Errorf("making a manager: %w", err)
	}
	if made.bellerophon, err = controller.NewManager(config, theirs.Scheme, ours); err != nil {
		return nil, err
	}
	theirs.MapperProvider = made.mapperOf(theirs.MapperProvider)
	transform := transformOf(theirs.Cache.DefaultTransform)
	theirs.NewCache = func(_ *rest.Config, options ctrlcache.Options) (ctrlcache.Cache, error) {
		reads, err := newClient(made.bellerophon.Client(), options.Mapper)
		if err != nil {
			return nil, err
		}
		made.cache = newInformers(reads, transform)
		return made.cache, nil
	}
	theirs.NewClient = func(_ *rest.Config, options client.Options) (client.Client, error) { return made.client(options) }
	if made.Manager, err = manager.New(config, theirs); err != nil {
		return nil, err
	}
	return made, nil
}

// Bellerophon returns the manager that runs the controllers.
func (m *Manager) Bellerophon() *controller.Manager { return m.bellerophon }

// client returns the client of the manager. It is made after the cache.
func (m *Manager) client(options client.Options) (client.Client, error) {
	made := &both{ours: m.cache.ours, live: m.cache.live}
	if options.Cache != nil {
		for _, object := range options.Cache.DisableFor {
			kind, err := apiutil.GVKForObject(object, m.bellerophon.Scheme())
			if err != nil {
				return nil, fmt.Errorf("Client.Cache.DisableFor: %w", err)
			}
			made.uncached = append(made.uncached, kind.GroupKind())
		}
	}
	var wrapped client.Client = made
	if options.FieldOwner != "" {
		wrapped = client.WithFieldOwner(wrapped, options.FieldOwner)
	}
	if options.FieldValidation != "" {
		wrapped = client.WithFieldValidation(wrapped, client.FieldValidation(options.FieldValidation))
	}
	if options.DryRun != nil && *options.DryRun {
		wrapped = client.NewDryRunClient(wrapped)
	}
	return wrapped, nil
}

// GetAPIReader returns a reader of the API server. Its requests are recorded, as the requests of the client are.
func (m *Manager) GetAPIReader() client.Reader { return m.cache.live }

// GetHTTPClient returns the HTTP client of Bellerophon's manager. Requests of other clients over it are recorded, too.
func (m *Manager) GetHTTPClient() *http.Client {
	_, requests := m.bellerophon.Connection()
	return requests
}

// Add adds a controller, which Bellerophon runs, or another runnable, which controller-runtime runs.
func (m *Manager) Add(runnable manager.Runnable) error {
	of, is := runnable.(ctrl.Controller)
	if !is {
		if made := reflect.TypeOf(runnable); made != nil && strings.Contains(made.String(), "controller.Controller[") {
			return fmt.Errorf("adding a %v: Bellerophon runs controllers with requests of type reconcile.Request only", made)
		}
		return m.Manager.Add(runnable)
	}
	added, err := newMember(m, of)
	if err != nil {
		return fmt.Errorf("adding a controller: %w", err)
	}
	if m.replay != nil {
		m.replay.add(added)
		return nil
	}
	return m.Manager.Add(added)
}
