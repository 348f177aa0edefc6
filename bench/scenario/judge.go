package scenario

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// askAgain is how long the judge waits after a failed list or watch.
const askAgain = 20 * time.Millisecond

// managedBy is the label selector of the children.
const managedBy = "app.kubernetes.io/managed-by=bellerophon"

// Judge watches the cluster and records when objects are finished and when drift is undone.
type Judge struct {
	group    *lifecycle.Group
	finished *board // generations of finished objects
	repaired *board // versions of children without drift
	clients  *Clients
	saw      func(version uint64)
}

// NewJudge starts a judge and returns once it has listed the existing objects. A list of many
// objects would otherwise disturb the measurement. The judge calls saw with each version that it
// sees. It runs until Close, which has to be called after an error, too.
func NewJudge(ctx context.Context, clients *Clients, saw func(version uint64)) (*Judge, error) {
	j := &Judge{group: lifecycle.New(context.WithoutCancel(ctx)), finished: newBoard(), repaired: newBoard(), clients: clients, saw: saw}
	heroes := cache.NewListWatchFromClient(clients.Heroes(), v1.Plural, metav1.NamespaceAll, fields.Everything())
	select {
	case <-j.follow(heroes, &v1.BellerophonSimple{}, j.hero, j.finished.gone):
		return j, nil
	case <-ctx.Done():
		return j, fmt.Errorf("listing the existing objects: %w", context.Cause(ctx))
	}
}

// followChildren starts watches of the children. Only the drift scenario needs them.
func (j *Judge) followChildren() {
	for _, child := range children {
		source := cache.NewFilteredListWatchFromClient(child.client(j.clients), child.resource, metav1.NamespaceAll,
			func(options *metav1.ListOptions) { options.LabelSelector = managedBy })
		j.follow(source, child.empty, child.repairs(j.repaired), func(object types.NamespacedName) { j.repaired.gone(child.of(object)) })
	}
}

// Close ends the judge's watches.
func (j *Judge) Close() error {
	j.group.Stop()
	return j.group.Wait()
}

func (j *Judge) hero(object runtime.Object, at time.Time) {
	hero, ok := object.(*v1.BellerophonSimple)
	if ok && isFinished(hero) {
		j.finished.mark(nameOf(hero), uint64(hero.Generation), at)
	}
}

// isFinished reports whether the status is a finished one of the object's generation.
func isFinished(hero *v1.BellerophonSimple) bool {
	ready := meta.FindStatusCondition(hero.Status.Conditions, v1.ConditionReady)
	return hero.Status.ObservedGeneration == hero.Generation && ready != nil && ready.Status == metav1.ConditionTrue &&
		ready.ObservedGeneration == hero.Generation && hero.Spec.Replicas != nil && hero.Status.Replicas == *hero.Spec.Replicas &&
		hero.Status.ReadyReplicas == *hero.Spec.Replicas
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func versionOf(object metav1.Object) uint64 {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// follow watches a resource until the judge is closed. The returned channel is closed once the
// first list is complete.
func (j *Judge) follow(source cache.ListerWatcher, expected runtime.Object, each func(runtime.Object, time.Time), gone func(types.NamespacedName)) (read <-chan struct{}) {
	quiet := logr.Discard() // The reflector would log errors when the cluster ends.
	name := fmt.Sprintf("judge of %T", expected)
	store := &sink{judge: j, each: each, gone: gone, read: make(chan struct{})}
	// The times of the judge must be good when the API server comes back, so it does not back off.
	again := &wait.Backoff{Duration: askAgain, Steps: 1}
	reflector := cache.NewReflectorWithOptions(source, expected, store, cache.ReflectorOptions{Logger: &quiet, Name: name, Backoff: again})
	j.group.Go(name, func(ctx context.Context) error {
		reflector.RunWithContext(ctx)
		return nil
	})
	return store.read
}

// sink is the "store" of a reflector. It passes objects on and keeps nothing.
type sink struct {
	judge *Judge
	each  func(runtime.Object, time.Time)
	gone  func(types.NamespacedName)
	read  chan struct{}
	once  sync.Once
}

func (s *sink) see(object any, at time.Time) error {
	access, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	s.judge.saw(versionOf(access))
	if one, ok := object.(runtime.Object); ok {
		s.each(one, at)
	}
	return nil
}

func (s *sink) Add(object any) error    { return s.see(object, time.Now()) }
func (s *sink) Update(object any) error { return s.see(object, time.Now()) }
func (s *sink) Resync() error           { return nil }

func (s *sink) Delete(object any) error {
	access, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	s.judge.saw(versionOf(access))
	s.gone(nameOf(access))
	return nil
}

func (s *sink) Replace(objects []any, _ string) error {
	at := time.Now()
	for _, object := range objects {
		if err := s.see(object, at); err != nil {
			return err
		}
	}
	s.once.Do(func() { close(s.read) })
	return nil
}
