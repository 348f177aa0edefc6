package controller

import (
	"context"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// Lists of many objects keep the API server and this process busy for seconds. While objects are
// reconciled before sync, lists would delay them, so at a start the lists wait for these objects.
// mostBeforeSync bounds the wait: an object that takes long must not keep the others from being known.
// An object that is to be looked at again within soonAgain is still worked on.
const (
	mostBeforeSync = 3 * time.Second
	soonAgain      = 5 * time.Second
)

// beforeSync holds the first lists of a manager back until the objects that are reconciled before sync
// are reconciled. Its methods may be called from any goroutine.
type beforeSync struct {
	over chan struct{} // closed when lists may be requested

	mu         sync.Mutex
	begun      bool                // the manager runs
	unknown    int                 // watches whose First has not answered
	unfinished map[reconciled]bool // objects that are reconciled before sync
}

// reconciled is an object of a controller.
type reconciled struct {
	controller string
	object     types.NamespacedName
}

func newBeforeSync() *beforeSync {
	return &beforeSync{over: make(chan struct{}), unfinished: map[reconciled]bool{}}
}

// start begins the wait for the controllers that a manager starts with, if any reconciles objects
// before sync. The wait is bounded.
func (b *beforeSync) start(group *lifecycle.Group, now *present) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun = true
	asked := map[*watched]bool{}
	for _, member := range now.members {
		if of := member.reconciled; member.early != nil && !member.elected && of.options.First != "" && !asked[of] {
			asked[of] = true
			b.unknown += max(1, len(of.options.Namespaces))
		}
	}
	if b.end(); b.unknown == 0 {
		return
	}
	group.Go("lists", func(ctx context.Context) error {
		timer := time.NewTimer(mostBeforeSync)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-b.over:
		case <-ctx.Done():
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.unknown = 0
		clear(b.unfinished)
		b.end()
		return nil
	})
}

// found records the objects of First of a watch.
func (b *beforeSync) found(now *present, of *watched, objects []streams.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isOver() {
		return
	}
	for name, member := range now.members {
		if member.reconciled != of || member.early == nil || member.elected {
			continue
		}
		for _, object := range objects {
			if member.early(object) {
				b.unfinished[reconciled{name, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}}] = true
			}
		}
	}
	b.unknown--
	b.end()
}

// following returns a reconciler that tells when objects are reconciled.
func (b *beforeSync) following(controller string, reconcile operators.Reconciler) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (after time.Duration, err error) {
		working := false // Also after a panic.
		defer func() {
			if request.BeforeSync && !working {
				b.finished(reconciled{controller, request.NamespacedName})
			}
		}()
		after, err = reconcile(ctx, request)
		working = err == nil && after > 0 && after <= soonAgain
		return after, err
	}
}

func (b *beforeSync) finished(object reconciled) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.unfinished, object)
	b.end()
}

// end lets lists be requested if nothing is left to wait for. The caller holds the lock.
func (b *beforeSync) end() {
	if b.begun && b.unknown <= 0 && len(b.unfinished) == 0 && !b.isOver() {
		close(b.over)
	}
}

func (b *beforeSync) isOver() bool {
	select {
	case <-b.over:
		return true
	default:
		return false
	}
}
