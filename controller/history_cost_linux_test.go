package controller

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

var historyCost = flag.Int("history-cost", 0, "number of pairs of measurements, each of 4 s, of the CPU with and without a history; 15 for the goal")

// changing is a manager whose objects change.
type changing struct {
	server  *sourcestest.Server
	manager *Manager
	objects []*corev1.ConfigMap
	changed int
}

func newChanging(t *testing.T, objects, history int) *changing {
	t.Helper()
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	made := &changing{server: server}
	made.manager, err = NewManager(server.Config(), scheme.Scheme, Options{Logger: slog.New(slog.DiscardHandler), MetricsAddress: "127.0.0.1:0", History: history})
	if err != nil {
		t.Fatal(err)
	}
	read := func(ctx context.Context, request operators.Request) (time.Duration, error) {
		for range 2 {
			if _, err := Get[*corev1.ConfigMap](ctx, made.manager.Client(), request.NamespacedName); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
	if err := made.manager.Add("configs", read, For(&corev1.ConfigMap{})); err != nil {
		t.Fatal(err)
	}
	for i := range objects {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("horse-%d", i)}, Data: map[string]string{"version": "0"}}
		if err := server.Create(object); err != nil {
			t.Fatal(err)
		}
		made.objects = append(made.objects, object)
	}
	runToTheEnd(t, made.manager)
	if err := made.manager.Cache().Wait(t.Context(), cache.Settled); err != nil {
		t.Fatal(err)
	}
	return made
}

// measure changes objects for a time, at a rate, and returns the CPU time for each attempt and the attempts in a second.
func (c *changing) measure(t *testing.T, window time.Duration, rate int) (each time.Duration, perSecond float64) {
	t.Helper()
	const tick = 5 * time.Millisecond
	attempts := func() int64 { return c.manager.introspection(0).Controllers[0].Attempts }
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	began, before, used := time.Now(), attempts(), cpuTime(t)
	for time.Since(began) < window {
		<-ticks.C
		for range int(time.Duration(rate) * tick / time.Second) {
			c.changed++
			object := c.objects[c.changed%len(c.objects)]
			object.Data = map[string]string{"version": fmt.Sprint(c.changed)}
			if err := c.server.Update(object); err != nil {
				t.Fatal(err)
			}
		}
	}
	made, spent := attempts()-before, cpuTime(t)-used
	return spent / time.Duration(max(1, made)), float64(made) / time.Since(began).Seconds()
}

// The process also has the API server and the one who changes objects. So the difference counts, which the history makes.
func TestAHistoryCostsAtMostThreePercentOfACoreAtTenThousandAttemptsASecond(t *testing.T) {
	if *historyCost == 0 {
		t.Skip("it takes a minute: see -history-cost")
	}
	const objects, rate, window = 5000, 10_000, 2 * time.Second
	with, without := newChanging(t, objects, 0), newChanging(t, objects, -1)
	with.measure(t, window, rate)
	without.measure(t, window, rate)
	var more, share []time.Duration
	for i := range *historyCost {
		measure := func(of *changing) time.Duration {
			each, perSecond := of.measure(t, window, rate)
			share = append(share, each)
			t.Logf("%v for each attempt, at %.0f attempts a second", each, perSecond)
			return each
		}
		var a, b time.Duration
		if i%2 == 0 {
			a, b = measure(with), measure(without)
		} else {
			b, a = measure(without), measure(with)
		}
		more = append(more, a-b)
	}
	slices.Sort(more)
	slices.Sort(share)
	median := more[len(more)/2]
	t.Logf("the history costs %v for each attempt, the median of %d pairs from %v to %v, of %v in all: %.1f %% of a core at 10,000 attempts a second",
		median, len(more), more[0], more[len(more)-1], share[len(share)/2], 100*(median*10_000).Seconds())
	if (median * 10_000).Seconds() > 0.03 {
		t.Errorf("the history costs %v for each attempt, allowed are 3 µs", median)
	}
}
