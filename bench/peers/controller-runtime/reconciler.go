package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	// progressEvery is how long the status of an unfinished rollout is held back, at least.
	progressEvery = time.Second
	// lookAgain is the requeue interval for a condition whose end makes no event, such as a name
	// that is taken: deleting the object of another owner does not trigger this controller.
	lookAgain = 30 * time.Second
)

// errTaken means that an object with the name of a child has another owner.
var errTaken = errors.New("belongs to another owner")

// errLeaving means that the child is being deleted, or will be.
var errLeaving = errors.New("is being deleted")

type reconciler struct {
	client.Client               // reads from the cache
	live          client.Client // reads from the API server
	parallel      int           // children to write concurrently
	compares      bool          // the cache holds only a part of each child: see compare
	creates       bool          // no child exists yet, most likely
	started       chan struct{} // nil, or closed after createFirst

	mu        sync.Mutex
	unsettled map[client.ObjectKey]rollout
	pace      *pace // nil if each status is held back equally long
}

// rollout is one that is unfinished.
type rollout struct {
	began    time.Time
	since    time.Time // began, or when its status was written last
	followed bool      // the StatefulSet controller has seen it
}

func (r *reconciler) setUp(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).
		// GenerationChangedPredicate would hide the operator's own status writes. A status that was
		// computed from a stale cache could then stay wrong for ever.
		For(&v1.BellerophonSimple{}).
		Owns(&corev1.ConfigMap{}, builder.WithPredicates(notCreated())).
		Owns(&corev1.Service{}, builder.WithPredicates(notCreated())).
		Owns(&appsv1.StatefulSet{}, builder.WithPredicates(notCreated(), serversMatter())).
		Complete(r)
}

// notCreated drops create events of children: their owner created them, or is reconciled at the
// start anyway.
func notCreated() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}
}

// serversMatter drops updates of a StatefulSet that change no field the reconciler reads.
func serversMatter() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*appsv1.StatefulSet), e.ObjectNew.(*appsv1.StatefulSet)
		was, is := &before.Status, &after.Status
		return before.Generation != after.Generation ||
			!equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
			!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			was.ObservedGeneration != is.ObservedGeneration || was.Replicas != is.Replicas || was.ReadyReplicas != is.ReadyReplicas ||
			was.UpdatedReplicas != is.UpdatedReplicas || was.CurrentRevision != is.CurrentRevision || was.UpdateRevision != is.UpdateRevision
	}}
}

// Reconcile creates and repairs the children of an object, and then writes its status.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if r.started != nil {
		select {
		case <-r.started:
		case <-ctx.Done():
			return ctrl.Result{}, ctx.Err()
		}
	}
	hero := &v1.BellerophonSimple{}
	if err := r.Get(ctx, request.NamespacedName, hero); err != nil {
		r.settled(request.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !hero.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // The garbage collector deletes the children.
	}
	servers, after, failed := r.ensureAll(ctx, hero)
	wait, err := r.report(ctx, hero, servers)
	if wait > 0 && (after == 0 || wait < after) {
		after = wait
	}
	if err := errors.Join(failed, err); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// ensureAll creates and repairs the children. It returns the resulting StatefulSet or nil, and when
// to requeue if a child has to wait.
func (r *reconciler) ensureAll(ctx context.Context, hero *v1.BellerophonSimple) (*appsv1.StatefulSet, time.Duration, error) {
	meta := metav1.ObjectMeta{Name: hero.Name, Namespace: hero.Namespace}
	var servers *appsv1.StatefulSet
	var failed [3]error
	var group errgroup.Group
	group.SetLimit(r.parallel)
	group.Go(func() error {
		_, failed[0] = ensure(ctx, r, hero, &corev1.ConfigMap{ObjectMeta: meta}, setConfig)
		return nil
	})
	group.Go(func() error {
		_, failed[1] = ensure(ctx, r, hero, &corev1.Service{ObjectMeta: meta}, setService)
		return nil
	})
	group.Go(func() error {
		servers, failed[2] = ensure(ctx, r, hero, &appsv1.StatefulSet{ObjectMeta: meta}, setServers)
		return nil
	})
	_ = group.Wait() // An error of one child does not stop the others.
	var after time.Duration
	for i, err := range failed {
		if errors.Is(err, errTaken) || errors.Is(err, errLeaving) {
			log.FromContext(ctx).Info("a child has to wait", "reason", err.Error())
			after, failed[i] = lookAgain, nil
		}
	}
	return servers, after, errors.Join(failed[:]...)
}

// ensure creates or repairs one child, with one write at most. It returns the resulting child, or
// nil if the object has none.
func ensure[T client.Object](ctx context.Context, r *reconciler, hero *v1.BellerophonSimple, empty T, set func(*v1.BellerophonSimple, T)) (T, error) {
	child := empty.DeepCopyObject().(T)
	mutate := func() error {
		if err := isOurs(hero, child); err != nil {
			return err
		}
		set(hero, child)
		return setMeta(hero, child, r.Scheme())
	}
	var err error
	switch {
	case r.creates:
		err = create(ctx, r, child, mutate)
	case r.compares:
		err = compare(ctx, r, child, mutate)
	default:
		_, err = controllerutil.CreateOrUpdate(ctx, r.Client, child, mutate)
	}
	if apierrors.IsAlreadyExists(err) || errors.Is(err, errDiffers) {
		// The child has another owner, or lost the labels that the cache selects by, or the cache
		// is stale.
		child = empty.DeepCopyObject().(T)
		_, err = controllerutil.CreateOrUpdate(ctx, r.live, child, mutate)
	}
	if err != nil {
		return *new(T), fmt.Errorf("%T %s: %w", child, child.GetName(), err)
	}
	return child, nil
}

// isOurs returns nil for a child that belongs to the object or does not exist yet. Otherwise it
// returns errTaken or errLeaving.
func isOurs(hero *v1.BellerophonSimple, child client.Object) error {
	if child.GetResourceVersion() == "" {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(child)
	switch {
	case child.GetDeletionTimestamp() != nil,
		owner != nil && owner.UID != hero.UID && owner.Kind == v1.Kind && owner.Name == hero.Name:
		return errLeaving // Its deletion will trigger a reconcile.
	case owner != nil && owner.UID != hero.UID:
		return errTaken
	case owner == nil && child.GetLabels()[labelManagedBy] != managedBy:
		return errTaken
	}
	return nil
}

// report writes the status if it differs and is due. Otherwise it returns when to requeue.
func (r *reconciler) report(ctx context.Context, hero *v1.BellerophonSimple, servers *appsv1.StatefulSet) (time.Duration, error) {
	status, finished := statusOf(hero, servers)
	key := client.ObjectKeyFromObject(hero)
	r.follow(key, servers)
	if finished {
		r.settled(key)
	} else if wait := r.wait(hero); wait > 0 {
		return wait, nil
	}
	if equality.Semantic.DeepEqual(status, hero.Status) {
		return 0, nil
	}
	before := hero.DeepCopy()
	hero.Status = status
	if err := r.Status().Patch(ctx, hero, client.MergeFrom(before)); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	return 0, nil
}

// wait returns how long the status of an unfinished rollout is still held back. After zero, the
// next one is due a second later.
func (r *reconciler) wait(hero *v1.BellerophonSimple) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, now := client.ObjectKeyFromObject(hero), time.Now()
	known, unsettled := r.unsettled[key]
	if !unsettled {
		known = rollout{began: now, since: now}
	}
	held := progressEvery
	if r.pace != nil {
		held = r.pace.held(hero, now)
	}
	left := held - now.Sub(known.since)
	if left <= 0 {
		known.since = now
	}
	r.unsettled[key] = known
	return max(left, 0)
}

// follow records in the pace that the StatefulSet controller has seen a rollout.
func (r *reconciler) follow(key client.ObjectKey, servers *appsv1.StatefulSet) {
	if r.pace == nil || servers == nil || servers.Status.ObservedGeneration < servers.Generation {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, unsettled := r.unsettled[key]; unsettled && !known.followed {
		now := time.Now()
		r.pace.took(now.Sub(known.began), now)
		known.followed = true
		r.unsettled[key] = known
	}
}

func (r *reconciler) settled(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unsettled, key)
}
