package hero

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1alpha0"
	"github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1beta7"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Name is the name of the controller in metrics, logs and events.
const Name = "bellerophon"

// AddToScheme adds all versions of the kind to a scheme.
func AddToScheme(types *runtime.Scheme) error {
	return errors.Join(v1.AddToScheme(types), v1beta7.AddToScheme(types), v1alpha0.AddToScheme(types))
}

// Fields returns what the cache keeps of the children of heroes.
func Fields() owned.Fields { return owned.Fields{App: appName, Whole: true} }

// reconciler reconciles heroes.
type reconciler struct {
	client  *controller.Client
	members *members
	applied *applied

	mu     sync.Mutex
	claims map[types.NamespacedName]*controller.Claim
}

// AddTo adds the operator to a manager. kinds must include the [Fields] of this package. Members are reached at the addresses
// of their pods. The controller stands by while the kind is not served.
func AddTo(manager *controller.Manager, kinds *owned.Kinds) error {
	_, err := addTo(manager, kinds, dialPod)
	return err
}

func addTo(manager *controller.Manager, kinds *owned.Kinds, dial dialer) (*reconciler, error) {
	r := &reconciler{client: manager.Client(), members: newMembers(dial), applied: newApplied(), claims: map[types.NamespacedName]*controller.Claim{}}
	if err := manager.AddRunnable(controller.Runnable{Name: "members of heroes", Run: r.members.run}); err != nil {
		return nil, err
	}
	for _, read := range []streams.Object{&corev1.PersistentVolumeClaim{}, &corev1.Secret{}} {
		if err := manager.Uses(read); err != nil {
			return nil, err
		}
	}
	if err := manager.Registry().Register(heroMetrics{manager.Client()}); err != nil {
		return nil, fmt.Errorf("registering the metrics of heroes: %w", err)
	}
	typed := controller.TypedReconciler[*v1.Bellerophon]{Reconcile: r.reconcile, Gone: r.gone}
	return r, manager.Add(Name, controller.Typed(r.client, typed),
		controller.For(&v1.Bellerophon{}, controller.Plural("heroes")),
		controller.FinalizerIf(growthFinalizer, isGrowing, r.endGrowth),
		controller.FinalizerIf(lastBackupFinalizer, needsLastBackup, r.finalize),
		kinds.ConfigMaps(), kinds.Services(), kinds.StatefulSets(), kinds.WholePods(appName),
		controller.Owns(&policyv1.PodDisruptionBudget{}, controller.LabelSelector(owned.Selector)),
		controller.Owns(&batchv1.CronJob{}, controller.LabelSelector(owned.Selector)),
		controller.Owns(&batchv1.Job{}, controller.LabelSelector(owned.Selector)),
		controller.From("statuses of members", streams.Create(r.members.changed.Drain)),
		controller.IfServed(), controller.OnRelease(r.release),
	)
}

// soon is the delay of a requeue while pods are not in the cache yet.
const soon = 200 * time.Millisecond

func (r *reconciler) reconcile(ctx context.Context, hero *v1.Bellerophon) (controller.Result, error) {
	steps := r.steps()
	if hero.Spec.Paused {
		steps = nil
	}
	_, again, err := r.advance(ctx, hero, steps)
	return controller.Result{RequeueAfter: again}, err
}

// advance makes the first of some steps that is missing, and writes the status. left says what remains to be done; it is
// nil if there is nothing. again is the time after which to look again without an event, or 0.
func (r *reconciler) advance(ctx context.Context, hero *v1.Bellerophon, steps []step) (left error, again time.Duration, err error) {
	if current, err := r.claim(nameOf(hero)); err != nil || !current {
		return waiting("its pods are not in the cache yet"), soon, err
	}
	v, left := r.look(ctx, hero)
	if left != nil {
		v, steps = &view{hero: hero, now: controller.Now(ctx)}, nil
		if failed := failure(left); failed != nil {
			return left, 0, failed
		}
	}
	if v.unasked > 0 { // Their answer makes a request.
		return waiting("its members were not asked yet"), v.unasked, nil
	}
	for _, step := range steps {
		if left = step(ctx, v); left != nil {
			break
		}
	}
	if v.postponed.reason != "" && failure(left) == nil {
		left = v.postponed
	}
	if hero.DeletionTimestamp != nil && left == nil {
		return nil, 0, nil // It goes, and its status with it.
	}
	status, again := statusOf(v, left)
	if stalled := controller.SetStalled(ctx, &status.Conditions, hero.Generation); again == 0 || stalled > 0 && stalled < again {
		again = stalled
	}
	if status.LastBackup, err = r.lastBackup(ctx, v); err != nil {
		return left, 0, errors.Join(err, failure(left))
	}
	after := v.hero.DeepCopy()
	after.Status = status
	if _, err := controller.PatchStatus(ctx, r.client, after, controller.MergeFrom(v.hero)); err != nil {
		return left, 0, errors.Join(err, failure(left))
	}
	return left, again, failure(left)
}

// failure returns the error that is to be tried again, and nil for a wait or a problem: an event ends these.
func failure(result error) error {
	var wait waiting
	var found problem
	if errors.As(result, &wait) || errors.As(result, &found) {
		return nil
	}
	return result
}

// claim asks for pods while there is a hero, and reports whether they are in the cache.
func (r *reconciler) claim(hero types.NamespacedName) (current bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claims[hero] == nil {
		if r.claims[hero], err = controller.NewClaim[*owned.Pod](r.client); err != nil {
			delete(r.claims, hero)
			return false, err
		}
	}
	return r.claims[hero].Current(), nil
}

func (r *reconciler) gone(_ context.Context, hero types.NamespacedName) (controller.Result, error) {
	r.forget(hero)
	return controller.Result{}, nil
}

// release forgets the heroes that another replica has now.
func (r *reconciler) release(keeps func(types.NamespacedName) bool) {
	r.mu.Lock()
	known := slices.Collect(maps.Keys(r.claims))
	r.mu.Unlock()
	for _, hero := range known {
		if !keeps(hero) {
			r.forget(hero)
		}
	}
}

// forget ends what is held for a hero.
func (r *reconciler) forget(hero types.NamespacedName) {
	r.mu.Lock()
	if claim := r.claims[hero]; claim != nil {
		claim.Release()
		delete(r.claims, hero)
	}
	r.mu.Unlock()
	r.members.gone(hero)
	r.applied.gone(hero)
}
