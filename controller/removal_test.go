package controller_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// goroutines returns the number of goroutines in synctest bubbles. The process has others, which
// come and go.
func goroutines() int {
	stacks := make([]byte, 1<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("synctest bubble"))
}

// wantGoroutines fails the test unless there are as many goroutines as before.
func (p *park) wantGoroutines(before int) {
	p.t.Helper()
	synctest.Wait()
	if after := goroutines(); after != before {
		p.t.Errorf("there are %d goroutines, want %d as before", after, before)
	}
}

func TestAControllerLeavesNoGoroutineBehind(t *testing.T) {
	inPark(t, func(p *park) {
		p.begin("configs", ofConfigs, config("x"), secret("x"))
		before := goroutines()
		for range 3 {
			p.add("secrets", ofSecrets, controller.Owns(&corev1.Pod{}))
			p.calm()
			p.watches("meanwhile", 3, p.server.Counts().Requests["watch configmaps"]+2*p.server.Counts().Requests["watch secrets"])
			p.remove("secrets")
			p.wantGoroutines(before)
		}
		p.stop()
	})
}

func TestTheObjectsOfAKindThatNobodyNeedsLeaveTheMemory(t *testing.T) {
	inPark(t, func(p *park) {
		p.create(config("x"), secret("x"), secret("y"))
		p.add("configs", ofConfigs)
		p.run()
		var kept []weak.Pointer[corev1.Secret]
		p.add("secrets", controller.For(&corev1.Secret{}, controller.Transform(func(object streams.Object) {
			kept = append(kept, weak.Make(object.(*corev1.Secret)))
		})))
		p.calm()
		inMemory := func() (left int) {
			for range 5 {
				runtime.GC()
			}
			for _, object := range kept {
				if object.Value() != nil {
					left++
				}
			}
			return left
		}
		if left := inMemory(); left < 2 {
			p.t.Fatalf("%d objects are in the memory, want those of the cache", left)
		}
		p.remove("secrets")
		if left := inMemory(); left > 0 {
			p.t.Errorf("%d objects are still in the memory", left)
		}
		p.stop()
	})
}

func TestRemoveWaitsForTheReconcileInFlight(t *testing.T) {
	inPark(t, func(p *park) {
		p.create(config("x"), secret("x"))
		p.add("others", ofSecrets)
		goOn := p.beginSlow()
		p.touch("x") // This requests another attempt, which is never made.
		synctest.Wait()
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
		defer cancel()
		err := p.manager.Remove(ctx, "slow")
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `removing controller "slow": 1 of its reconciles are in flight; the removal completes when they have ended`) {
			p.t.Errorf("the error is %v", err)
		}
		p.watches("during the reconcile", 2, 2)
		p.refused(p.manager.Remove(p.t.Context(), "slow"), `removing controller "slow": it is being removed already`)
		p.refused(p.manager.Add("slow", nothing, ofConfigs), `adding controller "slow": a controller of that name is being removed; wait until Remove has returned`)
		if len(p.mentions("slow")) == 0 {
			p.t.Error("a controller with a reconcile in flight is not in the metrics")
		}
		goOn()
		synctest.Wait()
		p.want("in all", "others/x", "slow/x")
		p.watches("after the reconcile", 1, 2)
		p.gone(configKind)
		p.forgotten("slow")
		p.stop()
	})
}

// Two controllers wait for the same missing kind. The removal of one does not affect the other.
func TestAControllerThatIsRemovedBeforeItHasJoinedLeavesNothingBehind(t *testing.T) {
	inPark(t, func(p *park) {
		p.must(p.server.Uninstall(secret("")))
		p.create(config("x"))
		p.add("configs", ofConfigs)
		p.run()
		p.add("secrets", ofSecrets)
		<-time.After(time.Minute)
		synctest.Wait()
		before := goroutines()
		for range 3 {
			p.add("more", ofSecrets)
			synctest.Wait()
			p.remove("more")
			p.wantGoroutines(before)
		}
		p.must(p.server.Install(secret("")))
		p.create(secret("x"))
		p.must(p.manager.Cache().Wait(p.t.Context(), cache.Current, secretKind))
		p.calm()
		p.want("in the end", "configs/x", "secrets/x")
		p.stop()
	})
}

func TestTheRulesOfAControllerThatIsRemovedAreNotAskedAnyMore(t *testing.T) {
	inPark(t, func(p *park) {
		p.create(config("x"))
		p.add("others", ofConfigs)
		asked := 0
		p.add("removed", controller.For(&corev1.ConfigMap{}, controller.When(func(streams.Change) bool { asked++; return true })))
		p.run()
		p.calm()
		p.remove("removed")
		asked = 0
		p.touch("x")
		p.calm()
		if asked > 0 {
			p.t.Errorf("they were called %d times", asked)
		}
		p.stop()
	})
}

func TestTheResultOfTheLastReconcileIsToldBeforeRemoveReturns(t *testing.T) {
	inPark(t, func(p *park) {
		p.create(config("x"))
		goOn := p.beginSlow()
		time.AfterFunc(time.Minute, goOn)
		p.remove("slow")
		p.want("when it is removed", "slow/x")
		p.watches("when it is removed", 0, 1)
		p.stop()
	})
}

func TestWhatBacksOffDoesNotHoldUpTheCalmWhenItsControllerIsRemoved(t *testing.T) {
	inPark(t, func(p *park) {
		p.create(config("x"))
		fails := func(context.Context, operators.Request) (time.Duration, error) { return 0, errors.New("no") }
		p.must(p.manager.Add("failing", fails, ofConfigs))
		p.add("others", ofConfigs)
		p.run()
		<-time.After(time.Minute)
		if level := p.manager.Cache().Level(); level >= cache.Settled {
			p.t.Fatal("the level is Settled while an object backs off")
		}
		p.remove("failing")
		removed := time.Now()
		p.calm()
		if took := time.Since(removed); took > time.Second {
			p.t.Errorf("it took %v to settle", took)
		}
		p.must(p.manager.Add("failing", nothing, ofConfigs)) // It starts without the backoff.
		p.calm()
		p.want("in all", "failing/x", "failing/x", "others/x")
		p.stop()
	})
}

func TestAStartWithAMissingKindHoldsUpNobodyElse(t *testing.T) {
	inPark(t, func(p *park) {
		p.must(p.server.Uninstall(secret("")))
		p.create(config("x"))
		p.add("configs", ofConfigs)
		p.add("secrets", ofSecrets)
		p.run()
		<-time.After(time.Minute)
		p.calm()
		p.want("before all kinds are current", "configs/x")
		if level := p.manager.Cache().Level(); level < cache.Settled {
			p.t.Errorf("with a kind that does not count the level is %v", level)
		}
		p.remove("secrets")
		p.calm()
		p.want("when the others are")
		p.stop()
	})
}

func TestADefinitionThatGoesWithItsControllerLeavesNothingBehind(t *testing.T) {
	for _, first := range []string{"the definition", "the controller", "at once"} {
		t.Run(first, func(t *testing.T) {
			inPark(t, func(p *park) {
				p.create(config("x"), secret("x"))
				p.add("configs", ofConfigs)
				p.add("secrets", ofSecrets)
				p.run()
				p.calm()
				p.want("before", "configs/x", "secrets/x")
				switch first {
				case "the definition":
					p.must(p.server.Uninstall(secret("")))
					<-time.After(time.Minute) // The watch backs off.
					p.want("after the end of the definition", "secrets/x")
					p.remove("secrets")
				case "the controller":
					p.remove("secrets")
					p.must(p.server.Uninstall(secret("")))
				default:
					p.must(p.server.Uninstall(secret("")))
					p.remove("secrets")
					p.forget() // It may have reconciled the deletion, or not.
				}
				p.gone(secretKind)
				asked := p.server.Counts().Requests
				p.calm()
				<-time.After(time.Hour)
				for request, times := range p.server.Counts().Requests {
					if strings.HasSuffix(request, " secrets") && times != asked[request] {
						p.t.Errorf("%q is still requested", request)
					}
				}
				p.want("after the removal")
				p.stop()
			})
		})
	}
}

func TestWhatCannotBeRemovedIsToldWhy(t *testing.T) {
	inPark(t, func(p *park) {
		p.add("configs", ofConfigs)
		p.add("secrets", ofSecrets)
		unknown := `removing controller "horses": there is no such controller; there are: configs, secrets`
		p.refused(p.manager.Remove(p.t.Context(), "horses"), unknown)
		asked := make(chan error, 1)
		p.must(p.manager.Add("suicidal", func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			asked <- p.manager.Remove(ctx, "suicidal")
			return 0, p.manager.Remove(ctx, "secrets")
		}, ofConfigs))
		p.create(config("x"))
		p.run()
		p.refused(<-asked, `removing controller "suicidal": its own reconcile would wait for itself; call Remove from elsewhere`)
		p.calm() // The reconcile has removed the controller of secrets.
		p.refused(p.manager.Remove(p.t.Context(), "secrets"), `removing controller "secrets": there is no such controller; there are: configs, suicidal`)
		if open := p.server.Counts().Watches; open != 1 { // The watch of secrets is closed, if it was opened at all.
			p.t.Errorf("in the end %d watches are open", open)
		}
		p.refused(p.manager.Run(p.t.Context()), "the manager runs already, or has ended; make another one")
		p.stop()
		p.refused(p.manager.Add("late", nothing, ofConfigs), `adding controller "late": the manager has ended; make another one`)
		p.refused(p.manager.Run(p.t.Context()), "the manager runs already, or has ended; make another one")
		p.remove("suicidal")
	})
}

func TestTheEndOfTheManagerEndsARemoval(t *testing.T) {
	inPark(t, func(p *park) {
		p.create(config("x"))
		goOn := p.beginSlow()
		time.AfterFunc(time.Second, p.group.Stop)
		time.AfterFunc(2*time.Second, goOn)
		p.refused(p.manager.Remove(p.t.Context(), "slow"), `removing controller "slow": the manager has ended`)
		p.stop()
	})
}

// When the last controller of a kind is removed, the kind may be kept in another form.
func TestTheFormOfAKindIsFreeWhenItsLastControllerIsRemoved(t *testing.T) {
	inPark(t, func(p *park) {
		p.begin("configs", ofConfigs, config("x"))
		metadata := controller.For(&controller.Metadata[corev1.ConfigMap]{})
		if err := p.manager.Add("metadata", nothing, metadata); err == nil {
			p.t.Error("a kind is kept in two forms")
		}
		p.remove("configs")
		p.add("metadata", metadata)
		p.calm()
		name := types.NamespacedName{Namespace: "a", Name: "x"}
		if _, found := cached[*controller.Metadata[corev1.ConfigMap]](p.manager.Client(), name); !found {
			p.t.Error("the object is not in the cache")
		}
		if _, err := controller.List[*corev1.ConfigMap](p.t.Context(), p.manager.Client()); !errors.Is(err, controller.ErrPartial) {
			p.t.Errorf("the form of the removed controller is read: %v", err)
		}
		p.remove("metadata")
		if _, err := controller.List[*corev1.ConfigMap](p.t.Context(), p.manager.Client()); !errors.Is(err, controller.ErrNotDeclared) {
			p.t.Errorf("a kind that no controller watches is read: %v", err)
		}
		p.stop()
	})
}
