package compat_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// failing records when it is called, and returns the next of some outcomes. After the last one it succeeds.
type failing struct {
	mu       sync.Mutex
	calls    []time.Time
	outcomes []error // nil for a success
}

var (
	errPanic   = errors.New("panics")
	errRequeue = errors.New("asks for another call")
)

func (f *failing) Reconcile(context.Context, reconcile.Request) (reconcile.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, time.Now())
	if len(f.outcomes) == 0 {
		return reconcile.Result{}, nil
	}
	err := f.outcomes[0]
	f.outcomes = f.outcomes[1:]
	switch {
	case errors.Is(err, errPanic):
		panic("no")
	case errors.Is(err, errRequeue):
		return reconcile.Result{Requeue: true}, nil //nolint:staticcheck // Programs still use it.
	}
	return reconcile.Result{}, err
}

// waits returns the times between the calls so far.
func (f *failing) waits() (waits []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := 1; i < len(f.calls); i++ {
		waits = append(waits, f.calls[i].Sub(f.calls[i-1]))
	}
	return waits
}

// limitedTo runs a controller of controller-runtime over the fake API server, in virtual time. during is called
// with the server when the object x was reconciled.
func limitedTo(t *testing.T, by workqueue.TypedRateLimiter[reconcile.Request], ours controller.Options, during func(*sourcestest.Server), outcomes ...error) (waits []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}); err != nil {
			t.Fatal(err)
		}
		theirs := options()
		theirs.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			made := meta.NewDefaultRESTMapper(nil)
			made.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
			return made, nil
		}
		mgr, err := compat.NewManager(server.Config(), theirs, ours)
		if err != nil {
			t.Fatal(err)
		}
		reconciler := &failing{outcomes: outcomes}
		if err := ctrl.NewControllerManagedBy(mgr).Named("limited").For(&corev1.ConfigMap{}).
			WithOptions(ctrlcontroller.Options{RateLimiter: by, RecoverPanic: new(false)}).Complete(reconciler); err != nil {
			t.Fatal(err)
		}
		group := lifecycle.New(t.Context())
		group.Go("manager", mgr.Start)
		<-time.After(10 * time.Second)
		during(server)
		<-time.After(time.Hour)
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		waits = reconciler.waits()
	})
	return waits
}

// touch changes the object. A ConfigMap has no generation, so that each change counts as one of its generation.
func touch(t *testing.T) func(*sourcestest.Server) {
	return func(server *sourcestest.Server) {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}, Data: map[string]string{"changed": "yes"}}
		if err := server.Update(object); err != nil {
			t.Error(err)
		}
	}
}

func TestTheRateLimiterOfAControllerSetsItsWaitsAfterFailures(t *testing.T) {
	type waits = []time.Duration
	const ms = time.Millisecond
	nothing, down := func(*sourcestest.Server) {}, errors.New("down")
	exponential := func(first time.Duration) workqueue.TypedRateLimiter[reconcile.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, time.Hour)
	}
	for name, test := range map[string]struct {
		by       workqueue.TypedRateLimiter[reconcile.Request]
		ours     controller.Options
		during   func(*sourcestest.Server)
		outcomes []error
		want     waits
	}{
		"the default": {nil, controller.Options{}, nothing, []error{down, down, down, nil}, waits{5 * ms, 10 * ms, 20 * ms}},
		"one of its own": {exponential(time.Second), controller.Options{}, nothing, []error{down, down, down, nil},
			waits{time.Second, 2 * time.Second, 4 * time.Second}},
		"with panics": {exponential(time.Second), controller.Options{}, nothing, []error{errPanic, down, errPanic, nil},
			waits{time.Second, 2 * time.Second, 4 * time.Second}},
		"with Requeue in between, which counts too": {exponential(time.Second), controller.Options{}, nothing, []error{down, errRequeue, down, nil},
			waits{time.Second, 2 * time.Second, 4 * time.Second}},
		"with a terminal error, which asks for nothing": {exponential(time.Second), controller.Options{}, touch(t),
			[]error{down, reconcile.TerminalError(down), down, nil}, waits{time.Second, 9 * time.Second, 2 * time.Second}},
		"a backoff in the options of Bellerophon": {exponential(time.Second), controller.Options{Backoff: operators.Backoff{First: 100 * ms, Jitter: -1}}, nothing,
			[]error{down, down, nil}, waits{100 * ms, 200 * ms}},
		"a change during a wait, which keeps the count": {exponential(time.Minute), controller.Options{}, touch(t), []error{down, down, down, nil},
			waits{10 * time.Second, 2 * time.Minute, 4 * time.Minute}},
		"a change after a success, which has reset the count": {exponential(time.Second), controller.Options{}, touch(t), []error{down, down, nil, down, nil},
			waits{time.Second, 2 * time.Second, 7 * time.Second, time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := limitedTo(t, test.by, test.ours, test.during, test.outcomes...); !slices.Equal(got, test.want) {
				t.Errorf("the waits are %v, want %v", got, test.want)
			}
		})
	}
}
