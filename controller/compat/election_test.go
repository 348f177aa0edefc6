package compat_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// calls are the reconciles of some managers.
type calls struct {
	mu    sync.Mutex
	names []string
}

func (c *calls) add(by, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names = append(c.names, by+" "+name); strings.HasSuffix(name, "kube-root-ca.crt") {
		c.names = c.names[:len(c.names)-1]
	}
}

// wait waits until the reconciles since the last call are the given ones, without repetitions.
func (c *calls) wait(t *testing.T, when string, want ...string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(5 * time.Millisecond) {
		c.mu.Lock()
		got := slices.Compact(slices.Sorted(slices.Values(c.names)))
		if slices.Equal(got, want) {
			c.names = nil
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		if time.Now().After(deadline) {
			t.Fatalf("%s the reconciles are %q, want %q", when, got, want)
		}
	}
}

func TestOnlyTheLeaderReconciles(t *testing.T) {
	namespace := clustertest.Namespace(t)
	made := &calls{}
	config := clustertest.Shared(t).AdminConfig()
	managers := map[string]*compat.Manager{}
	for _, name := range []string{"one", "two"} {
		given := options()
		given.LeaderElection, given.LeaderElectionID, given.LeaderElectionNamespace = true, "leader", namespace
		given.LeaderElectionReleaseOnCancel = true
		given.LeaseDuration, given.RenewDeadline, given.RetryPeriod = new(3*time.Second), new(2*time.Second), new(200*time.Millisecond)
		mgr, err := compat.NewManager(config, given, controller.Options{Namespaces: []string{namespace}})
		if err == nil {
			err = ctrl.NewControllerManagedBy(mgr).Named("configs").For(&corev1.ConfigMap{}).
				Complete(reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
					made.add(name, request.Name)
					return reconcile.Result{}, nil
				}))
		}
		if err != nil {
			t.Fatal(err)
		}
		managers[name] = mgr
	}
	first := lifecycle.New(t.Context())
	first.Go("one", managers["one"].Start)
	<-managers["one"].Elected()
	start(t, managers["two"])
	create := func(name string) {
		t.Helper()
		if err := managers["two"].GetClient().Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	create("a")
	made.wait(t, "while the first one leads", "one a")
	first.Stop()
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
	create("b")
	made.wait(t, "when the first one has ended", "two a", "two b")
}

// TestAPredicateThatPanicsMissesNothing panics at the first call for each object, in a controller of many.
func TestAPredicateThatPanicsMissesNothing(t *testing.T) {
	namespace := clustertest.Namespace(t)
	made := &calls{}
	var mu sync.Mutex
	var failures []string
	mgr, err := compat.NewManager(clustertest.Shared(t).AdminConfig(), options(), controller.Options{
		Namespaces: []string{namespace},
		OnError: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, err.Error())
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	panicked := map[string]bool{}
	fragile := predicate.Funcs{CreateFunc: func(made event.CreateEvent) bool {
		if name := made.Object.GetName(); !panicked[name] { // Calls for one controller do not overlap.
			panicked[name] = true
			panic("out of order")
		}
		return true
	}}
	for _, name := range []string{"fragile", "sound"} {
		by := []predicate.Predicate{predicate.NewPredicateFuncs(func(client.Object) bool { return true })}
		if name == "fragile" {
			by = append(by, fragile)
		}
		err := ctrl.NewControllerManagedBy(mgr).Named(name).For(&corev1.ConfigMap{}, builder.WithPredicates(by...)).
			Complete(reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
				made.add(name, request.Name)
				return reconcile.Result{}, nil
			}))
		if err != nil {
			t.Fatal(err)
		}
	}
	start(t, mgr)
	for _, name := range []string{"a", "b"} {
		if err := mgr.GetClient().Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	made.wait(t, "after panics", "fragile a", "fragile b", "sound a", "sound b")
	mu.Lock()
	defer mu.Unlock()
	if len(failures) == 0 || !strings.Contains(failures[0], "out of order") {
		t.Errorf("the errors are %q", failures)
	}
}
