package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Bounds of the options.
const (
	defaultTimeout = time.Hour
	longestTimeout = 24 * time.Hour
	retryDelay     = 5 * time.Second // between runs of a hook that fails
	stopGrace      = 5 * time.Second // from SIGTERM to SIGKILL
	mostQueues     = 512             // Half of the workers that a manager can have: each queue needs one.
)

// Options configures the program.
type Options struct {
	Directory string        // of the hooks
	Timeout   time.Duration // of one run of a hook: 1 s to 24 h; default 1 h
	Env       []string      // the names of variables that hooks get in addition to the usual ones
	Logger    *slog.Logger
	Manager   controller.Options // Backoff, Workers and Logger are set here
	Webhooks  webhook.Options    // needed if hooks have webhooks; Logger and Registry are set here
}

// Run runs the hooks of a directory until ctx ends.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	if options.Timeout == 0 {
		options.Timeout = defaultTimeout
	}
	if options.Timeout < time.Second || options.Timeout > longestTimeout {
		return fmt.Errorf("timeout of a hook is %v; allowed is 1s to %v", options.Timeout, longestTimeout)
	}
	runs := &runner{logger: options.Logger, timeout: options.Timeout, grace: stopGrace, env: options.Env, metrics: newHookMetrics()}
	hooks, err := loadHooks(ctx, options.Directory, runs, options.Logger)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	if options.Manager.Registry == nil {
		options.Manager.Registry = prometheus.NewRegistry()
	}
	if err := options.Manager.Registry.Register(runs.metrics); err != nil {
		return fmt.Errorf("registering the metrics of hooks: %w", err)
	}
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return err
	}
	known := &kinds{discover: func(ctx context.Context) ([]*metav1.APIResourceList, error) {
		_, lists, err := asks.ServerGroupsAndResourcesWithContext(ctx)
		return lists, err
	}}
	manager, patches, err := newManager(ctx, config, client, hooks, known, runs.run, options)
	if err != nil {
		return err
	}
	runs.apply = patches.apply
	reviews := &reviewer{logger: options.Logger, client: manager.Client(), level: manager.Cache().Level, ask: runs.ask}
	options.Webhooks.Registry = options.Manager.Registry
	if err := reviews.serveWebhooks(manager, config, hooks, options.Webhooks); err != nil {
		return err
	}
	options.Logger.Info("running hooks", "hooks", len(hooks))
	return manager.Run(ctx)
}

// runFunc runs a hook for binding contexts.
type runFunc func(ctx context.Context, hook *Hook, contexts []map[string]any) error

// newManager makes the manager with the controller of the hooks, and what applies their patches.
func newManager(ctx context.Context, config *rest.Config, client *http.Client, hooks []*Hook, known *kinds, run runFunc, options Options) (*controller.Manager, *patcher, error) {
	if err := bind(ctx, hooks, known, options.Logger); err != nil {
		return nil, nil, err
	}
	engine := newEngine(hooks, options.Logger)
	if len(engine.queues) > mostQueues {
		return nil, nil, fmt.Errorf("the hooks name %d queues; allowed are %d", len(engine.queues), mostQueues)
	}
	options.Manager.Logger, options.Manager.Workers = options.Logger, max(operators.DefaultWorkers, 2*len(engine.queues))
	manager, err := controller.NewManager(config, scheme.Scheme, options.Manager)
	if err != nil {
		return nil, nil, err
	}
	anchor, watches, err := engine.inputs()
	if err != nil {
		return nil, nil, err
	}
	patches := &patcher{manager: manager, kinds: known, config: config, http: client, anchor: anchor, declared: map[schema.GroupVersionKind]bool{}}
	for _, of := range engine.watches {
		patches.declared[of[0].kind.GroupVersionKind] = true
	}
	engine.client, engine.run = manager.Client(), run

	controllerOptions := append([]controller.Option{
		anchor,
		controller.From("start", streams.Of(engine.names()...)),
		controller.From("end of onStartup", sources.Channel(engine.wake)),
		controller.ReconcileTimeout(longestTimeout), // The runner bounds each run.
		controller.RetryBackoff(operators.Backoff{First: retryDelay, Max: retryDelay, Jitter: -1}),
	}, watches...)
	for _, hook := range hooks {
		for i := range hook.Config.Schedule {
			schedule := &hook.Config.Schedule[i]
			queued := streams.MapOnReceive(ticks(schedule.times), func([]time.Time) ([]types.NamespacedName, error) {
				engine.tick(hook, schedule)
				return []types.NamespacedName{{Name: schedule.Queue}}, nil
			})
			controllerOptions = append(controllerOptions, controller.From("schedule "+schedule.Name+" of "+hook.Name, queued))
		}
	}
	if err := manager.Add("hooks", engine.reconcile, controllerOptions...); err != nil {
		return nil, nil, err
	}
	return manager, patches, nil
}

// never returns false. It is the predicate of the kind of For, because the objects of the controller are its queues.
func never(streams.Change) bool { return false }

// inputs returns the kind of For, and the watches of the bindings. A kind is watched once for all bindings, with
// the selectors that they share.
func (e *engine) inputs() (anchor controller.Option, watches []controller.Option, err error) {
	var wrong []error
	for _, groupKind := range slices.SortedFunc(maps.Keys(e.watches), compareKinds) {
		of := e.watches[groupKind]
		labelled := groupKind == namespaceKind && e.queuesOfLabels() != nil
		restricted, err := restrict(of, labelled)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		names, when := e.queuesOf(groupKind), e.observe
		if labelled {
			names = append(names, e.queuesOfLabels()...)
			when = func(change streams.Change) bool {
				concerns := e.observeNamespace(change)
				return e.observe(change) || concerns
			}
		}
		mapFunc := func(streams.Object) []types.NamespacedName { return names }
		object := &unstructured.Unstructured{}
		watches = append(watches, controller.Watches(object, mapFunc, append(restricted[:len(restricted):len(restricted)], controller.When(when))...))
		if anchor == nil {
			anchor = controller.For(object, append(restricted[:len(restricted):len(restricted)], controller.When(never))...)
		}
	}
	if anchor == nil { // A controller needs a kind. This one has a single object.
		anchor = controller.For(&metav1.PartialObjectMetadata{}, controller.OfKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}),
			controller.ClusterScoped(), controller.FieldSelector("metadata.name=default"), controller.When(never))
	}
	return anchor, append(watches, e.watchNamespaces()...), errors.Join(wrong...)
}

func compareKinds(a, b schema.GroupKind) int {
	return slices.Compare([]string{a.Group, a.Kind}, []string{b.Group, b.Kind})
}

// restrict returns the options of the watch of a kind: what all its bindings have in common. If all objects are
// needed, it has no selectors.
func restrict(of []*watching, needsAll bool) (options []controller.InputOption, err error) {
	first := of[0]
	options = first.kind.options()
	sameLabels, sameFields, all := true, true, false
	var namespaces []string
	for _, each := range of {
		if each.kind.GroupVersionKind != first.kind.GroupVersionKind {
			return nil, fmt.Errorf("hook %s: binding %q: apiVersion is %s, but binding %q of hook %s watches the kind as %s; use one of them",
				each.hook.Name, each.Name, each.kind.GroupVersion(), first.Name, first.hook.Name, first.kind.GroupVersion())
		}
		sameLabels = sameLabels && each.labels.String() == first.labels.String()
		sameFields = sameFields && each.fields.String() == first.fields.String()
		all = all || each.inEveryNamespace()
		namespaces = append(namespaces, each.namespaces()...)
	}
	if !sameFields || needsAll {
		if err := checkOwnFields(of); err != nil {
			return nil, err
		}
	}
	if needsAll {
		return options, nil
	}
	if sameLabels && !first.labels.Empty() {
		options = append(options, controller.LabelSelector(first.labels.String()))
	}
	selector := first.fields
	if len(of) == 1 && first.NameSelector != nil && len(first.NameSelector.MatchNames) == 1 {
		selector = fields.AndSelectors(selector, fields.OneTermEqualSelector(metav1.ObjectNameField, first.NameSelector.MatchNames[0]))
	}
	if sameFields && !selector.Empty() {
		options = append(options, controller.FieldSelector(selector.String()))
	}
	if !all && len(namespaces) > 0 {
		slices.Sort(namespaces)
		options = append(options, controller.Namespaces(slices.Compact(namespaces)...))
	}
	return options, nil
}

// checkOwnFields returns an error for a field that only the API server can select. It selects for all bindings of
// a kind, so they need the same selector.
func checkOwnFields(of []*watching) error {
	for _, each := range of {
		for _, term := range each.fields.Requirements() {
			if term.Field != metav1.ObjectNameField && term.Field != "metadata.namespace" {
				return fmt.Errorf("hook %s: binding %q: fieldSelector names %s, and other bindings need other objects of %v; give all the same fieldSelector, or only metadata.name and metadata.namespace",
					each.hook.Name, each.Name, term.Field, each.kind.GroupKind())
			}
		}
	}
	return nil
}
