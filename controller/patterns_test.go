package controller

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// syncBuffer is a buffer for a log.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// patternWorld is a manager with one controller of ConfigMaps, and what happens to its object.
type patternWorld struct {
	t        *testing.T
	server   *sourcestest.Server
	manager  *Manager
	log      syncBuffer
	attempts atomic.Int64 // calls of the reconciler
	results  chan operators.Result
}

// newPatternWorld runs a manager. reconcile is called for default/pegasus.
func newPatternWorld(t *testing.T, reconcile func(ctx context.Context, c *Client, object *corev1.ConfigMap) error) *patternWorld {
	t.Helper()
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &patternWorld{t: t, server: server, results: make(chan operators.Result, 10000)}
	w.manager, err = NewManager(server.Config(), scheme.Scheme, Options{
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)), MetricsAddress: "127.0.0.1:0",
		OnResult: func(result operators.Result) { w.results <- result },
	})
	if err != nil {
		t.Fatal(err)
	}
	err = w.manager.Add("horses", func(ctx context.Context, request operators.Request) (time.Duration, error) {
		w.attempts.Add(1)
		object, err := Get[*corev1.ConfigMap](ctx, w.manager.Client(), request.NamespacedName)
		if err != nil {
			return 0, IgnoreNotFound(err)
		}
		return 0, reconcile(ctx, w.manager.Client(), object)
	}, For(&corev1.ConfigMap{}))
	if err != nil {
		t.Fatal(err)
	}
	runToTheEnd(t, w.manager)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pegasus"}, Data: map[string]string{"horse": "arion"}}
	if err := server.Create(object); err != nil {
		t.Fatal(err)
	}
	return w
}

// until waits for results until one is wanted.
func (w *patternWorld) until(what string, wanted func(result operators.Result) bool) {
	w.t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case result := <-w.results:
			if wanted(result) {
				return
			}
		case <-late:
			w.t.Fatalf("it never came to this: %s; the log is\n%s", what, w.log.String())
		}
	}
}

// patterns returns the value of the metric.
func (w *patternWorld) patterns(pattern string) float64 {
	w.t.Helper()
	families, err := w.manager.Registry().Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "bellerophon_patterns" && metric.GetLabel()[1].GetValue() == pattern {
				return metric.GetGauge().GetValue()
			}
		}
	}
	w.t.Fatal("there is no metric")
	return 0
}

// ride sets the horse of an object.
func ride(ctx context.Context, c *Client, object *corev1.ConfigMap, horse string) error {
	changed := object.DeepCopy()
	changed.Data = map[string]string{"horse": horse}
	_, err := Patch(ctx, c, changed, MergeFrom(object))
	return err
}

func TestAFightIsFoundReportedAndSlowedDownAndTheLastStateCounts(t *testing.T) {
	w := newPatternWorld(t, func(ctx context.Context, c *Client, object *corev1.ConfigMap) error {
		if object.Data["horse"] == "pegasus" {
			return nil
		}
		return ride(ctx, c, object, "pegasus")
	})
	began := time.Now()
	rounds := 0
	opponent := func(result operators.Result) {
		if len(result.Writes) == 0 {
			return
		}
		rounds++
		theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pegasus"}}
		if err := w.server.Get(theirs); err != nil {
			t.Fatal(err)
		}
		theirs.Data["horse"] = "arion"
		if err := w.server.Update(theirs); err != nil {
			t.Fatal(err)
		}
	}
	w.until("the fight is found", func(result operators.Result) bool {
		opponent(result)
		return strings.Contains(w.log.String(), "pattern=fight")
	})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it is found after %v", took)
	}
	said := w.log.String()
	// The debounce may have joined both sides. Then the fields are not known.
	for _, want := range []string{"fight: another client", "ConfigMap default/pegasus", " to and fro, 5 times", "controller=horses", "namespace=default name=pegasus"} {
		if !strings.Contains(said, want) {
			t.Errorf("the log does not say %q:\n%s", want, said)
		}
	}
	if count := w.patterns("fight"); count != 1 {
		t.Errorf("the metric is %v", count)
	}
	before := w.attempts.Load()
	end := time.Now().Add(1500 * time.Millisecond)
	w.until("a second has passed", func(result operators.Result) bool {
		opponent(result)
		return time.Now().After(end)
	})
	if more := w.attempts.Load() - before; more > 12 {
		t.Errorf("in a second and a half, the reconciler was called %d times", more)
	}
	// The opponent has stopped. What it wrote last is still restored.
	w.until("the last state is restored", func(operators.Result) bool {
		now := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pegasus"}}
		return w.server.Get(now) == nil && now.Data["horse"] == "pegasus"
	})
}

func TestAHotLoopIsFoundReportedAndSlowedDown(t *testing.T) {
	count := 0
	w := newPatternWorld(t, func(ctx context.Context, c *Client, object *corev1.ConfigMap) error {
		count++
		return ride(ctx, c, object, strings.Repeat("x", count%7))
	})
	w.until("the loop is found", func(operators.Result) bool { return strings.Contains(w.log.String(), "pattern=hot_loop") })
	if said := w.log.String(); !strings.Contains(said, "hot loop: the controller horses writes ConfigMap default/pegasus because of its own last write, 50 times") {
		t.Errorf("the log says\n%s", said)
	}
	if count := w.patterns("hot_loop"); count != 1 {
		t.Errorf("the metric is %v", count)
	}
	before := w.attempts.Load()
	end := time.Now().Add(1500 * time.Millisecond)
	w.until("a second has passed", func(operators.Result) bool { return time.Now().After(end) })
	if more := w.attempts.Load() - before; more > 6 {
		t.Errorf("in a second and a half, the reconciler was called %d times", more)
	}
}

func TestAStalledObjectHasAConditionUntilThePatternEnds(t *testing.T) {
	var conditions []metav1.Condition
	if again := SetStalled(t.Context(), &conditions, 1); again != 0 || len(conditions) != 0 {
		t.Errorf("outside of a pattern it sets %v, and asks for %v", conditions, again)
	}
	found := history.Finding{Pattern: history.Fight, Controller: "horses", Written: streams.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}}, Fields: []string{"data.horse"}, Managers: []string{"kubectl"}}
	stalled := func(rounds int) context.Context {
		found.Rounds, found.Last = rounds, time.Now()
		found.Since = found.Last.Add(-10 * time.Second)
		stalled := stalledBy(&found, time.Minute)
		if stalled.Pattern != "fight" || stalled.Rounds != rounds || stalled.Written != found.Written || stalled.Fields[0] != "data.horse" || stalled.Managers[0] != "kubectl" || stalled.Last-stalled.Since != int64(10*time.Second) {
			t.Errorf("the recording gets %+v", stalled)
		}
		return context.WithValue(t.Context(), stalledKey{}, stalled)
	}
	if again := SetStalled(stalled(5), &conditions, 3); again != time.Minute || len(conditions) != 1 {
		t.Fatalf("it sets %v, and asks for %v", conditions, again)
	}
	got := conditions[0]
	if got.Type != "Stalled" || got.Status != metav1.ConditionTrue || got.Reason != "Fight" || got.ObservedGeneration != 3 || !strings.Contains(got.Message, "another client (kubectl) and the controller horses change") {
		t.Errorf("it sets %+v", got)
	}
	SetStalled(stalled(6), &conditions, 3)
	if conditions[0] != got {
		t.Errorf("another round changes the condition from %+v to %+v", got, conditions[0])
	}
	if again := SetStalled(t.Context(), &conditions, 3); again != 0 || len(conditions) != 0 {
		t.Errorf("after the end it leaves %v, and asks for %v", conditions, again)
	}
}
