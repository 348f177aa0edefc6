package dependents_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

func TestAChildComesAfterAnotherIsReadyAndNothingIsSentTwice(t *testing.T) {
	inWorld(t, func(w *world) {
		a := slow(secret("a"))
		b := secret("b").After(a)
		w.start(w.newSet(b, a, secret("c")), 0, false)
		w.want("at first", "a", "c")
		w.wantStates("at first", "b=Waiting a=Progressing c=Ready")
		if message := w.last().Message(); message != "b waits for a; a is progressing: a: it is not ready" {
			t.Errorf("the message is %q", message)
		}
		if c := w.last().Condition("Ready"); c.Status != metav1.ConditionFalse || c.Reason != "DependentsProgressing" {
			t.Errorf("the condition is %+v", c)
		}
		w.markReady("a", true)
		w.want("when a is ready", "a", "b", "c")
		w.wantStates("when a is ready", "b=Ready a=Ready c=Ready")
		if c := w.last().Condition("Ready"); c.Status != metav1.ConditionTrue || w.last().Err() != nil || !w.last().Ready() {
			t.Errorf("the condition is %+v", c)
		}
		w.sent = nil
		w.set(map[string]string{"other": "x"})
		w.wantSent("after a change that concerns no child")
		w.set(map[string]string{"value": "1"})
		if got := w.children(); string(got["b"].Data["value"]) != "1" || len(w.sent) != 3 {
			t.Errorf("after a change the children are %v, and it sent %q", got, w.sent)
		}
		w.sent = nil
		w.must(w.server.Delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}}))
		w.wait(time.Minute)
		w.wantSent("after another client deleted c", "PATCH c")
	})
}

func TestWhatWaitsStaysAsItIs(t *testing.T) {
	inWorld(t, func(w *world) {
		a := slow(secret("a"))
		w.start(w.newSet(a, secret("b").After(a)), 0, false)
		w.markReady("a", true)
		w.markReady("a", false)
		w.set(map[string]string{"value": "1"})
		if got := w.children(); string(got["a"].Data["value"]) != "1" || string(got["b"].Data["value"]) != "" {
			t.Errorf("while a is not ready the children are %v", got)
		}
		w.wantStates("while a is not ready", "a=Progressing b=Waiting")
	})
}

func TestChildrenOfAConditionThatEndedGoInReverseOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		a := secret("a")
		b := secret("b").After(a)
		w.start(w.newSet(a, b, secret("c").After(b), secret("d")), 0, false)
		w.want("at first", "a", "b", "c", "d")
		held := w.children()["c"]
		held.Finalizers = []string{"other.io/hold"}
		w.must(w.server.Update(&held))
		w.wait(time.Minute)
		w.sent = nil
		w.set(map[string]string{"without": "a"})
		w.wantSent("when a is not desired", "DELETE c")
		w.want("while c has a finalizer", "a", "b", "c", "d")
		w.wantStates("while c has a finalizer", "a=Waiting b=Waiting c=Deleting d=Ready")
		held = w.children()["c"]
		held.Finalizers = nil
		w.must(w.server.Update(&held))
		w.wait(time.Minute)
		w.wantSent("when c is gone", "DELETE b", "DELETE a")
		w.wantStates("in the end", "a=Absent b=Absent c=Absent d=Ready")
		w.set(nil)
		w.want("when a is desired again", "a", "b", "c", "d")
	})
}

func TestAFinalizerDeletesTheChildrenInReverseOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		a := secret("a")
		b := secret("b").After(a)
		w.start(w.newSet(a, b, secret("c").After(b)), 0, false, nil)
		w.sent = nil
		w.must(w.server.Delete(w.owner()))
		w.wait(time.Minute)
		w.wantSent("after the deletion", "DELETE c", "DELETE b", "DELETE a", "PATCH owner")
		w.want("after the deletion")
	})
}

func TestChildrenThatAreNoLongerDeclaredAreDeletedAndNoOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(w.newSet(secret("a"), secret("old"), secret("renamed-before")), 0, false)
		mine := w.children()["a"]
		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "by-hand", OwnerReferences: mine.OwnerReferences}}
		w.must(w.server.Create(other)) // The owner's, but of no set.
		foreign := mine.DeepCopy()
		foreign.ObjectMeta = metav1.ObjectMeta{Namespace: "a", Name: "foreign", Labels: mine.Labels}
		w.must(w.server.Create(foreign)) // It has the labels only.
		w.stop()
		w.sent = nil
		// In the next version, another dependent makes the object of one that is gone.
		taken := dependents.One("renamed", func(context.Context, *corev1.ConfigMap, *dependents.View) (*corev1.Secret, error) {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "renamed-before"}}, nil
		})
		w.start(w.newSet(secret("a"), taken), 0, false)
		w.want("in the next version", "a", "by-hand", "foreign", "renamed-before")
		if got := w.children()["renamed-before"]; got.Labels[dependents.NameLabel] != "renamed" {
			t.Errorf("the labels are %v", got.Labels)
		}
		w.wantStates("in the next version", "a=Ready renamed=Ready")
		w.stop()
		w.start(w.newSet(secret("b"), dependents.Former[*corev1.ConfigMap, *corev1.Secret]("a"), secret("renamed").When(func(*corev1.ConfigMap, *dependents.View) bool { return false })), 0, false)
		w.want("in the version after it", "b", "by-hand", "foreign")
	})
}

func TestAnObjectThatTheSetDidNotMakeIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other", Controller: new(true)},
		}}}
		w.must(w.server.Create(theirs))
		w.must(w.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}))
		w.must(w.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}}))
		w.start(w.newSet(secret("a").Adopt(), secret("b"), secret("c").Adopt()), 0, false)
		w.wantSent("at first", "PATCH c")
		w.wantStates("at first", "a=Failed b=Failed c=Ready")
		if err := w.last().Err(); !errors.Is(err, controller.ErrOtherController) || !errors.Is(err, dependents.ErrNotOwned) {
			t.Errorf("the error is %v", err)
		}
		w.set(map[string]string{"without": "abc"})
		w.want("when none is desired", "a", "b")
	})
}

func TestADesiredStateMayDependOnOtherChildrenAndOnItself(t *testing.T) {
	inWorld(t, func(w *world) {
		made := 0
		var password *child
		password = dependents.One("password", func(_ context.Context, _ *corev1.ConfigMap, view *dependents.View) (*corev1.Secret, error) {
			if known, exists := password.Get(view); exists {
				return known, nil
			}
			made++
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "password"}, Data: map[string][]byte{"value": {byte('0' + made)}}}, nil
		})
		user := dependents.Many("users", func(_ context.Context, owner *corev1.ConfigMap, view *dependents.View) (users []*corev1.Secret, err error) {
			known, _ := password.Get(view)
			for _, name := range strings.Fields(owner.Data["users"]) {
				users = append(users, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: known.Data})
			}
			return users, nil
		}).After(password)
		w.start(w.newSet(password, user), 0, false)
		w.want("at first", "password")
		w.set(map[string]string{"users": "u v"})
		w.want("with two users", "password", "u", "v")
		w.set(map[string]string{"users": "v w"})
		w.want("with other users", "password", "v", "w")
		if got := w.children()["w"]; string(got.Data["value"]) != "1" || made != 1 {
			t.Errorf("the password is %q, and was made %d times", got.Data["value"], made)
		}
		w.stop()
		w.start(w.newSet(password, user), 0, false)
		if got := w.children()["password"]; string(got.Data["value"]) != "1" {
			t.Errorf("after a restart the password is %q", got.Data["value"])
		}
	})
}

func TestAFailureOfOneDependentLeavesTheOthersAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		broken := errors.New("no such plan")
		fails := dependents.One("fails", func(context.Context, *corev1.ConfigMap, *dependents.View) (*corev1.Secret, error) { return nil, broken })
		panics := dependents.One("panics", func(context.Context, *corev1.ConfigMap, *dependents.View) (*corev1.Secret, error) { panic("oh") })
		when := secret("when").When(func(*corev1.ConfigMap, *dependents.View) bool { panic("ah") })
		job := secret("job").Ready(func(context.Context, *corev1.Secret) (dependents.Readiness, error) {
			return dependents.Readiness{Failed: true, Message: "it is dead"}, nil
		})
		a := secret("a")
		again := dependents.One("again", func(context.Context, *corev1.ConfigMap, *dependents.View) (*corev1.Secret, error) {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, nil
		}).After(a)
		w.start(w.newSet(fails, panics, when, a, again, job, secret("b").After(fails)), 0, false)
		w.wantStates("at first", "fails=Failed panics=Failed when=Failed a=Ready again=Failed job=Failed b=Waiting")
		err := w.last().Err()
		for _, want := range []string{"dependent fails: making the desired state: no such plan", "dependent panics: making the desired state: panic: oh", "dependent when: When: panic: ah", "a is desired twice, by a and by again", "job: it is dead"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want one that contains %q", err, want)
			}
		}
		if w.last().Condition("Ready").Reason != "DependentsFailed" || !errors.Is(err, broken) {
			t.Errorf("the condition is %+v", w.last().Condition("Ready"))
		}
		attempts := w.calls()
		w.wait(time.Hour)
		if w.calls() == attempts {
			t.Error("the failures are not retried")
		}
	})
	inWorld(t, func(w *world) { // A failure that only a change can end is not retried.
		w.start(w.newSet(secret("job").Ready(func(context.Context, *corev1.Secret) (dependents.Readiness, error) {
			return dependents.Readiness{Failed: true, Message: "it is dead"}, nil
		})), 0, false)
		attempts := w.calls()
		if w.wait(time.Hour); w.calls() != attempts {
			t.Errorf("a permanent failure is retried: %d attempts, then %d", attempts, w.calls())
		}
	})
}

func TestAReadyCheckOfSomethingExternalSaysWhenToLookAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		started := time.Now()
		w.start(w.newSet(secret("a").Ready(func(context.Context, *corev1.Secret) (dependents.Readiness, error) {
			return dependents.Readiness{Ready: time.Since(started) > time.Hour, LookAgain: 10 * time.Minute}, nil
		}), secret("b").Ready(func(context.Context, *corev1.Secret) (dependents.Readiness, error) {
			return dependents.Readiness{LookAgain: time.Until(started.Add(90 * time.Minute))}, nil
		})), 0, false)
		w.wantStates("at first", "a=Progressing b=Progressing")
		w.wait(75 * time.Minute)
		w.wantStates("after an hour", "a=Ready b=Progressing")
		if n := w.calls(); n < 7 || n > 11 {
			t.Errorf("it looked %d times", n)
		}
	})
}

func TestIndependentChildrenAreAppliedInParallelUpToABound(t *testing.T) {
	inWorld(t, func(w *world) {
		running, most := 0, 0
		var members []dependents.Dependent[*corev1.ConfigMap]
		for _, name := range strings.Split("abcdefgh", "") {
			members = append(members, dependents.One(name, func(ctx context.Context, owner *corev1.ConfigMap, _ *dependents.View) (*corev1.Secret, error) {
				w.mu.Lock()
				running++
				most = max(most, running)
				w.mu.Unlock()
				<-time.After(time.Second)
				w.mu.Lock()
				running--
				w.mu.Unlock()
				return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
			}))
		}
		set, err := dependents.NewSet("test", dependents.Options{Concurrency: 3}, members...)
		w.must(err)
		w.start(set, 0, false)
		w.want("in the end", "a", "b", "c", "d", "e", "f", "g", "h")
		if most != 3 {
			t.Errorf("%d were applied at once, want 3", most)
		}
	})
}

func TestASetThatIsDeclaredWronglyIsRefused(t *testing.T) {
	type members = []dependents.Dependent[*corev1.ConfigMap]
	a, b := secret("a"), secret("b")
	a.After(b)
	b.After(a)
	open := dependents.One("x", func(context.Context, *corev1.ConfigMap, *dependents.View) (*unstructured.Unstructured, error) {
		return nil, nil
	})
	for want, test := range map[string]struct {
		name    string
		options dependents.Options
		members members
	}{
		"After makes a cycle: a after b after a":                     {"x", dependents.Options{}, members{a, b}},
		"Concurrency is 65; allowed is 1 to 64":                      {"x", dependents.Options{Concurrency: 65}, members{secret("a")}},
		"it has no dependents":                                       {"x", dependents.Options{}, nil},
		"a dependent is nil":                                         {"x", dependents.Options{}, members{(*child)(nil)}},
		`the name of the set is ""`:                                  {"", dependents.Options{}, members{secret("a")}},
		`its name is "a b"`:                                          {"x", dependents.Options{}, members{secret("a b")}},
		`two dependents have the name "a"`:                           {"x", dependents.Options{}, members{secret("a"), secret("a")}},
		`"a" comes After a dependent that is not in the set; add it`: {"x", dependents.Options{}, members{secret("a").After(secret("b"))}},
		"When has no condition":                                      {"x", dependents.Options{}, members{secret("a").When(nil)}},
		"Ready has no function":                                      {"x", dependents.Options{}, members{secret("a").Ready(nil)}},
		"it has no function for its desired state":                   {"x", dependents.Options{}, members{dependents.One[*corev1.ConfigMap, *corev1.Secret]("a", nil)}},
		"stands for several kinds; name one with OfKind":             {"x", dependents.Options{}, members{open}},
	} {
		if _, err := dependents.NewSet(test.name, test.options, test.members...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that contains %q", err, want)
		}
	}
}

func TestAPermanentFailureBesideAnotherIsRetried(t *testing.T) {
	inWorld(t, func(w *world) {
		never := dependents.One("never", func(context.Context, *corev1.ConfigMap, *dependents.View) (*corev1.Secret, error) {
			return nil, operators.Terminal(errors.New("the plan is unknown"))
		})
		attempts := 0
		later := dependents.One("later", func(context.Context, *corev1.ConfigMap, *dependents.View) (*corev1.Secret, error) {
			if attempts++; attempts < 3 {
				return nil, errors.New("not now")
			}
			return nil, nil
		})
		w.start(w.newSet(never, later), 0, false)
		w.wantStates("in the end", "never=Failed later=Ready")
		calls := w.calls()
		if w.wait(time.Hour); w.calls() != calls || attempts != 3 {
			t.Errorf("it was called %d times, then %d", calls, w.calls())
		}
	})
}

func TestAChildWithoutANamespaceIsRefusedForAnOwnerWithOne(t *testing.T) {
	inWorld(t, func(w *world) {
		volume := dependents.One("volume", func(context.Context, *corev1.ConfigMap, *dependents.View) (*corev1.PersistentVolume, error) {
			return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}, nil
		}).Watch(controller.ClusterScoped())
		w.start(w.newSet(volume), 0, false)
		if err := w.last().Err(); err == nil || !strings.Contains(err.Error(), "owns objects of its own namespace only") {
			t.Errorf("the error is %v", err)
		}
		w.wantSent("with such an owner")
	})
}

func TestAFunctionThatEndsItsGoroutineFailsItsDependent(t *testing.T) {
	inWorld(t, func(w *world) {
		exits := func(name string) *child {
			return dependents.One(name, func(context.Context, *corev1.ConfigMap, *dependents.View) (*corev1.Secret, error) {
				runtime.Goexit()
				return nil, nil
			})
		}
		checks := secret("checks").Ready(func(context.Context, *corev1.Secret) (dependents.Readiness, error) {
			runtime.Goexit()
			return dependents.Readiness{}, nil
		})
		w.start(w.newSet(exits("a"), exits("b"), exits("c"), exits("d"), exits("e"), checks, secret("f")), 0, false)
		w.wantStates("at first", "a=Failed b=Failed c=Failed d=Failed e=Failed checks=Failed f=Ready")
	})
}

func TestATypeMayStandForSeveralKinds(t *testing.T) {
	inWorld(t, func(w *world) {
		open := func(kind string) dependents.Dependent[*corev1.ConfigMap] {
			return dependents.One(strings.ToLower(kind), func(_ context.Context, owner *corev1.ConfigMap, _ *dependents.View) (*unstructured.Unstructured, error) {
				if owner.Data["without"] == kind {
					return nil, nil
				}
				return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x"}}}, nil
			}).OfKind(corev1.SchemeGroupVersion.WithKind(kind))
		}
		w.start(w.newSet(open("Secret"), open("ServiceAccount")), 0, false)
		w.wantStates("at first", "secret=Ready serviceaccount=Ready")
		w.want("at first", "x")
		w.must(w.server.Get(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}))
		w.set(map[string]string{"without": "Secret"})
		w.want("without the Secret")
		w.must(w.server.Get(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}))
	})
}

// An apply takes over any object of its name, so the cache alone must not decide.
func TestAnObjectThatTheCacheDoesNotHaveYetIsNotTakenOver(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(w.newSet(secret("a").When(func(owner *corev1.ConfigMap, _ *dependents.View) bool { return owner.Data["value"] != "" })), 0, false)
		w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Delay, Resource: "secrets", Type: watch.Added, For: 10 * time.Minute}))
		w.must(w.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a"}}))
		w.set(map[string]string{"value": "1"})
		if err := w.last().Err(); !errors.Is(err, dependents.ErrNotOwned) {
			t.Errorf("the error is %v", err)
		}
		if theirs := w.children()["a"]; len(theirs.OwnerReferences) > 0 || len(theirs.Labels) > 0 {
			t.Errorf("while the watch is late the object is changed: %v", theirs.ObjectMeta)
		}
	})
}
