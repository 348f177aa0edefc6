package compat

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// member is a controller of controller-runtime that runs on Bellerophon.
//
// The controller itself is started, so that it starts its sources with its handlers and predicates. But
// its cache is ours, which records the handlers, and so is its queue, which gives its workers nothing.
// Bellerophon calls the handlers with the changes, and the reconciler for the requests that result.
type member struct {
	manager    *Manager
	controller ctrl.Controller
	name       string
	most       int // reconciles at once
	logger     func(*reconcile.Request) logr.Logger
	ready      chan struct{} // closed when all sources have started
	unknown    chan error    // has why a kind cannot be watched

	mu      sync.Mutex
	intake  *intake
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	watches map[schema.GroupVersionKind]*watched
	joined  bool // no further handlers are recorded
}

// watched is a kind that a controller watches, with its handlers.
type watched struct {
	object   client.Object
	mapping  *meta.RESTMapping
	handlers []toolscache.ResourceEventHandler
}

// memberKey is the key of the member in the context of its sources.
type memberKey struct{}

// memberOf returns the member whose source ctx belongs to, or nil.
func memberOf(ctx context.Context) *member {
	found, _ := ctx.Value(memberKey{}).(*member)
	return found
}

// newMember takes over the queue of a controller.
func newMember(m *Manager, of ctrl.Controller) (*member, error) {
	made := &member{manager: m, controller: of, ready: make(chan struct{}), unknown: make(chan error, 1), watches: map[schema.GroupVersionKind]*watched{}}
	ready := sync.OnceFunc(func() { close(made.ready) })
	queue, err := field[func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]](of, "NewQueue")
	if err == nil {
		*queue = func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			made.mu.Lock()
			defer made.mu.Unlock()
			made.intake, made.limiter = newIntake(name, limiter, ready), limiter
			return made.intake
		}
	}
	name, nameErr := field[string](of, "Name")
	most, mostErr := field[int](of, "MaxConcurrentReconciles")
	logger, loggerErr := field[func(*reconcile.Request) logr.Logger](of, "LogConstructor")
	for _, err := range []error{err, nameErr, mostErr, loggerErr} {
		if err != nil {
			return nil, err
		}
	}
	made.name, made.most, made.logger = *name, *most, *logger
	return made, nil
}

// field returns a pointer to an exported field of a controller, whose type controller-runtime keeps
// internal.
func field[T any](of ctrl.Controller, name string) (*T, error) {
	value := reflect.ValueOf(of)
	if value.Kind() == reflect.Pointer && value.Elem().Kind() == reflect.Struct {
		if found := value.Elem().FieldByName(name); found.IsValid() && found.CanSet() {
			if pointer, is := found.Addr().Interface().(*T); is {
				return pointer, nil
			}
		}
	}
	return nil, fmt.Errorf("a %T has no field %s of the type that is known here; make the controller with controller-runtime's builder or controller.New", of, name)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (m *member) NeedLeaderElection() bool {
	elected, is := m.controller.(manager.LeaderElectionRunnable)
	return !is || elected.NeedLeaderElection()
}

// Start starts the sources of the controller, and adds it to Bellerophon's manager.
func (m *member) Start(ctx context.Context) error {
	group := lifecycle.New(context.WithValue(ctx, memberKey{}, m))
	group.Go("sources of "+m.name, m.controller.Start)
	group.Go("controller "+m.name, func(ctx context.Context) error {
		select {
		case <-m.ready:
		case <-ctx.Done():
			return nil
		}
		if err := m.join(); err != nil {
			return err
		}
		m.manager.cache.begin()
		<-ctx.Done()
		return nil
	})
	return group.Wait()
}

// record records a handler for a kind.
func (m *member) record(kind schema.GroupVersionKind, object client.Object, mapping *meta.RESTMapping, by toolscache.ResourceEventHandler) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.joined {
		return fmt.Errorf("controller %q runs already, and cannot watch %v in addition; call Watch before the manager starts", m.name, kind)
	}
	if m.watches[kind] == nil {
		m.watches[kind] = &watched{object: object, mapping: mapping}
	}
	m.watches[kind].handlers = append(m.watches[kind].handlers, by)
	return nil
}

// join adds the controller to Bellerophon's manager.
func (m *member) join() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joined = true
	if len(m.watches) == 0 {
		return fmt.Errorf("controller %q watches no kind, so Bellerophon cannot run it; give it a For", m.name)
	}
	indexes := m.manager.cache.takeIndexes()
	options := []controller.Option{
		controller.MaxConcurrentReconciles(m.most),
		controller.From("queue", m.intake.others()),
	}
	if m.manager.untimed {
		options = append(options, controller.ReconcileTimeout(24*time.Hour)) // The longest one. controller-runtime has none.
	}
	kinds := slices.SortedFunc(maps.Keys(m.watches), func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) })
	for i, kind := range kinds {
		watched := m.watches[kind]
		how := append(m.manager.cache.inputs(kind, watched.object, watched.mapping, indexes[kind]), controller.MapChange(watched.requests(m.intake)))
		if i == 0 {
			options = append(options, controller.For(watched.object, how...))
		} else {
			options = append(options, controller.Owns(watched.object, how...))
		}
		delete(indexes, kind)
	}
	for kind, indexed := range indexes { // Kinds that reconcilers list by an index, or that were asked for.
		how := append(m.manager.cache.inputs(kind, indexed.object, indexed.mapping, indexed), controller.MapChange(nothing))
		options = append(options, controller.Owns(indexed.object, how...))
	}
	var reconciles reconcile.Reconciler = m.controller
	if !m.manager.backsOff {
		limited := &limits{limiter: m.limiter, waits: map[types.NamespacedName]time.Duration{}}
		reconciles = limited.around(reconciles)
		options = append(options, controller.RetryDelay(limited.delay))
	}
	reconciler := adapted(reconciles, m.limiter, func(request operators.Request) logr.Logger {
		return m.logger(&reconcile.Request{NamespacedName: request.NamespacedName})
	})
	return m.manager.bellerophon.Add(m.name, reconciler, options...)
}

// requests returns the map function of a kind: it calls the handlers, which have the predicates in them.
func (w *watched) requests(queue *intake) func(context.Context, *controller.Client, controller.ChangeOf[streams.Object]) []types.NamespacedName {
	return func(_ context.Context, _ *controller.Client, change controller.ChangeOf[streams.Object]) []types.NamespacedName {
		return queue.collect(func() {
			for _, handler := range w.handlers {
				visit(change, observer{
					created: func(made event.CreateEvent) { handler.OnAdd(made.Object, made.IsInInitialList) },
					updated: func(made event.UpdateEvent) { handler.OnUpdate(made.ObjectOld, made.ObjectNew) },
					deleted: func(made event.DeleteEvent) { handler.OnDelete(made.Object) },
				})
			}
		})
	}
}

// nothing maps a change to no requests.
func nothing(context.Context, *controller.Client, controller.ChangeOf[streams.Object]) []types.NamespacedName {
	return nil
}
