package controller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// heirs maps Secrets to ConfigMaps: a change of the label heir concerns the former heir and the new one. It
// records what it is called with, and which requests result.
type heirs struct {
	*levelWorld

	mu       sync.Mutex
	panics   int
	calls    []string // old>new
	requests []string
}

func (h *heirs) concerned(ctx context.Context, c *controller.Client, change controller.ChangeOf[*corev1.Secret]) (names []types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	heirOf := func(secret *corev1.Secret) string {
		if secret == nil {
			return "-"
		}
		return secret.Labels["heir"]
	}
	before, after := heirOf(change.Old), heirOf(change.New)
	call := before + ">" + after
	if ctx.Err() != nil || len(change.Causes) == 0 {
		h.t.Errorf("for %s the context is %v and the causes are %v", call, ctx.Err(), change.Causes)
	}
	if h.panics > 0 {
		h.panics--
		h.calls = append(h.calls, call+" panics")
		panic("not now")
	}
	if h.calls = append(h.calls, call); before == after {
		return nil
	}
	for _, name := range []string{before, after} {
		if _, err := controller.Get[*corev1.ConfigMap](ctx, c, object(name)); err == nil {
			names = append(names, object(name))
		}
	}
	return names
}

func (h *heirs) reconcile(_ context.Context, request operators.Request) (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, request.Name)
	return 0, nil
}

// want fails the test unless the function was called with these changes, and these requests resulted.
func (h *heirs) want(when, calls, requests string) {
	h.t.Helper()
	h.wait(time.Minute)
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.requests)
	if strings.Join(h.calls, ", ") != calls || strings.Join(h.requests, " ") != requests {
		h.t.Errorf("%s the calls are %q and the requests %q, want %q and %q", when, h.calls, h.requests, calls, requests)
	}
	h.calls, h.requests = nil, nil
}

// bequeath returns a Secret whose heir is the given object.
func bequeath(heir, note string) *corev1.Secret {
	made := secret("s")
	made.Labels, made.Annotations = map[string]string{"heir": heir}, map[string]string{"note": note}
	return made
}

// inHeirs runs test with the ConfigMaps x and y, whose controller watches Secrets.
func inHeirs(t *testing.T, test func(h *heirs)) {
	t.Helper()
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		h := &heirs{levelWorld: w}
		w.create("x", "y")
		w.must(w.manager.Add("configs", h.reconcile, controller.For(&corev1.ConfigMap{}),
			controller.Watches(&corev1.Secret{}, nil, controller.MapChange(h.concerned))))
		w.run()
		h.want("at the start", "", "x y")
		test(h)
		w.reach(cache.Converged, time.Minute)
	})
}

func TestAMapFunctionGetsBothStatesOfAnObjectAndTheClient(t *testing.T) {
	inHeirs(t, func(h *heirs) {
		h.must(h.server.Create(bequeath("x", "")))
		h.want("after a creation", "->x", "x")
		h.must(h.server.Update(bequeath("x", "changed")))
		h.want("after a change of something else", "x>x", "")
		h.must(h.server.Update(bequeath("y", "changed")))
		h.want("after a change of the heir", "x>y", "x y")
		h.must(h.server.Update(bequeath("nobody", "changed")))
		h.want("after a change to an heir that does not exist", "y>nobody", "y")
		h.must(h.server.Update(bequeath("x", "changed")))
		h.want("after a change back", "nobody>x", "x")
		h.must(h.server.Delete(secret("s")))
		h.want("after a deletion", "x>-", "x")
		h.must(h.server.Create(bequeath("x", "")))
		h.must(h.server.Delete(secret("s")))
		h.must(h.server.Create(bequeath("y", "")))
		h.wait(time.Minute)
		h.mu.Lock()
		defer h.mu.Unlock()
		// The debounce may coalesce the changes.
		if slices.Sort(h.requests); !slices.Equal(slices.Compact(h.requests), []string{"x", "y"}) {
			t.Errorf("after a creation, a deletion and a creation at once the requests are %q", h.requests)
		}
	})
}

func TestAMapFunctionOfBothStatesThatPanicsOnceLosesNoEvent(t *testing.T) {
	inHeirs(t, func(h *heirs) {
		panicking := func(times int) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.panics = times
		}
		panicking(1)
		h.must(h.server.Create(bequeath("x", "")))
		h.want("after a creation", "->x panics, ->x", "x")
		panicking(2)
		h.must(h.server.Update(bequeath("y", "")))
		h.want("after a change", "x>y panics, x>y panics, x>y", "x y")
		// The second change comes during the backoff of the first one.
		panicking(1)
		h.must(h.server.Update(bequeath("x", "")))
		h.wait(10 * time.Millisecond)
		h.must(h.server.Update(bequeath("nobody", "")))
		h.want("after two changes", "y>x panics, x>nobody, y>x", "x x y")
		panicking(1)
		h.must(h.server.Delete(secret("s")))
		h.want("after a deletion", "nobody>- panics, nobody>-", "")
	})
}

func TestAMapFunctionOfBothStatesMustFitTheKind(t *testing.T) {
	const wanted = "MapChange has a function for *v1.Secret, but the kind is kept as "
	ofSecrets := controller.MapChange(func(context.Context, *controller.Client, controller.ChangeOf[*corev1.Secret]) []types.NamespacedName {
		return nil
	})
	ofAny := controller.MapChange(func(context.Context, *controller.Client, controller.ChangeOf[streams.Object]) []types.NamespacedName {
		return nil
	})
	none := controller.MapChange[*corev1.Secret](nil)
	for want, of := range map[string]controller.Option{
		wanted + "*v1.ConfigMap":              controller.Watches(&corev1.ConfigMap{}, nil, ofSecrets),
		wanted + "*sources.Metadata":          controller.Watches(&controller.Metadata[corev1.Secret]{}, nil, ofSecrets),
		"MapChange has no function; give one": controller.Watches(&corev1.Secret{}, nil, none),
	} {
		if err := manager(t, silent, controller.Options{}).Add("x", nothing, of); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
	for _, fits := range []controller.Option{
		controller.Watches(&corev1.Secret{}, nil, ofSecrets),
		controller.Watches(&corev1.Secret{}, nil, ofAny),
		controller.Watches(&controller.Metadata[corev1.Secret]{}, nil, ofAny),
	} {
		if err := manager(t, silent, controller.Options{}).Add("x", nothing, fits); err != nil {
			t.Error(err)
		}
	}
}

// The watch of a kind is limited by a label, and the object leaves and enters the selection.
func TestAMapFunctionSeesAnObjectThatLeavesItsSelectorAsRemoved(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		var calls []string
		seen := func(_ context.Context, _ *controller.Client, change controller.ChangeOf[*corev1.Secret]) []types.NamespacedName {
			calls = append(calls, fmt.Sprint(change.Old != nil, change.New != nil))
			return nil
		}
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{}),
			controller.Watches(&corev1.Secret{}, nil, controller.MapChange(seen), controller.LabelSelector("heir=x"))))
		w.must(w.server.Create(bequeath("x", "")))
		w.run()
		w.reach(cache.Converged, time.Minute)
		w.must(w.server.Update(bequeath("y", "")))
		w.wait(time.Minute)
		w.must(w.server.Update(bequeath("x", "")))
		w.wait(time.Minute)
		if got := strings.Join(calls, ", "); got != "false true, true false, false true" {
			t.Errorf("the states that are set are %s", got)
		}
	})
}

// An own write is a change of the states that the watch has reported.
func TestAMapFunctionSeesTheDifferenceThatAnOwnWriteMakes(t *testing.T) {
	inHeirs(t, func(h *heirs) {
		made, err := controller.Create(h.t.Context(), h.manager.Client(), bequeath("x", ""))
		h.must(err)
		h.want("after an own creation", "->x", "x")
		changed := made.DeepCopy()
		changed.Labels["heir"] = "y"
		_, err = controller.Update(h.t.Context(), h.manager.Client(), changed)
		h.must(err)
		h.want("after an own update", "x>y", "x y")
		h.must(controller.Delete(h.t.Context(), h.manager.Client(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}}))
		h.want("after an own deletion", "y>-", "y")
	})
}
