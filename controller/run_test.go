package controller_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// run runs a manager against an API server with one pod. When the pod has been reconciled the given
// number of times and the level is Settled, run calls check and stops the manager.
func run(t *testing.T, options controller.Options, times int, reconcile func(context.Context, *controller.Client) (time.Duration, error), check func()) {
	t.Helper()
	done := make(chan struct{})
	onResult := options.OnResult
	options.OnResult = func(result operators.Result) {
		if onResult != nil {
			onResult(result)
		}
		if times--; times == 0 {
			close(done)
		}
	}
	m := manager(t, onePod, options)
	add(t, m, func(ctx context.Context, _ operators.Request) (time.Duration, error) {
		return reconcile(ctx, m.Client())
	})
	group := lifecycle.New(t.Context())
	group.Go("manager", m.Run)
	<-done
	synctest.Wait() // The last attempt has ended any earlier calm.
	if err := m.Cache().Wait(t.Context(), cache.Settled); err != nil {
		t.Error(err)
	}
	check()
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// onePod is an API server with one pod, whose status can be patched. It answers a creation with a
// pod that has a name made by the server.
func onePod(request *http.Request) *http.Response {
	switch {
	case request.Method == http.MethodPatch:
		return says(http.StatusOK, pod("x", "5"))
	case request.Method == http.MethodPost:
		return says(http.StatusCreated, pod("made-by-the-server", "5"))
	case request.URL.Query().Get("watch") == "true":
		return watched(request, "5", pod("x", "4"))
	}
	list := &corev1.PodList{Items: []corev1.Pod{*pod("x", "4")}}
	list.ResourceVersion = "5"
	return says(http.StatusOK, list)
}

func TestAWriteIsToldByTheNameThatTheServerGave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes []operators.Write
		create := func(ctx context.Context, c *controller.Client) (time.Duration, error) {
			wanted := pod("", "")
			wanted.GenerateName = "made-by-"
			_, err := controller.Create(ctx, c, wanted)
			return 0, err
		}
		run(t, controller.Options{OnResult: func(result operators.Result) { writes = append(writes, result.Writes...) }}, 1, create, func() {
			if len(writes) != 1 || writes[0].Key.String() != "Pod a/made-by-the-server" || writes[0].Verb != "create" || writes[0].ResourceVersion != "5" {
				t.Errorf("the writes are %v", writes)
			}
		})
	})
}

func TestAControllerThatWasRefusedGetsNoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var results []operators.Result
		m := manager(t, onePod, controller.Options{OnResult: func(result operators.Result) { results = append(results, result) }})
		add(t, m, nothing)
		if err := m.Add("refused", nothing, controller.For(&corev1.Pod{}), controller.Owns(&corev1.Pod{}, controller.LabelSelector("app"))); err == nil {
			t.Fatal("it was not refused")
		}
		group := lifecycle.New(t.Context())
		group.Go("manager", m.Run)
		if err := m.Cache().Wait(t.Context(), cache.Settled); err != nil {
			t.Error(err)
		}
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		if len(results) != 1 || results[0].Controller != "pods" || results[0].Err != nil {
			t.Errorf("the results are %+v", results)
		}
	})
}

func TestOnlyAWriteOfACertainVersionIsSole(t *testing.T) {
	running := pod("x", "4")
	running.Status.Phase = corev1.PodRunning
	for name, test := range map[string]struct {
		write func(context.Context, *controller.Client) error
		sole  bool
	}{
		"a creation": {func(ctx context.Context, c *controller.Client) error {
			_, err := controller.Create(ctx, c, pod("x", ""))
			return err
		}, true},
		"an apply, which may change nothing": {func(ctx context.Context, c *controller.Client) error {
			_, err := controller.Apply[*corev1.Pod](ctx, c, controller.ApplyConfigurationOf(pod("x", "")), controller.Force())
			return err
		}, false},
		"a patch on condition of another version": {func(ctx context.Context, c *controller.Client) error {
			_, err := controller.PatchStatus(ctx, c, running, controller.MergeFrom(pod("x", "4")))
			return err
		}, true},
		"a patch that changed nothing": {func(ctx context.Context, c *controller.Client) error {
			same := running.DeepCopy()
			same.ResourceVersion = "5" // The version in the answer of onePod.
			_, err := controller.Patch(ctx, c, same, controller.StrategicMerge())
			return err
		}, false},
		"a raw patch, which may change nothing": {func(ctx context.Context, c *controller.Client) error {
			_, err := controller.Patch(ctx, c, running, controller.RawPatch(types.MergePatchType, []byte("{}")))
			return err
		}, false},
		"an unconditional patch": {func(ctx context.Context, c *controller.Client) error {
			_, err := controller.PatchStatus(ctx, c, running, controller.MergeFrom(pod("x", "4")), controller.Unconditional())
			return err
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var writes []operators.Write
				write := func(ctx context.Context, c *controller.Client) (time.Duration, error) { return 0, test.write(ctx, c) }
				run(t, controller.Options{OnResult: func(result operators.Result) { writes = append(writes, result.Writes...) }}, 1, write, func() {
					if len(writes) != 1 || writes[0].Exclusive != test.sole || writes[0].Asked.IsZero() || writes[0].Answered.Before(writes[0].Asked) {
						t.Errorf("the writes are %+v, want one with Exclusive %v and its times", writes, test.sole)
					}
				})
			})
		})
	}
}

func TestWhatIsClusterScopedIsWatchedWithoutANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paths := make(chan string, 100)
		m := manager(t, func(request *http.Request) *http.Response {
			if request.URL.Path != "/version" {
				paths <- request.URL.Path
			}
			return onePod(request)
		}, controller.Options{Namespaces: []string{"a"}})
		if err := m.Add("nodes", nothing, controller.For(&corev1.Node{}, controller.ClusterScoped())); err != nil {
			t.Fatal(err)
		}
		group := lifecycle.New(t.Context())
		group.Go("manager", m.Run)
		if path := <-paths; path != "/api/v1/nodes" {
			t.Errorf("it asked for %s", path)
		}
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}
