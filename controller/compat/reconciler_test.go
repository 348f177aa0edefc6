package compat_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestAReconcilersResultsHaveTheirEffects(t *testing.T) {
	var answer reconcile.Result
	var failure error
	var seen reconcile.Request
	reconciler := compat.Reconciler(reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
		seen = request
		return answer, failure
	}))
	request := operators.Request{NamespacedName: types.NamespacedName{Namespace: "a", Name: "x"}}
	run := func(result reconcile.Result, err error) (time.Duration, error) {
		answer, failure = result, err
		return reconciler(t.Context(), request)
	}
	if after, err := run(reconcile.Result{}, nil); after != 0 || err != nil || seen.NamespacedName != request.NamespacedName {
		t.Errorf("a success of %v returns %v, %v", seen, after, err)
	}
	if after, err := run(reconcile.Result{RequeueAfter: time.Minute}, nil); after != time.Minute || err != nil {
		t.Errorf("RequeueAfter returns %v, %v", after, err)
	}
	var waits []time.Duration
	requeue := reconcile.Result{Requeue: true} //nolint:staticcheck // Programs still use it.
	for range 4 {
		after, err := run(requeue, nil)
		if waits = append(waits, after); err != nil {
			t.Error(err)
		}
	}
	if want := []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond}; !slices.Equal(waits, want) {
		t.Errorf("Requeue returns %v, want %v", waits, want)
	}
	if after, err := run(reconcile.Result{RequeueAfter: time.Minute}, errors.New("down")); after != 0 || err == nil {
		t.Errorf("an error with RequeueAfter returns %v, %v", after, err)
	}
	if _, err := run(reconcile.Result{}, nil); err != nil {
		t.Error(err)
	}
	if after, _ := run(requeue, nil); after != 5*time.Millisecond {
		t.Errorf("after a success, Requeue returns %v", after)
	}
}

// TestATerminalErrorIsNotRetried runs a manager over the fake API server, in virtual time.
func TestATerminalErrorIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		attempts := map[string]int{}
		failures := map[string]error{"terminal": reconcile.TerminalError(errors.New("no")), "other": errors.New("no"), "wrapped": fmt.Errorf("x: %w", reconcile.TerminalError(errors.New("no")))}
		reconciler := compat.Reconciler(reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
			attempts[request.Name]++
			return reconcile.Result{}, failures[request.Name]
		}))
		for name := range failures {
			w.create(pod(name))
		}
		w.add("pods", reconciler, controller.For(&corev1.Pod{}), controller.MaxConcurrentReconciles(1))
		w.run(time.Minute)
		if attempts["terminal"] != 1 || attempts["wrapped"] != 1 || attempts["other"] < 5 {
			t.Errorf("the attempts are %v", attempts)
		}
	})
}

func TestTheContextHasALoggerWithTheObject(t *testing.T) {
	var lines []string
	sink := funcr.New(func(prefix, line string) { lines = append(lines, line) }, funcr.Options{})
	reconciler := compat.Reconciler(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		log.FromContext(ctx).Info("hello")
		return reconcile.Result{}, nil
	}))
	request := operators.Request{Controller: "pods", NamespacedName: types.NamespacedName{Namespace: "a", Name: "x"}}
	if _, err := reconciler(logr.NewContext(t.Context(), sink.WithValues("id", 7)), request); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lines, ""); !strings.Contains(got, `"id"=7`) || strings.Contains(got, "controller") {
		t.Errorf("with a logger in the context, the log is %s", got)
	}
	var has bool
	reconciler = compat.Reconciler(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		_, err := logr.FromContext(ctx)
		has = err == nil
		return reconcile.Result{}, nil
	}))
	if _, err := reconciler(t.Context(), request); err != nil || !has {
		t.Errorf("the context has a logger: %t, %v", has, err)
	}
}

// world is a manager over the fake API server.
type world struct {
	t       *testing.T
	server  *sourcestest.Server
	manager *controller.Manager
	errs    []error
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	var err error
	w.server, err = sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	w.must(err)
	w.manager, err = controller.NewManager(w.server.Config(), scheme.Scheme, controller.Options{
		Logger: slog.New(slog.DiscardHandler), OnError: func(err error) { w.errs = append(w.errs, err) },
	})
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(object client.Object) { w.must(w.server.Create(object)) }

func (w *world) add(name string, reconciler operators.Reconciler, options ...controller.Option) {
	w.must(w.manager.Add(name, reconciler, options...))
}

// run runs the manager for a time, and calls the given functions one after the other when the cache is
// current.
func (w *world) run(length time.Duration, then ...func()) {
	group := lifecycle.New(w.t.Context())
	group.Go("manager", w.manager.Run)
	w.must(w.manager.Cache().Wait(w.t.Context(), cache.Current))
	for _, do := range then {
		do()
		<-time.After(time.Second)
	}
	<-time.After(length)
	group.Stop()
	w.must(group.Wait())
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// TestPredicatesAndHandlersMakeTheRequests moves a controller with a predicate, two handlers and a channel.
func TestPredicatesAndHandlersMakeTheRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var got []string
		reconciler := compat.Reconciler(reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, request.Name)
			return reconcile.Result{}, nil
		}))
		want := func(when string, names ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if slices.Sort(got); !slices.Equal(got, names) {
				t.Errorf("%s the requests are %q, want %q", when, got, names)
			}
			got = nil
		}
		byLabel := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "a", Name: object.GetLabels()["for"]}}}
		})
		late := handler.Funcs{CreateFunc: func(_ context.Context, made event.CreateEvent, to queue) {
			to.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(made.Object)}, time.Second)
		}}
		channel := make(chan event.GenericEvent)
		w.create(pod("x"))
		w.create(pod("y"))
		secret := func(name, of string) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{"for": of}}}
		}
		w.add("pods", reconciler,
			controller.For(&corev1.Pod{}, compat.When(predicate.LabelChangedPredicate{})),
			controller.Watches(&corev1.Secret{}, nil, compat.Handler(byLabel, predicate.ResourceVersionChangedPredicate{})),
			controller.Watches(&corev1.ConfigMap{}, nil, compat.Handler(late)),
			controller.From("channel", compat.Events(channel, &handler.EnqueueRequestForObject{}, predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() != "no" }))))
		change := func(object client.Object) { w.must(w.server.Update(object)) }
		w.run(time.Second,
			func() { <-time.After(time.Second); want("at the start", "x", "y") },
			func() { w.create(secret("s", "one")) },
			func() { want("for a new secret", "one"); change(secret("s", "two")) },
			func() { want("for a secret that changes hands", "one", "two") },
			func() {
				changed := pod("x")
				changed.Status.Message = "busy"
				change(changed)
			},
			func() {
				want("for a change that the predicate leaves out")
				changed := pod("x")
				changed.Labels = map[string]string{"a": "b"}
				change(changed)
			},
			func() { want("for a change of labels", "x") },
			func() {
				channel <- event.GenericEvent{Object: pod("z")}
				channel <- event.GenericEvent{Object: pod("no")}
			},
			func() {
				want("for generic events", "z")
				w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}})
			},
			func() {
				want("for a handler that waits")
			})
		if len(w.errs) == 0 || !strings.Contains(w.errs[0].Error(), "use compat.NewManager") {
			t.Errorf("the errors are %v", w.errs)
		}
	})
}
