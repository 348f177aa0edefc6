package controller_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// levelWorld is one manager over a fake API server, in virtual time, with a controller of
// config maps that records the versions that it reads.
type levelWorld struct {
	t       *testing.T
	server  *sourcestest.Server
	manager *controller.Manager
	group   *lifecycle.Group

	mu       sync.Mutex
	read     map[string]string // by name: the resource version that was read last; "" if the object was not found
	attempts int
	failed   []error
}

// inLevelWorld runs test with a new world, in a synctest bubble.
func inLevelWorld(t *testing.T, of sourcestest.Options, options controller.Options, test func(w *levelWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &levelWorld{t: t, read: map[string]string{}}
		of.Scheme = scheme.Scheme
		var err error
		if w.server, err = sourcestest.New(of); err != nil {
			t.Fatal(err)
		}
		options.Logger = slog.New(slog.DiscardHandler)
		options.OnError = func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.failed = append(w.failed, err)
		}
		if w.manager, err = controller.NewManager(w.server.Config(), scheme.Scheme, options); err != nil {
			t.Fatal(err)
		}
		w.group = lifecycle.New(t.Context())
		test(w)
		w.group.Stop()
		if err := w.group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func (w *levelWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// noting reads the object of a request from the cache and records its version. It is the reconciler.
func (w *levelWorld) noting(_ context.Context, request operators.Request) (time.Duration, error) {
	object, found := cached[*corev1.ConfigMap](w.manager.Client(), request.NamespacedName)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attempts++
	if w.read[request.Name] = ""; found {
		w.read[request.Name] = object.ResourceVersion
	}
	return 0, nil
}

// count returns the number of attempts so far.
func (w *levelWorld) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.attempts
}

// begin adds the controller of config maps and runs the manager.
func (w *levelWorld) begin() {
	w.t.Helper()
	w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{})))
	w.run()
}

func (w *levelWorld) run() { w.group.Go("manager", w.manager.Run) }

func (w *levelWorld) create(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.must(w.server.Create(config(name)))
	}
}

// change updates an object at the server, as another client does.
func (w *levelWorld) change(name string) {
	w.t.Helper()
	object := config(name)
	object.Data = map[string]string{"changed": fmt.Sprint(time.Now().UnixNano())}
	w.must(w.server.Update(object))
}

func (w *levelWorld) level() cache.Level {
	synctest.Wait()
	return w.manager.Cache().Level()
}

// reach waits for a level, and fails the test if that takes longer than within.
func (w *levelWorld) reach(level cache.Level, within time.Duration) {
	w.t.Helper()
	started := time.Now()
	ctx, cancel := context.WithTimeout(w.t.Context(), within)
	defer cancel()
	if err := w.manager.Cache().Wait(ctx, level); err != nil {
		w.t.Fatalf("after %v it is not %v: %v; pending: %q", within, level, err, w.manager.Cache().Pending(level))
	}
	if took := time.Since(started); took > within {
		w.t.Fatalf("it was %v after %v, want %v", level, took, within)
	}
}

// below fails the test unless the current level is below the given one.
func (w *levelWorld) below(level cache.Level, when string) {
	w.t.Helper()
	if now := w.level(); now >= level {
		w.t.Fatalf("%s the level is %v, want below %v", when, now, level)
	}
}

// wait lets the given time pass, and then waits until all goroutines of the bubble are blocked.
func (w *levelWorld) wait(duration time.Duration) {
	<-time.After(duration)
	synctest.Wait()
}

// isTrue fails the test unless the cache holds what the server holds, and each object was last
// reconciled at its current version. That is the promise of Settled.
func (w *levelWorld) isTrue(when string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, read := range w.live() {
		object, found := cached[*corev1.ConfigMap](w.manager.Client(), types.NamespacedName{Namespace: "a", Name: name})
		held := ""
		if found {
			held = object.ResourceVersion
		}
		if held != read || w.read[name] != read {
			w.t.Errorf("%s %s is at version %q, the cache holds %q, and %q was reconciled", when, name, read, held, w.read[name])
		}
	}
}

// live returns the version of every config map at the server, by name. An object that was read
// and no longer exists has "".
func (w *levelWorld) live() map[string]string {
	w.t.Helper()
	versions := map[string]string{}
	for name := range w.read {
		versions[name] = ""
	}
	list := &corev1.ConfigMapList{}
	w.must(w.server.List(list))
	for _, object := range list.Items {
		versions[object.Name] = object.ResourceVersion
	}
	return versions
}

// retryAfterAll answers every request with 503 and a Retry-After of one second.
var retryAfterAll = sourcestest.Fault{Action: sourcestest.Refuse, Code: 503, RetryAfter: time.Second, Times: sourcestest.Always}

// bound is how long a level above Listed may last after the last confirmation by the server.
const bound = sources.DefaultMaxStaleness
