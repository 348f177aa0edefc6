package plans_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/controller/plans"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// secretsOf returns a set with one Secret for each name, each after the one before it.
func (w *world) secretsOf(set string, names ...string) *dependents.Set[*Horse] {
	w.t.Helper()
	var members []dependents.Dependent[*Horse]
	for _, name := range names {
		one := dependents.One(name, func(_ context.Context, horse *Horse, _ *dependents.View) (*corev1.Secret, error) {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"image": []byte(horse.Spec.Image)}}, nil
		})
		one.After(members...)
		members = append(members, one)
	}
	made, err := dependents.NewSet(set, dependents.Options{}, members...)
	w.must(err)
	return made
}

// secrets returns the secrets that exist, as "name=image".
func (w *world) secrets() string {
	w.t.Helper()
	list := &corev1.SecretList{}
	w.must(w.server.List(list))
	var found []string
	for _, secret := range list.Items {
		found = append(found, secret.Name+"="+string(secret.Data["image"]))
	}
	return strings.Join(found, " ")
}

func TestStepsApplyAndDeleteSetsOfDependents(t *testing.T) {
	inWorld(t, func(w *world) {
		servers := w.secretsOf("servers", "s1", "s2")
		scratch := w.secretsOf("scratch", "tmp")
		w.let(nil, "load")
		w.start(0, false, plans.NewPlan("deploy",
			plans.NewPhase("prepare", plans.Apply("scratch", scratch), w.does("load")),
			plans.NewPhase("serve", plans.Apply("servers", servers)),
			plans.NewPhase("clean", plans.Delete("scratch", scratch))))
		if got := w.secrets(); got != "tmp=" {
			t.Errorf("while it loads there is %q", got)
		}
		w.let(nil)
		w.annotate("wake", "1")
		w.want("in the end", "deploy=COMPLETE scratch=COMPLETE load=COMPLETE servers=COMPLETE scratch=COMPLETE")
		if got := w.secrets(); got != "s1= s2=" {
			t.Errorf("in the end there is %q", got)
		}
		foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "tmp"}}
		w.must(w.server.Create(foreign))
		w.change(func(horse *Horse) { horse.Spec.Image = "i" })
		if status := w.want("with a foreign object", "deploy=ERROR scratch=ERROR load=PENDING servers=PENDING scratch=PENDING"); !strings.Contains(status.Message, "the set did not make it") {
			t.Errorf("the message is %q", status.Message)
		}
		w.must(w.server.Delete(foreign))
		w.wait(time.Hour)
		if got := w.secrets(); got != "s1=i s2=i" {
			t.Errorf("in the end there is %q", got)
		}
	})
	inWorld(t, func(w *world) {
		dead := dependents.One("dead", func(_ context.Context, horse *Horse, _ *dependents.View) (*corev1.Secret, error) {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "dead"}}, nil
		}).Ready(func(context.Context, *corev1.Secret) (dependents.Readiness, error) {
			return dependents.Readiness{Failed: true, Message: "it is dead"}, nil
		})
		set, err := dependents.NewSet("dead", dependents.Options{}, dead)
		w.must(err)
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", plans.Apply("dead", set))))
		w.want("with a child that will never be ready", "deploy=FATAL_ERROR dead=FATAL_ERROR")
		other := w.secretsOf("dead", "x")
		if _, err := plans.NewRunner(planOf, plans.NewPlan("deploy", plans.NewPhase("one", plans.Apply("a", set), plans.Apply("b", other)))); err == nil || !strings.Contains(err.Error(), `two sets of dependents have the name "dead"`) {
			t.Errorf("two sets of one name: %v", err)
		}
	})
}

// shape is a random plan, and what happens to it.
type shape struct {
	parallel bool
	phases   []bool // whether the steps of each run in parallel
	steps    []int
	runs     []run
}

// run is what happens while one manager runs: its client stops at a write, and the user acts.
type run struct {
	stopAt int
	after  bool
	change bool
	fails  string // a step that fails for now
}

func drawShape(t *rapid.T) shape {
	s := shape{parallel: rapid.Bool().Draw(t, "parallel phases")}
	var names []string
	for i := range rapid.IntRange(1, 3).Draw(t, "phases") {
		s.phases = append(s.phases, rapid.Bool().Draw(t, "parallel steps"))
		s.steps = append(s.steps, rapid.IntRange(1, 2).Draw(t, "steps"))
		for j := range s.steps[i] {
			names = append(names, fmt.Sprint(i, "-", j))
		}
	}
	for range rapid.IntRange(1, 4).Draw(t, "runs") {
		s.runs = append(s.runs, run{
			stopAt: rapid.IntRange(0, 5).Draw(t, "stop at write"),
			after:  rapid.Bool().Draw(t, "after it"),
			change: rapid.Bool().Draw(t, "change"),
			fails:  rapid.SampledFrom(append(names, "")).Draw(t, "fails"),
		})
	}
	return s
}

// plan makes the plan. Each step is a function that checks what is stored when it is called. The last step
// of each phase applies a set.
func (s shape) plan(w *world, executed map[string]map[string]bool, wrong func(string, ...any)) *plan {
	var phases []*phase
	for i, parallel := range s.phases {
		var steps []step
		for j := range s.steps[i] {
			name := fmt.Sprint(i, "-", j)
			steps = append(steps, plans.Run("f"+name, func(_ context.Context, horse *Horse, execution plans.Execution) (plans.Progress, error) {
				stored := w.status()
				_, stopped := w.Client.Writes()
				w.mu.Lock()
				defer w.mu.Unlock()
				if stopped || stored.UID != execution.UID {
					return plans.Progress{}, nil // The client may be late, and its next write will fail.
				}
				for k, phase := range stored.Phases {
					for l, before := range phase.Steps {
						earlier := k < i && !s.parallel || k == i && l < 2*j && !parallel
						if earlier && before.State != plans.Complete {
							wrong("%s is called, and %s is %s", name, before.Name, before.State)
						}
						if k == i && before.Name == "f"+name && before.State != plans.InProgress && before.State != plans.Errored {
							wrong("%s is called in the state %s", name, before.State)
						}
					}
				}
				if _, err := w.done(name); err != nil {
					return plans.Progress{}, err
				}
				if executed[string(execution.UID)] == nil {
					executed[string(execution.UID)] = map[string]bool{}
				}
				executed[string(execution.UID)][name] = true
				return plans.Progress{Done: true}, nil
			}), plans.Apply("a"+name, w.secretsOf(name, "s"+name)))
		}
		made := plans.NewPhase(fmt.Sprint("p", i), steps...)
		if parallel {
			made.Parallel()
		}
		phases = append(phases, made)
	}
	made := plans.NewPlan("deploy", phases...)
	if s.parallel {
		made.Parallel()
	}
	return made
}

// The client stops at any write, before or after the server has it. A new manager goes on from the status.
func TestAPlanIsResumedWhereverItStops(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawShape(rt)
		var found []string
		wrong := func(format string, details ...any) { found = append(found, fmt.Sprintf(format, details...)) }
		inWorld(t, func(w *world) {
			executed := map[string]map[string]bool{}
			plan := s.plan(w, executed, wrong)
			for number, run := range s.runs {
				w.let(fmt.Errorf("not now"), run.fails)
				w.start(run.stopAt, run.after, plan)
				if run.change {
					w.change(func(horse *Horse) { horse.Spec.Image = fmt.Sprint(number) })
				}
				w.stop()
			}
			w.let(nil)
			w.start(0, false, plan)
			w.wait(time.Hour) // Backoffs end.
			status, image := w.status(), w.horse().Spec.Image
			var steps, secrets []string
			for i := range s.phases {
				for j := range s.steps[i] {
					steps = append(steps, fmt.Sprint(i, "-", j))
					secrets = append(secrets, fmt.Sprintf("s%d-%d=%s", i, j, image))
				}
			}
			if status.State != plans.Complete || status.Inputs["deploy"] != fmt.Sprint(w.horse().Generation) {
				wrong("in the end the plan is %s: %s", summary(status), status.Message)
			}
			if got := slices.Sorted(maps.Keys(executed[string(status.UID)])); !slices.Equal(got, steps) {
				wrong("the last execution ran %q, want %q", got, steps)
			}
			if got := w.secrets(); got != strings.Join(secrets, " ") {
				wrong("the secrets are %q, want %q", got, secrets)
			}
			before, _ := w.Client.Writes()
			w.annotate("wake", "1")
			if after, _ := w.Client.Writes(); after != before {
				wrong("when all is done, an event leads to %d writes", after-before)
			}
		})
		if len(found) > 0 {
			rt.Fatalf("%+v: %s", s, strings.Join(found, "; "))
		}
	})
}
