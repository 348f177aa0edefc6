package simple

import (
	"context"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// conflictWait is the delay of a requeue after a conflict. The event of the conflicting write
// normally comes first.
const conflictWait = time.Second

// Name is the name of the controller in metrics, logs and events.
const Name = "bellerophonsimple"

// AddTo adds the operator to a manager. kinds must include the [Fields] of this package, and must be the
// same for all controllers of the manager.
func AddTo(manager *controller.Manager, kinds *owned.Kinds) error {
	client := manager.Client()
	r := &reconciler{
		client: client, kinds: kinds, events: manager.Recorder(), cache: manager.Cache(), throttle: newThrottle(), progress: newProgress(), missing: newMissing(),
		started: time.Now(),
		late:    newLate(func() (claim, error) { return controller.NewClaim[*owned.Pod](client) }),
	}
	return manager.Add(Name, r.reconcile,
		controller.For(&v1.BellerophonSimple{}, controller.Plural("sheroes"), controller.ReconcileBeforeSync(isNew, newFields)),
		kinds.ConfigMaps(), kinds.Services(), kinds.StatefulSets(), kinds.Pods(appName),
		controller.IgnoreEchoes(), // One call does everything that the state allows.
	)
}

// isNew reports whether the status shows no reconcile of the object yet. The children of such an
// object are created before the cache has listed existing children: see errUnlisted.
func isNew(hero *v1.BellerophonSimple) bool { return hero.Status.ObservedGeneration == 0 }

// newFields is the field selector of new objects.
const newFields = "status.observedGeneration="

type reconciler struct {
	client   *controller.Client
	kinds    *owned.Kinds
	events   *controller.Recorder
	cache    *cache.Cache
	throttle *throttle
	progress *progress
	missing  *missing
	late     *late
	started  time.Time
}

// reconcile works on an object, unless its throttle makes it wait.
func (r *reconciler) reconcile(ctx context.Context, request operators.Request) (time.Duration, error) {
	hero, err := controller.Get[*v1.BellerophonSimple](ctx, r.client, request.NamespacedName)
	if controller.IgnoreNotFound(err) != nil {
		return 0, err
	}
	if err != nil || hero.DeletionTimestamp != nil {
		r.forget(request.NamespacedName, controller.Now(ctx))
		return 0, nil // The garbage collector deletes the children.
	}
	if isChanged(hero) {
		now := controller.Now(ctx)
		if wait := r.rest(ctx, hero, now); wait > 0 {
			return wait, nil
		}
		r.throttle.worked(hero, now)
	}
	return r.work(ctx, request, hero)
}

// rest returns how long the work on a changed object has to wait, or 0 to do it now.
func (r *reconciler) rest(ctx context.Context, hero *v1.BellerophonSimple, now time.Time) time.Duration {
	if r.throttle.wait(hero, now) == 0 {
		return 0
	}
	if servers, err := controller.Get[*owned.StatefulSet](ctx, r.client, nameOf(hero)); err == nil {
		r.throttle.saw(hero, servers, now)
	}
	return r.throttle.wait(hero, now)
}

// work brings the children of an object to the desired state, and then its status to the observed
// state.
func (r *reconciler) work(ctx context.Context, request operators.Request, hero *v1.BellerophonSimple) (time.Duration, error) {
	unlisted := request.BeforeSync && r.cache.Level() < cache.Current
	servers, done := ensureAll(ctx, r.client, hero, unlisted)
	if unlisted {
		servers = r.look(ctx, hero, servers, done)
	}
	now := controller.Now(ctx)
	if servers != nil {
		r.throttle.saw(hero, servers, now)
		r.throttle.wrote(hero, servers)
	}
	seen := r.podsOf(ctx, hero, servers)
	r.recordRepairs(ctx, hero, done)
	status, settled, recheck := statusOf(hero, servers, seen.pods, r.missing.problem(nameOf(hero), servers, replicasOf(hero), now), done, now)
	after := sooner(seen.after, recheck)
	after = sooner(after, controller.SetStalled(ctx, &status.Conditions, hero.Generation))
	if unlisted && !settled {
		after = sooner(after, r.lookAgain(now))
	}
	if settled || !seen.blind { // Otherwise the status would lose its problem until pods are listed.
		wait, err := r.report(ctx, hero, status, settled)
		if err != nil {
			return 0, err
		}
		after = sooner(after, wait)
	}
	return verdict(after, done)
}

// sooner returns the shorter of two waits. 0 means no wait.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

// report writes the status if it differs. If the write has to wait, report returns the delay of the
// requeue.
func (r *reconciler) report(ctx context.Context, hero *v1.BellerophonSimple, status v1.BellerophonSimpleStatus, settled bool) (time.Duration, error) {
	if settled {
		r.progress.forget(nameOf(hero))
	}
	if equality.Semantic.DeepEqual(status, hero.Status) {
		return 0, nil
	}
	if now, err := controller.Get[*v1.BellerophonSimple](ctx, r.client, nameOf(hero)); err != nil || now.ResourceVersion != hero.ResourceVersion {
		return conflictWait, nil // The patch would fail with one of the errors handled below.
	}
	if !settled {
		now := controller.Now(ctx)
		if after := r.progress.wait(nameOf(hero), r.throttle.held(hero, now), now); after > 0 {
			return after, nil
		}
	}
	changed := hero.DeepCopy()
	changed.Status = status
	written, err := controller.PatchStatus(ctx, r.client, changed, controller.MergeFrom(hero))
	if err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return conflictWait, nil // The object was deleted or changed meanwhile. Its event requeues it.
		}
		return 0, err
	}
	r.recordTrouble(ctx, hero, written)
	return 0, nil
}

// forget drops the state of an object that is gone.
func (r *reconciler) forget(name types.NamespacedName, now time.Time) {
	r.progress.forget(name)
	r.missing.forget(name)
	r.late.done(name, now)
}
