package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/project"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/signal"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Name is the name of the controller in logs and metrics.
const Name = "dev"

// Project is the user's project: see worktree.Project.
type Project interface {
	// Snapshot returns the files as they were last seen.
	Snapshot() worktree.Snapshot

	// Contents reads files now. Files that are gone are missing.
	Contents(paths []string) (contents []worktree.Content, missing []string, err error)
}

// Ports forwards ports of a pod to this machine: see forward.Forwards.
type Ports interface {
	// Set chooses the pod and its ports that are forwarded. A zero pod keeps the ports for the next pod.
	Set(pod container.Place, ports []contract.Port)

	// Bound returns the ports with their local addresses.
	Bound() []contract.Port
}

// Options configures a Loop. Logger has a default; all others are required, except for Output and Manifests.
type Options struct {
	Namespace   string
	Application string // the name of the ConfigMap of Specs

	Project    Project
	Containers container.Containers
	Ports      Ports
	Manifests  Manifests // applies the objects that the devfile names; nil refuses them

	// Changes has an item for each change outside of the cluster: of files and of bound ports.
	Changes streams.Stream[struct{}]

	Output io.Writer // gets the output of commands; default none
	Logger *slog.Logger
}

// Loop is the controller of one application. New creates it.
type Loop struct {
	options Options
	client  *controller.Client
	set     *dependents.Set[*corev1.ConfigMap]
	web     *dependents.Children[*corev1.ConfigMap, *appsv1.Deployment]
	slots   *slots
	guard   *guard
	ended   signal.Signal // a command has ended

	commanded commanded
	mark      atomic.Pointer[string] // the inputs that the last build had; nil if this process has neither built nor asked

	planning sync.Mutex
	planned  planned

	// The rest belongs to the reconciler, which runs once at a time.
	held    held
	restart restarts
	running runs
	said    string // the last error of the Status
}

// planned is the plan of the last devfile.
type planned struct {
	devfile string
	plan    *project.Plan
	err     error
}

// New creates a Loop and adds it to a manager. The manager must watch the namespace of the application.
func New(manager *controller.Manager, options Options) (*Loop, error) {
	switch {
	case options.Namespace == "" || options.Application == "":
		return nil, errors.New("loop: Namespace and Application must be set")
	case options.Project == nil || options.Containers == nil || options.Ports == nil:
		return nil, errors.New("loop: Project, Containers and Ports must be set")
	}
	if options.Output == nil {
		options.Output = io.Discard
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	l := &Loop{options: options, client: manager.Client()}
	l.slots = newSlots(l.ended.Send)
	l.guard = &guard{client: l.client, changes: manager.Changes()}
	if err := l.declare(); err != nil {
		return nil, err
	}
	if err := manager.AddRunnable(controller.Runnable{Name: "commands", Run: l.slots.run, From: cache.Starting}); err != nil {
		return nil, err
	}
	if err := manager.AddRunnable(controller.Runnable{Name: "guard", Run: l.guard.run, From: cache.Starting}); err != nil {
		return nil, err
	}
	ofApplication := controller.LabelSelector(contract.ApplicationLabel + "=" + options.Application)
	toApplication := func(streams.Object) []types.NamespacedName { return []types.NamespacedName{l.key()} }
	settings := append(l.set.Owns(),
		controller.For(&corev1.ConfigMap{}, ofApplication, controller.When(isSpecs)),
		controller.Owns(&corev1.ConfigMap{}, ofApplication), // The Status.
		controller.Watches(&corev1.Pod{}, toApplication, ofApplication),
		controller.From("commands", l.requests(l.ended.Stream())),
		controller.From("files and ports", l.requests(options.Changes)),
		controller.MaxConcurrentReconciles(1),
		controller.ReconcileTimeout(syncTimeout),
		controller.IgnoreEchoes(),
	)
	typed := controller.TypedReconciler[*corev1.ConfigMap]{
		Reconcile: l.reconcile,
		Deleting: func(context.Context, *corev1.ConfigMap) (controller.Result, error) {
			l.gone()
			return controller.Result{}, nil
		},
		Gone: func(context.Context, types.NamespacedName) (controller.Result, error) {
			l.gone()
			return controller.Result{}, nil
		},
	}
	if err := manager.Add(Name, controller.Typed(l.client, typed), settings...); err != nil {
		return nil, fmt.Errorf("add the controller of %s: %w", options.Application, err)
	}
	return l, nil
}

// requests returns a request for the application for each item.
func (l *Loop) requests(items streams.Stream[struct{}]) streams.Stream[types.NamespacedName] {
	return streams.MapOnReceive(items, func([]struct{}) ([]types.NamespacedName, error) { return []types.NamespacedName{l.key()}, nil })
}

// isSpecs reports whether a change is one of Specs.
func isSpecs(change streams.Change) bool {
	for _, object := range []streams.Object{change.Old, change.New} {
		if config, is := object.(*corev1.ConfigMap); is && contract.IsSpecs(config) {
			return true
		}
	}
	return false
}

// syncTimeout bounds one call of the reconciler. A first sync of a large project takes longest.
const syncTimeout = 10 * time.Minute

func (l *Loop) key() types.NamespacedName {
	return types.NamespacedName{Namespace: l.options.Namespace, Name: l.options.Application}
}

// gone ends the commands of an application whose Specs are deleted. The garbage collector deletes the rest.
func (l *Loop) gone() {
	l.slots.stopAll()
	l.held = held{}
}

// plan returns the plan of a devfile.
func (l *Loop) plan(devfile string) (*project.Plan, error) {
	l.planning.Lock()
	defer l.planning.Unlock()
	if l.planned.devfile != devfile {
		plan, err := project.Parse([]byte(devfile))
		l.planned = planned{devfile, plan, err}
	}
	return l.planned.plan, l.planned.err
}

// reconcile brings the application as far as it can come now.
func (l *Loop) reconcile(ctx context.Context, config *corev1.ConfigMap) (controller.Result, error) {
	status := contract.Status{Specs: config.ResourceVersion, State: contract.WaitDeployment}
	again, err := l.advance(ctx, config, &status)
	status.Ports = l.options.Ports.Bound()
	if reported := l.report(ctx, config, status); reported != nil {
		if text := reported.Error(); text != l.said && ctx.Err() == nil { // The Status cannot say it.
			l.said = text
			fmt.Fprintln(l.options.Output, text)
		}
		return controller.Result{}, errors.Join(err, reported)
	}
	if err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: again}, nil
}

// advance does all that the state allows, and describes the result in status. again is when to look again although
// no event comes, or 0.
func (l *Loop) advance(ctx context.Context, config *corev1.ConfigMap, status *contract.Status) (again time.Duration, err error) {
	specs, err := contract.SpecsOf(config)
	if err != nil {
		status.Message = err.Error()
		return 0, nil // A change of the ConfigMap makes another call.
	}
	plan, err := l.plan(specs.Devfile)
	if err != nil {
		status.Message = err.Error()
		return 0, nil
	}
	outcome := l.set.Reconcile(ctx, l.client, config)
	if err := outcome.Err(); err != nil {
		status.Message = explain(err)
	}
	named, err := l.applyManifests(ctx, config, plan)
	status.Objects = named.objects
	if err != nil {
		status.Message = explain(err)
	}
	place, problem := l.choosePod(ctx, plan, specs)
	l.options.Ports.Set(place, portsOf(plan))
	if place.Pod == "" {
		if status.Message == "" {
			status.Message = problem
		}
		return 0, errors.Join(outcome.Err(), err)
	}
	status.Pod = place.Pod
	if status.State = contract.WaitBindings; named.waits != "" {
		status.Message = named.waits
		return 0, errors.Join(outcome.Err(), err)
	}
	status.State = contract.PodRunning
	tree, again, syncErr := l.sync(ctx, place, status)
	switch {
	case syncErr != nil:
		status.Message = explain(syncErr)
	case again == 0:
		status.State = contract.FilesSynced
		again = l.command(plan, specs, place, tree, status)
	}
	return again, errors.Join(outcome.Err(), err, syncErr)
}
