package plans_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/plans"
	"github.com/bellerophon-io/bellerophon/operators"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestPhasesAndStepsRunOneAfterTheOtherOrInParallel(t *testing.T) {
	inWorld(t, func(w *world) {
		w.let(nil, "b", "c")
		w.start(0, false, plans.NewPlan("deploy",
			plans.NewPhase("one", w.does("a"), w.does("b")),
			plans.NewPhase("two", w.does("c"), w.does("d")).Parallel(),
			plans.NewPhase("three", w.does("e"))))
		status := w.want("at first", "deploy=IN_PROGRESS a=COMPLETE b=IN_PROGRESS c=PENDING d=PENDING e=PENDING")
		if status.Message != "one/b: not yet" || status.Phases[0].State != plans.InProgress || status.Phases[1].State != plans.Pending || status.StartedAt == nil || status.FinishedAt != nil {
			t.Errorf("the status is %+v", status)
		}
		w.let(nil, "c")
		w.annotate("wake", "1")
		w.want("when b is done", "deploy=IN_PROGRESS a=COMPLETE b=COMPLETE c=IN_PROGRESS d=COMPLETE e=PENDING")
		w.let(nil)
		w.annotate("wake", "2")
		status = w.want("in the end", "deploy=COMPLETE a=COMPLETE b=COMPLETE c=COMPLETE d=COMPLETE e=COMPLETE")
		if status.FinishedAt == nil || !status.Deployed || status.Phases[2].State != plans.Complete || status.Phases[2].Steps[0].FinishedAt == nil || status.Message != "" {
			t.Errorf("the status is %+v", status)
		}
	})
	inWorld(t, func(w *world) {
		w.let(nil, "a", "c")
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a")), plans.NewPhase("two", w.does("b"), w.does("c"), w.does("d"))).Parallel())
		w.want("with parallel phases", "deploy=IN_PROGRESS a=IN_PROGRESS b=COMPLETE c=IN_PROGRESS d=PENDING")
	})
}

func TestTheStatusIsWrittenOnlyWhenItChanged(t *testing.T) {
	inWorld(t, func(w *world) {
		w.let(nil, "b")
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"), w.does("b"))))
		if writes, _ := w.Client.Writes(); writes != 3 { // It starts, a is done and b begins, b waits.
			t.Errorf("it wrote %d times", writes)
		}
		before := w.horse().ResourceVersion
		w.wait(time.Hour)
		if after := w.horse().ResourceVersion; after != before {
			t.Errorf("while b waits the version changes from %s to %s", before, after)
		}
		w.let(errors.New("no"), "b")
		w.annotate("wake", "1")
		w.want("while b fails", "deploy=ERROR a=COMPLETE b=ERROR")
		before = w.horse().ResourceVersion
		w.wait(time.Hour)
		if after := w.horse().ResourceVersion; after != before {
			t.Errorf("while b fails the version changes from %s to %s", before, after)
		}
	})
}

func TestAStepThatFailsIsRetriedAndAFatalOneEndsThePlan(t *testing.T) {
	inWorld(t, func(w *world) {
		w.let(errors.New("the disk is full"), "b")
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"), w.does("b"), w.does("c"))))
		status := w.want("at first", "deploy=ERROR a=COMPLETE b=ERROR c=PENDING")
		if status.Message != "one/b: the disk is full" {
			t.Errorf("the message is %q", status.Message)
		}
		if calls := len(w.calls); calls < 3 || calls > 30 {
			t.Errorf("in a minute it called %d times", calls)
		}
		w.let(nil)
		w.wait(time.Hour)
		w.want("when it works again", "deploy=COMPLETE a=COMPLETE b=COMPLETE c=COMPLETE")
	})
	inWorld(t, func(w *world) {
		w.let(operators.Terminal(errors.New("the licence has expired")), "b")
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"), w.does("b"), w.does("c"))))
		w.wantCalls("at first", "a b")
		status := w.want("at first", "deploy=FATAL_ERROR a=COMPLETE b=FATAL_ERROR c=PENDING")
		if status.Message != "one/b: the licence has expired" || status.FinishedAt == nil || len(w.errs) != 1 || !strings.Contains(w.errs[0].Error(), "plan deploy: step one/b: the licence has expired") {
			t.Errorf("the message is %q, the errors are %v", status.Message, w.errs)
		}
		w.let(nil)
		w.annotate("wake", "1")
		w.wait(time.Hour)
		w.wantCalls("after an hour", "")
		w.change(func(horse *Horse) { horse.Spec.Replicas = 2 })
		w.wantCalls("after a change", "a b c")
		w.want("after a change", "deploy=COMPLETE a=COMPLETE b=COMPLETE c=COMPLETE")
	})
}

func TestAPanicOfAStepFailsTheStep(t *testing.T) {
	inWorld(t, func(w *world) {
		w.done = func(name string) (plans.Progress, error) {
			if name == "a" {
				panic("oh")
			}
			return plans.Progress{Done: true}, nil
		}
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"), w.does("b")).Parallel()))
		if status := w.want("at first", "deploy=ERROR a=ERROR b=COMPLETE"); status.Message != "one/a: panic: oh" {
			t.Errorf("the message is %q", status.Message)
		}
	})
}

func TestAStepMayAskToBeCalledAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		started := time.Now()
		w.done = func(string) (plans.Progress, error) {
			return plans.Progress{Done: time.Since(started) > time.Hour, LookAgain: 20 * time.Minute}, nil
		}
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"))))
		w.wait(2 * time.Hour)
		w.want("after two hours", "deploy=COMPLETE a=COMPLETE")
		w.wantCalls("after two hours", "a a a a a a") // One is for the event of its own write.
	})
}

func TestAPlanRunsForANewObjectAndWhenItsInputsChange(t *testing.T) {
	inWorld(t, func(w *world) {
		all := []*plan{
			plans.NewPlan("deploy", plans.NewPhase("one", w.does("deploy"))),
			plans.NewPlan("upgrade", plans.NewPhase("one", w.does("upgrade"))).OnChange(images),
			plans.NewPlan("scale", plans.NewPhase("one", w.does("scale"))).OnChange(replicas),
			plans.NewPlan("backup", plans.NewPhase("one", w.does("backup"))),
		}
		w.start(0, false, all...)
		w.wantCalls("at first", "deploy")
		w.change(func(horse *Horse) { horse.Spec.Replicas = 2 })
		w.wantCalls("after a change of the replicas", "scale")
		w.change(func(horse *Horse) { horse.Spec.Replicas, horse.Spec.Image = 3, "i" })
		w.wantCalls("after a change of both", "upgrade scale")
		uid := w.status().UID
		w.annotate(plans.RunAnnotation, "backup/1")
		w.wantCalls("on request", "backup")
		uid = w.uid("on request", uid, false)
		w.annotate("wake", "1")
		w.wantCalls("after the request", "")
		w.annotate(plans.RunAnnotation, "backup/2")
		w.wantCalls("on another request", "backup")
		w.annotate(plans.RunAnnotation, "")
		w.annotate(plans.RunAnnotation, "backup/2")
		w.wantCalls("on the same request after it was removed", "backup")
		w.annotate(plans.RunAnnotation, "restore")
		w.wantCalls("on a request for a plan that does not exist", "")
		if n := len(w.errs); n != 1 || !strings.Contains(w.errs[0].Error(), `requests the plan "restore"`) {
			t.Errorf("the errors are %v", w.errs)
		}
		w.stop()
		w.start(0, false, append(all, plans.NewPlan("new", plans.NewPhase("one", w.does("new"))).OnChange(nil))...)
		w.wantCalls("after an update of the program that adds a plan", "")
		w.change(func(horse *Horse) { horse.Spec.Image = "j" })
		w.wantCalls("after a change of the image", "upgrade new")
		_ = uid
	})
	inWorld(t, func(w *world) { // Without OnChange, the first plan runs again.
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("deploy"))))
		w.change(func(horse *Horse) { horse.Spec.Replicas = 2 })
		w.wantCalls("after a change", "deploy deploy")
	})
}

func TestAChangeDuringARunStartsItAnewOrWaits(t *testing.T) {
	for finishFirst, want := range map[bool]string{false: "a b", true: ""} {
		inWorld(t, func(w *world) {
			w.let(nil, "b")
			deploy := plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"), w.does("b")))
			if finishFirst {
				deploy.FinishFirst()
			}
			w.start(0, false, deploy)
			w.calls = nil
			uid := w.status().UID
			w.change(func(horse *Horse) { horse.Spec.Replicas = 2 })
			uid = w.uid("after a change", uid, finishFirst)
			if want != "" && !strings.HasPrefix(strings.Join(w.calls, " "), want) || want == "" && strings.Contains(strings.Join(w.calls, " "), "a") {
				t.Errorf("finish first %t: it called %q", finishFirst, w.calls)
			}
			w.calls = nil
			w.let(nil)
			w.annotate("wake", "1")
			w.want("in the end", "deploy=COMPLETE a=COMPLETE b=COMPLETE")
			w.uid("in the end", uid, !finishFirst)
			w.wantCalls("in the end", map[bool]string{false: "b", true: "b a b"}[finishFirst])
		})
	}
}

func TestAPlanThatIsCancelledStops(t *testing.T) {
	inWorld(t, func(w *world) {
		w.let(errors.New("no"), "b")
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"), w.does("b"), w.does("c"))))
		w.annotate(plans.CancelAnnotation, "another")
		w.want("after another execution was cancelled", "deploy=ERROR a=COMPLETE b=ERROR c=PENDING")
		w.annotate(plans.CancelAnnotation, string(w.status().UID))
		w.wait(time.Hour) // The retry of b may be backed off.
		status := w.want("after it was cancelled", "deploy=CANCELLED a=COMPLETE b=CANCELLED c=PENDING")
		if status.FinishedAt == nil || status.Message != "it was cancelled by an annotation" {
			t.Errorf("the status is %+v", status)
		}
		w.calls = nil
		w.let(nil)
		w.wait(time.Hour)
		w.wantCalls("after it was cancelled", "")
		w.annotate(plans.RunAnnotation, "deploy")
		w.wantCalls("on request", "a b c")
	})
	inWorld(t, func(w *world) { // No retry is backed off, so it is cancelled at once.
		w.let(nil, "b")
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"), w.does("b"))))
		w.annotate(plans.CancelAnnotation, string(w.status().UID))
		w.want("after it was cancelled", "deploy=CANCELLED a=COMPLETE b=CANCELLED")
		w.let(nil)
		w.change(func(horse *Horse) { horse.Spec.Replicas = 2 })
		w.want("after a change", "deploy=COMPLETE a=COMPLETE b=COMPLETE")
	})
}

func TestAnotherVersionOfTheProgramGoesOnWithItsOwnSteps(t *testing.T) {
	inWorld(t, func(w *world) {
		w.let(nil, "c")
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"), w.does("b"), w.does("c"))))
		w.stop()
		w.calls = nil
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("b"), w.does("new"), w.does("c"), w.does("d"))))
		w.want("in the next version", "deploy=IN_PROGRESS b=COMPLETE new=COMPLETE c=IN_PROGRESS d=PENDING")
		w.stop()
		w.start(0, false, plans.NewPlan("install", plans.NewPhase("one", w.does("a"))))
		w.want("in a version with another plan", "install=COMPLETE a=COMPLETE")
	})
}

func TestInputsThatAlwaysDifferDoNotKeepACallBusy(t *testing.T) {
	inWorld(t, func(w *world) {
		n := 0
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"))).OnChange(func(*Horse) any { n++; return n }))
		w.wait(time.Hour)
		if n > 10000 || len(w.errs) == 0 || !strings.Contains(w.errs[0].Error(), "starts again and again") {
			t.Errorf("after %d calls of the inputs the errors are %v", n, w.errs)
		}
	})
}

// A process that has lost its leadership may still work on an old state.
func TestAProcessThatIsLateStoresNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		early := w.horse()
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"))))
		w.wantCalls("at first", "a")
		before := w.horse()
		_, _, err := w.runner.Reconcile(t.Context(), w.c, early)
		if after := w.horse(); !apierrors.IsConflict(err) || after.ResourceVersion != before.ResourceVersion {
			t.Errorf("it stored %s: %v", summary(&after.Status.Plan), err)
		}
		w.wantCalls("after a late call", "")
	})
}

func TestAPlanOfAnObjectThatIsDeletedDoesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(func(horse *Horse) { horse.Finalizers = []string{"other.io/hold"} })
		w.must(w.server.Delete(w.horse()))
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"))))
		_, result, err := w.runner.Reconcile(t.Context(), w.c, w.horse())
		if err != nil || result != (controller.Result{}) || w.status().Plan != "" {
			t.Errorf("it returned %v and %v; the status is %+v", result, err, w.status())
		}
		w.wantCalls("while it is being deleted", "")
	})
}

func TestACopyOfAStatusSharesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(0, false, plans.NewPlan("deploy", plans.NewPhase("one", w.does("a"))))
		status := w.status()
		copied := status.DeepCopy()
		copied.Phases[0].Steps[0].State, copied.Inputs["deploy"] = plans.Pending, "x"
		copied.StartedAt.Time = time.Time{}
		if status.Phases[0].Steps[0].State != plans.Complete || status.Inputs["deploy"] == "x" || status.StartedAt.IsZero() {
			t.Errorf("the status is %+v", status)
		}
		if (*plans.Status)(nil).DeepCopy() != nil {
			t.Error("the copy of nothing is something")
		}
	})
}

func TestARunnerThatIsDeclaredWronglyIsRefused(t *testing.T) {
	a := plans.Run[*Horse]("a", nil)
	does := (&world{}).does
	phase := plans.NewPhase[*Horse]
	for want, of := range map[string][]*plan{
		"the runner has no plans":                                nil,
		"a plan is nil":                                          {nil},
		`a plan has the name "Deploy"`:                           {plans.NewPlan("Deploy", phase("x", does("a")))},
		`plan "deploy" has no phases`:                            {plans.NewPlan[*Horse]("deploy")},
		`plan "deploy" has a phase that is nil`:                  {plans.NewPlan[*Horse]("deploy", nil)},
		`a phase of plan deploy has the name ""`:                 {plans.NewPlan("deploy", phase("", does("a")))},
		`two phases with the name "x"`:                           {plans.NewPlan("deploy", phase("x", does("a")), phase("x", does("a")))},
		`phase "x" of plan "deploy" has no steps`:                {plans.NewPlan("deploy", phase("x"))},
		`step "a" in phase "x" of plan "deploy" has nothing to`:  {plans.NewPlan("deploy", phase("x", a))},
		`two steps with the name "b"`:                            {plans.NewPlan("deploy", phase("x", does("b"), does("b")))},
		`two plans have the name "deploy"`:                       {plans.NewPlan("deploy", phase("x", does("a"))), plans.NewPlan("deploy", phase("x", does("a")))},
		`step "s" in phase "x" of plan "deploy" has nothing to `: {plans.NewPlan("deploy", phase("x", plans.Apply[*Horse]("s", nil)))},
	} {
		if _, err := plans.NewRunner(planOf, of...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that contains %q", err, want)
		}
	}
	if _, err := plans.NewRunner(nil, plans.NewPlan("deploy", phase("x", does("a")))); err == nil {
		t.Error("a runner without a status is accepted")
	}
}
