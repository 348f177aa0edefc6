package dependents

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// External keeps states outside of the cluster that desired states depend on: prices, DNS answers, the
// status of a cloud resource. A stream carries the states, and each change makes requests for the owners
// that it concerns. [streams.From] makes a stream of an RxGo observable, and package sources has streams of
// ticks, files and Go channels.
//
//	prices := dependents.NewExternal("prices", feed, func(price Price) []types.NamespacedName { return ownersOf(price.Symbol) })
//	offer := dependents.One("offer", func(ctx context.Context, hero *v1.Hero, view *dependents.View) (*corev1.ConfigMap, error) {
//		price, err := prices.Of(hero)
//		if err != nil {
//			return nil, err
//		}
//		...
//	})
//	err = manager.Add("hero", reconcile, append(set.Owns(), controller.For(&v1.Hero{}), prices.Requests())...)
type External[S any] struct {
	name   string
	states streams.Stream[S]
	owners func(state S) []types.NamespacedName

	mu     sync.Mutex
	latest map[types.NamespacedName]S
}

// NewExternal creates an External. name appears in messages. owners returns the names of the owners that a
// state concerns.
func NewExternal[S any](name string, states streams.Stream[S], owners func(state S) []types.NamespacedName) *External[S] {
	return &External[S]{name: name, states: states, owners: owners, latest: map[types.NamespacedName]S{}}
}

// Requests returns the option of a controller that follows the stream: see [controller.From]. A state that
// equals the one before it makes no request.
func (e *External[S]) Requests() controller.Option {
	return controller.From(e.name, streams.MapOnReceive(e.states, func(batch []S) (changed []types.NamespacedName, err error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, state := range batch {
			for _, owner := range e.owners(state) {
				if known, exists := e.latest[owner]; !exists || !reflect.DeepEqual(known, state) {
					e.latest[owner] = state
					changed = append(changed, owner)
				}
			}
		}
		return changed, nil
	}))
}

// Of returns the latest state that concerns an owner: of several states, the last one. Before the first one, it returns an error of
// [NotYet], which a function for a desired state should return: the child then stays as it is.
func (e *External[S]) Of(owner streams.Object) (S, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	state, known := e.latest[nameOf(owner)]
	if !known {
		return state, NotYet(fmt.Sprintf("%s has no state for it yet", e.name))
	}
	return state, nil
}

// Forget drops the state of an owner that is gone. Call it from [controller.TypedReconciler].Gone.
func (e *External[S]) Forget(owner types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.latest, owner)
}

// NotYet returns an error for a desired state that cannot be known now. The dependent is then Waiting for
// the reason, and its children stay as they are. Nothing is retried: what ends the wait must make a request.
func NotYet(reason string) error { return notYetError(reason) }

type notYetError string

func (e notYetError) Error() string { return string(e) }

// isNotYet reports whether an error is one of NotYet.
func isNotYet(err error) bool {
	var waits notYetError
	return errors.As(err, &waits)
}
