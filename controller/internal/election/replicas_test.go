package election_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestOneReplicaReconcilesAndTheCachesOfTheOthersFollow(t *testing.T) {
	inWorld(t, 3, nil, func(w *world) {
		w.create("one", "two")
		w.replicas[0].start()
		wait(time.Second)
		w.replicas[1].start()
		w.replicas[2].start()
		wait(time.Minute)
		w.create("three")
		wait(time.Minute)
		if level := w.replicas[0].manager.Cache().Level(); level < cache.OwnWritesVisible {
			t.Errorf("the leader is %v", level)
		}
		for _, standby := range w.replicas[1:] {
			if standby.count() > 0 {
				t.Errorf("%s has reconciled %d times while another replica leads", standby.name, standby.count())
			}
			if level := standby.manager.Cache().Level(); level != cache.OwnWritesVisible {
				t.Errorf("%s is %v, want %v: it stands by", standby.name, level, cache.OwnWritesVisible)
			}
			for _, name := range []string{"one", "two", "three"} {
				object, err := controller.Get[*corev1.ConfigMap](w.t.Context(), standby.manager.Client(), types.NamespacedName{Namespace: "team", Name: name})
				if err != nil || object.Data["by"] != "a" {
					t.Errorf("%s reads %v, %v of %s", standby.name, object, err, name)
				}
			}
			if err := standby.stamp(w.t.Context(), "one"); !errors.Is(err, controller.ErrNotLeading) {
				t.Errorf("a write of %s returned %v", standby.name, err)
			}
		}
		w.check()
		if failed := w.replicas[0].failed(); len(failed) > 0 {
			t.Errorf("writes of the leader failed: %v", failed)
		}
	})
}

func TestACleanEndHandsOverAtOnceWhenTheLastReconcileHasReturned(t *testing.T) {
	inWorld(t, 2, nil, func(w *world) {
		leader, standby := w.replicas[0], w.replicas[1]
		var ended time.Time
		leader.reconcile = func(ctx context.Context, request operators.Request) (time.Duration, error) {
			<-time.After(5 * time.Second) // It ignores the end of ctx, within the grace period.
			err := leader.stamp(context.WithoutCancel(ctx), request.Name)
			ended = time.Now()
			return 0, err
		}
		w.create("one")
		leader.start()
		wait(time.Second)
		standby.start()
		wait(time.Second)
		stopped := time.Now()
		leader.stop()
		if took := time.Since(stopped); took != 3*time.Second {
			t.Errorf("the leader ended after %v, want when its reconcile has returned, after 3s", took)
		}
		wait(time.Second)
		if first := w.first("b", stopped); first.Before(ended) || first.Sub(ended) > 100*time.Millisecond {
			t.Errorf("the other replica wrote first %v after the last reconcile", first.Sub(ended))
		}
		w.check()
		if failed := leader.failed(); len(failed) > 0 {
			t.Errorf("writes of the leader failed: %v", failed)
		}
	})
}

func TestWhenTheLeaderDiesAnotherReplicaLeadsAfterTheLease(t *testing.T) {
	for after := time.Duration(0); after < 3*time.Second; after += 333 * time.Millisecond {
		inWorld(t, 3, nil, func(w *world) {
			w.create("one")
			for _, replica := range w.replicas {
				replica.start()
				wait(time.Second)
			}
			wait(10*time.Second + after)
			w.replicas[0].hang(all)
			died := time.Now()
			wait(leaseDuration + time.Second)
			var first time.Time
			for _, write := range w.since(died) {
				if write.by != "a" && first.IsZero() {
					first = write.at
				}
			}
			if took := first.Sub(died); first.IsZero() || took > leaseDuration+time.Second || took < leaseDuration-retryPeriod-time.Second {
				t.Errorf("the next leader wrote first %v after the death, want within %v and a second", took, leaseDuration)
			}
			w.check()
		})
	}
}

func TestALeaderThatCannotRenewStandsByAndLeadsAgainWithoutARestart(t *testing.T) {
	inWorld(t, 2, nil, func(w *world) {
		a, b := w.replicas[0], w.replicas[1]
		a.lags = true
		w.create("one", "two", "three")
		a.start()
		wait(time.Second)
		b.start()
		wait(20 * time.Second)
		a.hang(isLease)
		frozen := time.Now()
		wait(leaseDuration + time.Second)
		w.first("b", frozen)
		for _, write := range w.since(frozen.Add(leaseDuration)) {
			if write.by == "a" {
				t.Errorf("a wrote %v after its last renewal at the latest", write.at.Sub(frozen))
			}
		}
		a.heal()
		wait(time.Minute)
		reconciled := a.count()
		wait(time.Minute)
		if a.count() != reconciled {
			t.Errorf("a has reconciled while b leads")
		}
		stopped := time.Now()
		b.stop()
		wait(10 * time.Second)
		w.first("a", stopped)
		if level := a.manager.Cache().Level(); level < cache.OwnWritesVisible {
			t.Errorf("a leads again and is %v", level)
		}
		w.check()
	})
}

// TestALeaderCountsFromTheRequestOfARenewal answers renewals late, and then no more.
func TestALeaderCountsFromTheRequestOfARenewal(t *testing.T) {
	inWorld(t, 2, nil, func(w *world) {
		a, b := w.replicas[0], w.replicas[1]
		a.answers = 3 * time.Second
		w.create("one")
		a.start()
		wait(5 * time.Second)
		b.start()
		wait(21 * time.Second)
		renewed := w.renewed() // It is answered later.
		a.hang(isLease)
		wait(2 * leaseDuration)
		var last time.Time
		for _, write := range w.since(renewed) {
			if write.by == "a" {
				last = write.at
			}
		}
		if since := last.Sub(renewed); since > renewDeadline || since < renewDeadline-time.Second {
			t.Errorf("a wrote last %v after it sent its last renewal, want up to %v", since, renewDeadline)
		}
		w.first("b", renewed)
		w.check()
	})
}

// TestAWriteThatIsCutKeepsTheLeaseUntilItExpires ends a leader cleanly, while a write of it is in the network.
func TestAWriteThatIsCutKeepsTheLeaseUntilItExpires(t *testing.T) {
	inWorld(t, 2, func(_ *replica, options *controller.Options) { options.Grace = time.Second }, func(w *world) {
		a, b := w.replicas[0], w.replicas[1]
		w.create("one")
		a.start()
		wait(time.Second)
		b.start()
		wait(10 * time.Second)
		a.mu.Lock()
		a.lags = true
		a.mu.Unlock()
		wait(time.Second)
		stopped := time.Now()
		a.stop()
		wait(leaseDuration + 2*time.Second)
		if took := w.first("b", stopped).Sub(stopped); took < leaseDuration-retryPeriod-2*time.Second {
			t.Errorf("the other replica wrote first after %v, although a write of the first one was not answered", took)
		}
		w.check()
	})
}

// TestAWriteThatWaitsAcrossTheLossIsNeverDelivered holds the writes back, not the Lease.
func TestAWriteThatWaitsAcrossTheLossIsNeverDelivered(t *testing.T) {
	inWorld(t, 2, nil, func(w *world) {
		a, b := w.replicas[0], w.replicas[1]
		w.create("one")
		a.start()
		wait(time.Second)
		b.start()
		wait(10 * time.Second)
		a.hang(all)
		frozen := time.Now()
		wait(leaseDuration + time.Second)
		w.first("b", frozen)
		a.heal() // What waited may be sent now.
		wait(time.Second)
		for _, write := range w.since(frozen) {
			if write.by == "a" {
				t.Errorf("a wrote %v after it was cut off", write.at.Sub(frozen))
			}
		}
		w.check()
	})
}

// TestAReconcileThatOutlastsTheLeaseWritesNothing holds a reconcile that ignores its context.
func TestAReconcileThatOutlastsTheLeaseWritesNothing(t *testing.T) {
	inWorld(t, 2, nil, func(w *world) {
		a, b := w.replicas[0], w.replicas[1]
		hold := make(chan struct{})
		var late error
		a.reconcile = func(ctx context.Context, request operators.Request) (time.Duration, error) {
			<-hold
			late = a.stamp(context.WithoutCancel(ctx), request.Name)
			return 0, late
		}
		w.create("one")
		a.start()
		wait(time.Second)
		b.start()
		wait(time.Second)
		a.hang(isLease)
		wait(leaseDuration + time.Second)
		a.heal()
		wait(time.Minute)
		b.stop()
		wait(time.Minute)
		if holder := w.holder(); holder != "" {
			t.Errorf("the Lease names %q, although a reconcile of the old epoch still runs on a", holder)
		}
		a.reconcile = a.write
		close(hold)
		freed := time.Now()
		wait(10 * time.Second)
		if !errors.Is(late, controller.ErrNotLeading) {
			t.Errorf("the late write returned %v", late)
		}
		w.first("a", freed)
		w.check()
	})
}

func TestADeletedLeaseEndsTheEpochAndFreesNothing(t *testing.T) {
	for _, alive := range []bool{true, false} {
		inWorld(t, 2, nil, func(w *world) {
			a, b := w.replicas[0], w.replicas[1]
			w.create("one")
			a.start()
			wait(time.Second)
			b.start()
			wait(10 * time.Second)
			if !alive {
				a.hang(all)
			}
			w.must(w.server.Delete(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "operator"}}))
			deleted := time.Now()
			wait(leaseDuration - retryPeriod - time.Second)
			for _, write := range w.since(deleted) {
				if write.by == "b" {
					t.Errorf("b has written %v after the deletion", write.at.Sub(deleted))
				}
			}
			wait(5 * time.Second)
			if alive {
				w.first("a", deleted.Add(time.Second)) // It has made the Lease anew.
			} else {
				w.first("b", deleted)
			}
		})
	}
}

// TestTheTimesInTheLeaseMeanNothing writes times of another century, as a machine with a wrong clock does.
func TestTheTimesInTheLeaseMeanNothing(t *testing.T) {
	for _, years := range []int{-50, 50} {
		inWorld(t, 1, nil, func(w *world) {
			w.create("one")
			when := metav1.NewMicroTime(time.Now().AddDate(years, 0, 0))
			w.must(w.server.Create(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "operator"},
				Spec: coordinationv1.LeaseSpec{
					HolderIdentity: new("other_1"), LeaseDurationSeconds: new(int32(20)), AcquireTime: &when, RenewTime: &when, LeaseTransitions: new(int32(7)),
				},
			}))
			begun := time.Now()
			w.replicas[0].start()
			wait(30 * time.Second)
			if took := w.first("a", begun).Sub(begun); took < 20*time.Second || took > 21*time.Second {
				t.Errorf("with a Lease renewed %d years from now, the replica leads after %v, want the 20s of the holder", years, took)
			}
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "operator"}}
			w.must(w.server.Get(lease))
			if transitions := *lease.Spec.LeaseTransitions; transitions != 8 {
				t.Errorf("the Lease counts %d transitions, want 8", transitions)
			}
		})
	}
}

func TestAControllerOfEveryReplicaRunsOnTheStandbys(t *testing.T) {
	var counted tally
	inWorld(t, 2, nil, func(w *world) {
		for _, replica := range w.replicas {
			w.must(replica.manager.Add("each", func(ctx context.Context, request operators.Request) (time.Duration, error) {
				counted.add("reconciled by " + replica.name)
				_, err := controller.Patch(ctx, replica.manager.Client(), config(request.Name), controller.RawPatch(types.MergePatchType, []byte(`{"data":{"seen-`+replica.name+`":"yes"}}`)))
				return 0, err
			}, controller.For(&corev1.ConfigMap{}), controller.EveryReplica()))
			for name, every := range map[string]bool{"each": true, "leader": false} {
				w.must(replica.manager.AddRunnable(controller.Runnable{Name: name, EveryReplica: every, Run: func(ctx context.Context) error {
					counted.add(name + " " + replica.name)
					<-ctx.Done()
					return nil
				}}))
			}
		}
		w.create("one")
		w.replicas[0].start()
		wait(time.Second)
		w.replicas[1].start()
		wait(time.Minute)
		if counted.of("reconciled by a") == 0 || counted.of("reconciled by b") == 0 || w.replicas[1].count() > 0 {
			t.Errorf("of the controllers: %v, and %d reconciles of the other one on the standby", &counted, w.replicas[1].count())
		}
		object := config("one")
		w.must(w.server.Get(object))
		if object.Data["seen-a"] != "yes" || object.Data["seen-b"] != "yes" {
			t.Errorf("the writes of each replica: %v", object.Data)
		}
		if counted.of("each a") != 1 || counted.of("each b") != 1 || counted.of("leader a") != 1 || counted.of("leader b") != 0 {
			t.Errorf("runnables: %v", &counted)
		}
		w.replicas[0].stop()
		wait(time.Second)
		if counted.of("leader b") != 1 {
			t.Errorf("runnables after the first replica has ended: %v", &counted)
		}
	})
}

func TestAControllerThatIsAddedLaterFollowsTheLease(t *testing.T) {
	inWorld(t, 2, nil, func(w *world) {
		var added tally
		w.create("one")
		w.replicas[0].start()
		wait(time.Second)
		w.replicas[1].start()
		wait(time.Second)
		for _, replica := range w.replicas {
			w.must(replica.manager.Add("late", func(context.Context, operators.Request) (time.Duration, error) {
				added.add(replica.name)
				return 0, nil
			}, controller.For(&corev1.ConfigMap{})))
		}
		wait(time.Second)
		if added.of("a") == 0 || added.of("b") != 0 {
			t.Errorf("reconciles of the late controller: %v", &added)
		}
		w.must(w.replicas[0].manager.Remove(w.t.Context(), "late"))
		w.replicas[0].stop()
		wait(time.Second)
		if added.of("b") == 0 {
			t.Errorf("reconciles of the late controller, when the leader has ended: %v", &added)
		}
		w.must(w.replicas[1].manager.Remove(w.t.Context(), "late"))
		synctest.Wait()
		w.check()
	})
}

// TestAnAnswerThatIsLostIsNoLossOfTheLease loses the answers to acquisitions and renewals.
func TestAnAnswerThatIsLostIsNoLossOfTheLease(t *testing.T) {
	inWorld(t, 1, nil, func(w *world) {
		a := w.replicas[0]
		w.create("one")
		lose := func(request *http.Request) bool { return isLease(request) && request.Method != http.MethodGet }
		for range 5 {
			a.loseAnswer(lose)
			if a.group == nil {
				a.start()
			}
			wait(7 * time.Second)
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "operator"}}
		w.must(w.server.Get(lease))
		if transitions := *lease.Spec.LeaseTransitions; transitions != 0 || w.holder() != "a" {
			t.Errorf("the Lease names %q after %d transitions", w.holder(), transitions)
		}
		if a.count() < 50 {
			t.Errorf("a has reconciled %d times", a.count())
		}
		w.check()
	})
}

// The watch may be forbidden to the operator, or its connection may be half open.
func TestAStandbyWhoseWatchHangsTakesOverInTime(t *testing.T) {
	inWorld(t, 2, nil, func(w *world) {
		a, b := w.replicas[0], w.replicas[1]
		w.create("one")
		a.start()
		wait(5 * time.Second)
		b.hang(func(request *http.Request) bool {
			return isLease(request) && request.URL.Query().Get("watch") == "true"
		})
		b.start()
		wait(3 * time.Second)
		a.hang(all)
		died := time.Now()
		wait(leaseDuration + 2*retryPeriod + time.Second)
		if len(w.since(died.Add(time.Second))) == 0 {
			t.Error("no replica has written since the death")
		}
		w.check()
	})
}
