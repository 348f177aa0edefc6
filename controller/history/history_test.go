package history_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	configMaps = schema.GroupKind{Kind: "ConfigMap"}
	pegasus    = types.NamespacedName{Namespace: "default", Name: "pegasus"}
)

// world has the changes and results of one made-up controller.
type world struct {
	*history.History
	t       *testing.T
	states  map[string]*corev1.ConfigMap
	version int
}

func newWorld(t *testing.T, options history.Options) *world {
	t.Helper()
	made, err := history.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return &world{History: made, t: t, states: map[string]*corev1.ConfigMap{}, version: 100}
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// event returns the event of an object's next version, as a cause.
func (w *world) event(name string) streams.Cause {
	w.version++
	return streams.Cause{
		Type: streams.Applied, Key: streams.Key{GroupKind: configMaps, NamespacedName: types.NamespacedName{Namespace: "default", Name: name}},
		ResourceVersion: fmt.Sprint(w.version), Received: time.Now(),
	}
}

// cached makes the cache show events of an object.
func (w *world) cached(data map[string]string, causes ...streams.Cause) {
	last := causes[len(causes)-1]
	now := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: last.Key.Namespace, Name: last.Key.Name, ResourceVersion: last.ResourceVersion}, Data: data}
	change := streams.Change{Type: streams.Added, Key: last.Key, New: now, Causes: causes, Received: causes[0].Received}
	if old := w.states[last.Key.Name]; old != nil {
		change.Type, change.Old = streams.Updated, old
	}
	w.states[last.Key.Name] = now
	w.OnChanges([]streams.Change{change})
}

// result returns the result of an attempt that ends now.
func (w *world) result(ready, started time.Time, causes ...streams.Cause) operators.Result {
	return operators.Result{
		Request: operators.Request{Controller: "horses", NamespacedName: pegasus, Causes: causes}, Outcome: operators.Succeeded,
		Attempt: 1, Queued: started.Sub(ready), Started: started, Duration: time.Since(started),
	}
}

// last returns the last remembered attempt for pegasus.
func (w *world) last() history.Attempt {
	w.t.Helper()
	attempts, _ := w.Of("horses", pegasus)
	if len(attempts) == 0 {
		w.t.Fatal("no attempt is remembered")
	}
	return attempts[len(attempts)-1]
}

func TestAnAttemptIsExplainedFromItsEventToItsEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, history.Options{})
		w.cached(map[string]string{"horse": "arion"}, w.event("pegasus"))
		first := w.event("pegasus")
		pass(10 * time.Millisecond)
		second := w.event("pegasus") // The debounce joins the two.
		pass(10 * time.Millisecond)
		w.cached(map[string]string{"horse": "pegasus", "app.kubernetes.io/wings": "2"}, first, second)
		ready := time.Now()
		pass(30 * time.Millisecond) // All workers are busy.
		started := time.Now()
		pass(50 * time.Millisecond)
		result := w.result(ready, started, first, second)
		echo := w.event("child")
		result.Writes = []operators.Write{{Verb: "apply", Key: echo.Key, ResourceVersion: echo.ResourceVersion, Asked: started, Answered: time.Now()}}
		w.OnResults([]operators.Result{result})
		if got := w.last(); got.Writes[0].Seen != nil {
			t.Errorf("the echo was seen at %v, before it came", got.Writes[0].Seen)
		}
		pass(5 * time.Millisecond)
		w.cached(map[string]string{"new": "yes"}, echo)

		got := w.last()
		if got.ID != operators.AttemptID("horses", pegasus, started) || got.Outcome != "success" || got.Seconds != .05 {
			t.Errorf("the attempt is %+v", got)
		}
		want := []history.Wait{{For: history.WaitDebounce, Seconds: .02}, {For: history.WaitQueue, Seconds: .03}}
		if !reflect.DeepEqual(got.Waits, want) {
			t.Errorf("it waited for %v, want %v", got.Waits, want)
		}
		for _, cause := range got.Causes {
			if cause.Change != "updated" || !slices.Equal(cause.Fields, []string{"data[app.kubernetes.io/wings]", "data.horse"}) {
				t.Errorf("a cause is %+v", cause)
			}
		}
		if len(got.Causes) != 2 || got.Causes[0].ResourceVersion == got.Causes[1].ResourceVersion {
			t.Errorf("the causes are %+v", got.Causes)
		}
		if wrote := got.Writes[0]; wrote.Name != "child" || wrote.Seconds != .05 || wrote.Seen == nil || wrote.Seen.Sub(wrote.Answered) != 5*time.Millisecond {
			t.Errorf("the write is %+v", wrote)
		}
	})
}

func TestACauseNamesItsFieldManagersIfTheCacheKeepsThem(t *testing.T) {
	w := newWorld(t, history.Options{})
	entry := func(manager, fields string, second int) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(fields),
			Time: new(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC))),
		}
	}
	update := func(entries ...metav1.ManagedFieldsEntry) history.Cause {
		event := w.event("pegasus")
		w.cached(map[string]string{"version": event.ResourceVersion}, event)
		w.states["pegasus"].ManagedFields = entries // Nothing was worked out so far.
		w.OnResults([]operators.Result{w.result(time.Now(), time.Now(), event)})
		return w.last().Causes[0]
	}
	update(entry("kubectl", `{"f:data":{}}`, 1), entry("riders", `{"f:status":{}}`, 1))
	got := update(entry("kubectl", `{"f:data":{}}`, 1), entry("riders", `{"f:status":{}}`, 5), entry("hpa", `{"f:spec":{}}`, 6))
	want := []history.Manager{
		{Name: "riders", Operation: "Update", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		{Name: "hpa", Operation: "Update", Time: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)},
	}
	if !reflect.DeepEqual(got.Managers, want) || !slices.Equal(got.Fields, []string{"data.version"}) {
		t.Errorf("the cause is %+v, want the managers %+v", got, want)
	}

	// A field that another manager sets is taken away from the one that set it before.
	both := `{"f:data":{"f:horse":{},"f:rider":{}}}`
	update(entry("kubectl", both, 1))
	got = update(entry("kubectl", `{"f:data":{"f:horse":{}}}`, 1), entry("webhook", `{"f:data":{"f:rider":{}}}`, 7))
	if len(got.Managers) != 1 || got.Managers[0].Name != "webhook" {
		t.Errorf("a manager that lost a field is among %+v", got.Managers)
	}
	update(entry("kubectl", both, 1))
	if got = update(entry("kubectl", `{"f:data":{"f:horse":{}}}`, 1)); len(got.Managers) != 1 || got.Managers[0].Name != "kubectl" {
		t.Errorf("a field that its manager removed within a second is of %+v", got.Managers)
	}
}

func TestACauseThatAnotherAttemptWroteNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, history.Options{})
		wrote := w.event("pegasus")
		by := w.result(time.Now(), time.Now())
		by.Controller = "riders"
		by.Writes = []operators.Write{{Verb: "patch", Key: wrote.Key, ResourceVersion: wrote.ResourceVersion, Answered: time.Now()}}
		w.OnResults([]operators.Result{by})
		w.cached(nil, wrote)
		pass(time.Second)
		w.OnResults([]operators.Result{w.result(time.Now(), time.Now(), wrote)})
		if got, want := w.last().Causes[0].WrittenBy, "riders "+operators.AttemptID("riders", pegasus, by.Started); got != want {
			t.Errorf("it was written by %q, want %q", got, want)
		}
	})
}

func TestTheWaitsOfARetryAreTheRunningAttemptAndTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, history.Options{})
		started := time.Now()
		pass(100 * time.Millisecond)
		failed := w.result(started, started)
		failed.Outcome, failed.Err, failed.RequeueAfter = operators.Failed, errors.New("no stable"), time.Second
		w.OnResults([]operators.Result{failed})
		pass(time.Second)
		retry := w.result(time.Now(), time.Now())
		retry.Attempt = 2
		w.OnResults([]operators.Result{retry})
		attempts, _ := w.Of("horses", pegasus)
		if got := attempts[0]; got.Error != "no stable" || got.Outcome != "error" || got.Again != 1 {
			t.Errorf("the failure is %+v", got)
		}
		if got, want := attempts[1].Waits, []history.Wait{{For: history.WaitBackoff, Seconds: 1}}; !reflect.DeepEqual(got, want) {
			t.Errorf("the retry waited for %v, want %v", got, want)
		}

		event := w.event("pegasus") // It comes while an attempt runs.
		started = time.Now()
		w.cached(nil, event)
		pass(300 * time.Millisecond)
		w.OnResults([]operators.Result{w.result(started, started)})
		w.OnResults([]operators.Result{w.result(time.Now(), time.Now(), event)})
		if got, want := w.last().Waits, []history.Wait{{For: history.WaitRunning, Seconds: .3}}; !reflect.DeepEqual(got, want) {
			t.Errorf("the next attempt waited for %v, want %v", got, want)
		}
	})
}

func TestAnAttemptBehindTheGateSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, history.Options{})
		event := w.event("pegasus")
		w.cached(nil, event)
		pass(2 * time.Second)
		w.OnResults([]operators.Result{w.result(time.Now(), time.Now(), event)})
		if got, want := w.last().Waits, []history.Wait{{For: history.WaitGate, Seconds: 2}}; !reflect.DeepEqual(got, want) {
			t.Errorf("it waited for %v, want %v", got, want)
		}
	})
}

// The enemy is busy: many objects, many changes, and long errors.
func TestTheMemoryStaysWithinItsBoundAndTheNewestStays(t *testing.T) {
	w := newWorld(t, history.Options{Bytes: 64 << 10})
	for i := range 3000 {
		event := w.event(fmt.Sprint("horse-", i%700))
		w.cached(map[string]string{"i": fmt.Sprint(i)}, event)
		result := w.result(time.Now(), time.Now(), event)
		result.NamespacedName = event.Key.NamespacedName
		result.Err = errors.New(strings.Repeat("x", i))
		result.Writes = []operators.Write{{Key: event.Key, ResourceVersion: event.ResourceVersion}}
		w.OnResults([]operators.Result{result})
		if bytes := w.Bytes(); bytes > 64<<10 {
			t.Fatalf("it takes %d bytes", bytes)
		}
	}
	attempts, _ := w.Of("horses", types.NamespacedName{Namespace: "default", Name: "horse-199"})
	if len(attempts) == 0 || attempts[len(attempts)-1].Causes[0].ResourceVersion != "3100" {
		t.Errorf("of the newest object, %+v are remembered", attempts)
	}
	if attempts, _ := w.Of("horses", types.NamespacedName{Namespace: "default", Name: "horse-300"}); len(attempts) != 0 {
		t.Errorf("of an old object, %d are remembered", len(attempts))
	}
}

func TestAnObjectThatIsReconciledAllTheTimeLeavesRoomForOthers(t *testing.T) {
	w := newWorld(t, history.Options{})
	quiet := w.event("quiet")
	w.cached(nil, quiet)
	result := w.result(time.Now(), time.Now(), quiet)
	result.Name = "quiet"
	w.OnResults([]operators.Result{result})
	for i := range 5000 {
		busy := w.event("pegasus")
		w.cached(map[string]string{"i": fmt.Sprint(i)}, busy)
		w.OnResults([]operators.Result{w.result(time.Now(), time.Now(), busy)})
	}
	attempts, _ := w.Of("horses", types.NamespacedName{Namespace: "default", Name: "quiet"})
	if len(attempts) != 1 || attempts[0].Causes[0].Change != "added" {
		t.Errorf("of the quiet object, %+v are remembered", attempts)
	}
	if busy, _ := w.Of("horses", pegasus); len(busy) != 16 {
		t.Errorf("of the busy object, %d are remembered", len(busy))
	}
}

func TestFieldsArePathsWithoutValues(t *testing.T) {
	before := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "old-value"}}, Data: map[string][]byte{"token": []byte("hidden-one"), "gone": []byte("x")}}
	after := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"acme.io/x"}}, Data: map[string][]byte{"token": []byte("hidden-two")}}
	paths, err := history.Fields(before, after)
	if want := []string{"data.gone", "data.token", "metadata.finalizers", "metadata.labels"}; err != nil || !slices.Equal(paths, want) {
		t.Errorf("the paths are %v, %v, want %v", paths, err, want)
	}
	if paths, err := history.Fields(before, before); err != nil || len(paths) != 0 {
		t.Errorf("an object differs from itself in %v, %v", paths, err)
	}
	if _, err := history.Fields(map[string]any{"hidden": func() {}}, nil); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("the error is %v", err)
	}
}

func TestAHistoryOfAWrongSizeIsRefused(t *testing.T) {
	for _, bytes := range []int{-1, 1000, 2 << 30} {
		if _, err := history.New(history.Options{Bytes: bytes}); err == nil || !strings.Contains(err.Error(), "Bytes is") {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}

func TestAReaderLearnsOfTheNextAttempt(t *testing.T) {
	w := newWorld(t, history.Options{})
	_, updated := w.Of("horses", pegasus)
	select {
	case <-updated:
		t.Error("it is told of an attempt before there is one")
	default:
	}
	w.OnResults([]operators.Result{w.result(time.Now(), time.Now())})
	<-updated
	if attempts, _ := w.Of("horses", pegasus); len(attempts) != 1 {
		t.Errorf("%d attempts are remembered", len(attempts))
	}
}

// BenchmarkFollow takes one change, and an attempt with a write, for each operation.
func BenchmarkFollow(b *testing.B) {
	made, err := history.New(history.Options{})
	if err != nil {
		b.Fatal(err)
	}
	names := make([]types.NamespacedName, 5000)
	for i := range names {
		names[i] = types.NamespacedName{Namespace: "default", Name: fmt.Sprint("horse-", i)}
	}
	old, now := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	changes, results := make([]streams.Change, 1), make([]operators.Result, 1)
	b.ReportAllocs()
	for i := range b.N {
		name, version := names[i%len(names)], fmt.Sprint(i)
		key := streams.Key{GroupKind: configMaps, NamespacedName: name}
		causes := []streams.Cause{{Type: streams.Applied, Key: key, ResourceVersion: version}}
		changes[0] = streams.Change{Type: streams.Updated, Key: key, Old: old, New: now, Causes: causes}
		made.OnChanges(changes)
		results[0] = operators.Result{
			Request: operators.Request{Controller: "horses", NamespacedName: name, Causes: causes},
			Writes:  []operators.Write{{Key: key, ResourceVersion: version}},
		}
		made.OnResults(results)
	}
}
