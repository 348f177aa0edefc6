package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryUsualVariantIsReadBackFromItsText(t *testing.T) {
	for _, name := range Names() {
		for _, full := range []bool{false, true} {
			usual, err := Parse(name, full)
			if err != nil || len(usual) == 0 || !usual[0].Swept {
				t.Fatalf("Parse(%s) = %v, %v", name, usual, err)
			}
			for _, chosen := range usual {
				again, err := Parse(name+":"+strings.ReplaceAll(chosen.String(), ",", ":"), !full)
				if err != nil || len(again) != 1 || again[0].Variant != chosen.Variant {
					t.Errorf("%s %s was read as %v: %v", name, chosen, again, err)
				}
			}
		}
	}
}

func TestEachScenarioTakesANetworkAndNamesItOnlyIfThereIsOne(t *testing.T) {
	for _, name := range Names() {
		near, err := Parse(name, false)
		if err != nil || near[0].RoundTrip() != 0 || strings.Contains(near[0].String(), "rtt") {
			t.Errorf("%s: %s has a round trip of %v: %v", name, near[0], near[0].RoundTrip(), err)
		}
		far, err := Parse(name+":rtt=50", false)
		if err != nil || far[0].RoundTrip() != 50*time.Millisecond || far[0].String() != near[0].String()+",rtt=50" {
			t.Errorf("%s: %v: %v", name, far, err)
			continue
		}
		again, err := Parse(name+":"+strings.ReplaceAll(far[0].String(), ",", ":"), false)
		if err != nil || again[0].Variant != far[0].Variant {
			t.Errorf("%s was read back as %v: %v", far[0], again, err)
		}
	}
	if _, err := Parse("burst:rtt=1001", false); err == nil || !strings.Contains(err.Error(), `rtt of burst is "1001"; allowed is a number from 0 to 1000`) {
		t.Errorf("a round trip that is too long: %v", err)
	}
}

func TestASizeStandsForAllScenariosThatHaveIt(t *testing.T) {
	for _, size := range []Size{Tiny, Small, Medium} {
		sized, err := Parse(string(size), false)
		if err != nil || len(sized) < 5 {
			t.Fatalf("Parse(%s) = %v, %v", size, sized, err)
		}
		for _, chosen := range sized {
			again, err := Parse(chosen.Name+":"+strings.ReplaceAll(chosen.String(), ",", ":"), false)
			if err != nil || again[0].Variant != chosen.Variant {
				t.Errorf("%s %s was read as %v: %v", chosen.Name, chosen, again, err)
			}
		}
	}
	if both, err := Parse("burst:n=7, idle", false); err != nil || len(both) != 2 || both[0].N != 7 || both[1].Name != "idle" {
		t.Errorf("of two scenarios, Parse returns %v: %v", both, err)
	}
}

func TestEveryGoalHasARowOfItsOwnAndATarget(t *testing.T) {
	rows := map[int]string{}
	for _, s := range All() {
		for _, goal := range s.Goals {
			if other := rows[goal.Row]; goal.Row > 0 && other != "" {
				t.Errorf("%s and %s have row %d", other, goal.Name, goal.Row)
			}
			rows[goal.Row] = goal.Name
			if len(goal.Targets) == 0 {
				t.Errorf("%s has no target", goal.Name)
			}
			for _, name := range goal.Else {
				if Named(name).Name == "" {
					t.Errorf("%s names the scenario %q, which does not exist", goal.Name, name)
				}
			}
		}
	}
}

func TestAScenarioThatIsNotThereIsToldWithThoseThatAre(t *testing.T) {
	for text, want := range map[string]string{
		"flood":            `there is no scenario "flood"; allowed are burst, start`,
		"burst:n=0":        `n of burst is "0"; allowed is a number from 1 to 100000`,
		"burst:m=3":        `scenario burst has no "m"; allowed are n`,
		"steady:load=much": `load of steady is "much"; allowed is a number from 1 to 100`,
	} {
		if _, err := Parse(text, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%s): %v, want %q", text, err, want)
		}
	}
}

func name(text string) types.NamespacedName { return types.NamespacedName{Name: text} }

func TestABoardTellsWhenAllAreAsFarAsWantedWhicheverComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, start := newBoard(), time.Now()
		b.mark(name("early"), 3, start)
		b.mark(name("early"), 2, start.Add(time.Second)) // A smaller number is ignored.
		b.want(name("early"), 3)
		b.want(name("late"), 2)
		b.want(name("deleted"), 1)
		var missing []int
		group := lifecycle.New(t.Context())
		group.Go("await", func(ctx context.Context) error {
			return b.await(ctx, func(n int) { missing = append(missing, n) })
		})
		synctest.Wait()
		b.mark(name("late"), 1, start.Add(time.Second))
		synctest.Wait()
		b.mark(name("late"), 5, start.Add(2*time.Second))
		synctest.Wait()
		b.gone(name("deleted"))
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		if want := []int{2, 1, 0}; !slices.Equal(missing, want) {
			t.Errorf("missing were %v, want %v", missing, want)
		}
		for text, want := range map[string]time.Duration{"early": 0, "late": 2 * time.Second} {
			if at, reached := b.at(name(text)); !reached || at.Sub(start) != want {
				t.Errorf("%s was reached after %v: %v, want %v", text, at.Sub(start), reached, want)
			}
		}
		if _, reached := b.at(name("deleted")); reached {
			t.Error("an object that was deleted before it was finished counts as finished")
		}
	})
}

func TestABoardSaysWhatIsMissingWhenTimeIsOver(t *testing.T) {
	b := newBoard()
	b.want(name("a"), 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("too late"))
	if err := b.await(ctx, func(int) {}); err == nil || !strings.Contains(err.Error(), "1 objects are missing, among them /a: too late") {
		t.Errorf("the error is %v", err)
	}
}

func TestAnOpenLoadIsSentWhenItIsDueThoughNothingIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, answer := time.Now(), make(chan struct{})
		var mu sync.Mutex
		var sent, due []time.Duration
		group := lifecycle.New(t.Context())
		group.Go("load", func(ctx context.Context) error {
			return atRate(ctx, 4, 5, func(_ context.Context, _ int, at time.Time) error {
				mu.Lock()
				sent, due = append(sent, time.Since(start)), append(due, at.Sub(start))
				mu.Unlock()
				<-answer
				return nil
			})
		})
		time.AfterFunc(time.Minute, func() { close(answer) })
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		quarter := time.Second / 4
		want := []time.Duration{0, quarter, 2 * quarter, 3 * quarter, 4 * quarter}
		if !slices.Equal(sent, want) || !slices.Equal(due, want) {
			t.Errorf("sent after %v, due after %v, want %v", sent, due, want)
		}
	})
}

func TestAClosedLoadStopsAtTheFirstFailure(t *testing.T) {
	broken := errors.New("broken")
	var done counter
	err := asFastAsPossible(t.Context(), 1000, func(ctx context.Context, i int) error {
		done.next()
		if i == 3 {
			return broken
		}
		if i > 3 {
			<-ctx.Done() // Wait until the failure has cancelled the load.
			return ctx.Err()
		}
		return nil
	})
	if !errors.Is(err, broken) || done.done.Load() > 2*inFlight {
		t.Errorf("%v after %d requests, want the failure early", err, done.done.Load())
	}
	var all counter
	if err := asFastAsPossible(t.Context(), 100, func(context.Context, int) error { all.next(); return nil }); err != nil || all.done.Load() != 100 {
		t.Errorf("%v after %d requests, want all 100", err, all.done.Load())
	}
}

func TestOnlyAStatusOfTheGenerationIsFinished(t *testing.T) {
	finished := func() *v1.BellerophonSimple {
		return &v1.BellerophonSimple{
			ObjectMeta: metav1.ObjectMeta{Generation: 2},
			Spec:       v1.BellerophonSimpleSpec{Replicas: new(int32(1))},
			Status: v1.BellerophonSimpleStatus{ObservedGeneration: 2, Replicas: 1, ReadyReplicas: 1, Conditions: []metav1.Condition{
				{Type: v1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 2},
			}},
		}
	}
	if !isFinished(finished()) {
		t.Error("a finished status is not finished")
	}
	for text, spoil := range map[string]func(*v1.BellerophonSimple){
		"old":                 func(h *v1.BellerophonSimple) { h.Status.ObservedGeneration = 1 },
		"old condition":       func(h *v1.BellerophonSimple) { h.Status.Conditions[0].ObservedGeneration = 1 },
		"not ready":           func(h *v1.BellerophonSimple) { h.Status.Conditions[0].Status = metav1.ConditionFalse },
		"without a condition": func(h *v1.BellerophonSimple) { h.Status.Conditions = nil },
		"servers missing":     func(h *v1.BellerophonSimple) { h.Status.ReadyReplicas = 0 },
	} {
		hero := finished()
		spoil(hero)
		if isFinished(hero) {
			t.Errorf("a status that is %s is finished", text)
		}
	}
}

func TestWhatAContenderDidFirstAndLastSinceItWasStarted(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	call := func(verb string, from, to int) proxy.Call {
		return proxy.Call{Verb: verb, Resource: "sheroes", At: at(from), End: at(to)}
	}
	record := proxy.Record{
		Calls: []proxy.Call{call("create", -2, -1), call("patch", 5, 6), call("create", 3, 4), call("list", 1, 7), call("watch", 7, 50)},
		Events: []proxy.Event{
			{Type: "ADDED", At: at(8)}, {Type: "BOOKMARK", At: at(9)},
		},
	}
	measured := rundir.Measured{}
	addStart(measured, record, start)
	if want := (rundir.Measured{rundir.FirstWrite: 3, rundir.Settled: 8}); fmt.Sprint(measured) != fmt.Sprint(want) {
		t.Errorf("measured %v, want %v", measured, want)
	}
	measured = rundir.Measured{}
	addStart(measured, proxy.Record{}, start)
	if len(measured) != 0 {
		t.Errorf("measured %v of nothing", measured)
	}
}

func TestLatenciesLeaveOutWhatWasDeletedBeforeAndSayHowMany(t *testing.T) {
	b, start := newBoard(), time.Now()
	since := map[types.NamespacedName]time.Time{}
	for i := range 4 {
		one := object("a", i)
		since[one] = start.Add(time.Duration(i) * time.Second)
		if i < 3 {
			b.want(one, 1)
			b.mark(one, 1, start.Add(4*time.Second))
		}
	}
	measured, samples := rundir.Measured{}, rundir.Samples{}
	addLatencies(measured, samples, b, start, since)
	want := rundir.Measured{rundir.Objects: 3, rundir.Unfinished: 1, rundir.Converge: 4, rundir.ReadyMedian: 3}
	if fmt.Sprint(measured) != fmt.Sprint(want) {
		t.Errorf("measured %v, want %v", measured, want)
	}
	if bars := samples[rundir.Ready99].Bars(); len(bars) != 3 || bars[0].Latency.Round(time.Second/100) != 2*time.Second || bars[2].Latency.Round(time.Second/100) != 4*time.Second {
		t.Errorf("the samples are %v, want 2, 3 and 4 s", bars)
	}
}

func TestAChildIsRepairedOnceNothingIsLeftOfItsDrift(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "n", Name: "a", ResourceVersion: "7"}
	servers := func(replicas int32) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas}}
	}
	states := map[string]struct{ spoilt, whole runtime.Object }{
		"configmaps": {
			&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"winged_horse_name": drifted}},
			&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"winged_horse_name": "pegasus"}},
		},
		"services":     {&corev1.Service{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{PublishNotReadyAddresses: true}}},
		"statefulsets": {servers(driftedReplicas), servers(1)},
	}
	for _, child := range children {
		b, now := newBoard(), time.Now()
		key := types.NamespacedName{Namespace: "n", Name: child.resource + "/a"}
		b.want(key, 7)
		child.repairs(b)(states[child.resource].spoilt, now)
		if _, repaired := b.at(key); repaired {
			t.Errorf("a drift of %s counts as repaired", child.resource)
		}
		child.repairs(b)(states[child.resource].whole, now)
		if _, repaired := b.at(key); !repaired {
			t.Errorf("a repair of %s does not count", child.resource)
		}
	}
}

// stubborn is a contender that does not end until it is killed.
type stubborn struct{ done chan struct{} }

var errKilled = errors.New("it was killed")

func (s stubborn) PID() int                     { return 1 }
func (s stubborn) Ready(context.Context) error  { return nil }
func (s stubborn) Done() <-chan struct{}        { return s.done }
func (s stubborn) Err() error                   { return errKilled }
func (s stubborn) Stop() (time.Duration, error) { return 0, errKilled }

func TestWhoHasToBeKilledFailsItsRoundButMayHavePreparedWhatRoundsFind(t *testing.T) {
	w := &World{Progress: func(string, int, int) {}, Start: func(context.Context) (Process, error) { return stubborn{make(chan struct{})}, nil }}
	var failure *Failure
	for name, test := range map[string]struct {
		end   func(context.Context) error
		fails bool
	}{"a round": {w.stop, true}, "preparing": {w.dismiss, false}} {
		if _, err := w.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := test.end(t.Context()); errors.As(err, &failure) != test.fails || (err == nil) == test.fails {
			t.Errorf("%s: %v; want a failure: %v", name, err, test.fails)
		}
	}
}

func TestAStormHasNoServersWhateverItsSizeAndOthersHaveOneUpToMany(t *testing.T) {
	for text, want := range map[string]int32{"storm": 0, "storm:n=50:m=2": 0, "churn:n=50": 1, "burst:n=1000": 1, "burst:n=1001": 0} {
		for _, full := range []bool{false, true} {
			chosen, err := Parse(text, full)
			if err != nil {
				t.Fatal(err)
			}
			if got := chosen[0].Replicas(); got != want {
				t.Errorf("%s: %d servers, want %d", text, got, want)
			}
		}
	}
}
