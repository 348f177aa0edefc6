package controller_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	objects "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func TestAWatchLastsFromTheFirstControllerThatNeedsItToTheLast(t *testing.T) {
	inPark(t, func(p *park) {
		p.begin("first", ofConfigs, config("x"), config("y"))
		p.want("at the start", "first/x", "first/y")
		p.watches("at the start", 1, 1)

		p.add("second", ofConfigs)
		p.calm()
		p.want("of a second controller", "second/x", "second/y")
		p.watches("with a second controller", 1, 1)
		p.touch("x")
		p.calm()
		p.want("after a change", "first/x", "second/x")

		p.remove("first")
		p.watches("without the first", 1, 1)
		p.forgotten("first")
		p.touch("x")
		p.calm()
		p.want("without the first", "second/x")

		p.remove("second")
		p.watches("without controllers", 0, 1)
		p.gone(configKind)
		p.forgotten("second")
		if level := p.manager.Cache().Level(); level != cache.Starting {
			p.t.Errorf("without controllers the level is %v", level)
		}
		p.touch("y")
		p.create(config("z"))
		<-time.After(time.Hour)
		p.want("without controllers")

		p.add("first", ofConfigs)
		p.calm()
		p.want("of one that is added again", "first/x", "first/y", "first/z")
		p.watches("with one that is added again", 1, 2)
		if len(p.mentions("first")) == 0 || len(p.mentions("ConfigMap")) == 0 {
			p.t.Error("it is not in the metrics")
		}
		p.stop()
	})
}

// A controller that joins a running manager gets the same requests as at a start.
func TestAControllerThatIsAddedLaterIsAskedForTheSame(t *testing.T) {
	owned := func(name, owner string) *corev1.Secret {
		made := secret(name)
		yes := true
		made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner, Controller: &yes}}
		return made
	}
	options := []controller.Option{
		controller.For(&corev1.ConfigMap{}, controller.When(func(change streams.Change) bool { return change.New.GetName() != "ignored" })),
		controller.Owns(&corev1.Secret{}),
		controller.Watches(&corev1.Pod{}, func(streams.Object) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: "a", Name: "mapped"}}
		}),
	}
	for name, others := range map[string][]controller.Option{
		"before Run":                      nil,
		"where its kinds are watched":     options,
		"where none of them is watched":   {controller.For(&corev1.Node{}, controller.ClusterScoped())},
		"where one of them is watched":    {ofSecrets},
		"where its own kind is not there": {controller.For(&corev1.Pod{}), controller.Owns(&corev1.Secret{})},
	} {
		t.Run(name, func(t *testing.T) {
			inPark(t, func(p *park) {
				p.create(config("x"), config("ignored"), owned("x-child", "x"), owned("orphan", "gone"))
				p.create(&corev1.Pod{ObjectMeta: named("pod")})
				if others != nil {
					p.add("others", others...)
					p.run()
					p.calm()
					p.forget()
				}
				p.must(p.manager.Add("horses", func(_ context.Context, request operators.Request) (time.Duration, error) {
					for _, cause := range request.Causes {
						if cause.Type != streams.Listed || cause.ResourceVersion == "" {
							p.t.Errorf("a cause of %s is %+v", request.Name, cause)
						}
					}
					if len(request.Causes) == 0 || len(listed[*corev1.Secret](p.manager.Client())) != 2 {
						p.t.Errorf("%s is reconciled for %v before the caches are filled", request.Name, request.Causes)
					}
					return 0, nil
				}, options...))
				if others == nil {
					p.run()
				}
				p.calm()
				p.want("in all", "horses/gone", "horses/mapped", "horses/x")
				p.stop()
			})
		})
	}
}

func TestItIsNotCalmBeforeAControllerThatIsAddedHasJoined(t *testing.T) {
	inPark(t, func(p *park) {
		p.begin("others", ofConfigs, config("x"))
		slowly := func(streams.Object) []types.NamespacedName {
			<-time.After(time.Minute)
			return nil
		}
		p.add("slow", ofConfigs, controller.Watches(&corev1.ConfigMap{}, slowly))
		for range 5 {
			if level := p.manager.Cache().Level(); level == cache.Settled {
				p.t.Error("the level is Settled while a controller joins")
			}
			<-time.After(10 * time.Second)
		}
		p.calm()
		p.want("in all", "others/x", "slow/x")
		p.stop()
	})
}

func TestAControllerThatIsAddedDuringTheStartDoesNotHoldItUp(t *testing.T) {
	inPark(t, func(p *park) {
		p.must(p.server.Uninstall(secret("")))
		p.create(config("x"))
		p.add("configs", ofConfigs)
		p.run()
		synctest.Wait()
		p.add("secrets", ofSecrets)
		<-time.After(2 * time.Minute)
		p.want("after the start", "configs/x")
		p.stop()
	}, sourcestest.Fault{Action: sourcestest.Slow, Verb: "list", Resource: "configmaps", For: time.Minute})
}

func TestARuleThatPanicsWhenAControllerJoinsIsTold(t *testing.T) {
	inPark(t, func(p *park) {
		p.begin("others", ofSecrets, config("x"), secret("x"))
		p.add("broken", ofConfigs, controller.Watches(&corev1.Secret{}, func(streams.Object) []types.NamespacedName { panic("broken") }))
		p.calm()
		p.want("in all", "broken/x", "others/x")
		// The map function is retried, and holds up Settled until it has failed three times.
		if len(p.failed) != 3 || p.failed[0].Error() != "rule of broken: Secret a/x: panic: broken" {
			p.t.Errorf("the failures are %v", p.failed)
		}
		p.stop()
	})
}

// The config maps are cached already; the list of secrets takes a minute.
func TestAControllerThatIsAddedReconcilesNothingBeforeItsKindsAreCurrent(t *testing.T) {
	inPark(t, func(p *park) {
		p.begin("configs", ofConfigs, config("x"), secret("x"))
		p.want("before", "configs/x")
		added := time.Now()
		p.must(p.manager.Add("both", func(context.Context, operators.Request) (time.Duration, error) {
			if since := time.Since(added); since < time.Minute {
				p.t.Errorf("it reconciles after %v, when secrets are not listed", since)
			}
			return 0, nil
		}, ofConfigs, controller.Owns(&corev1.Secret{})))
		<-time.After(10 * time.Second)
		if level := p.manager.Cache().Level(); level != cache.Starting {
			p.t.Errorf("the level is %v while a kind is not listed", level)
		}
		p.touch("x")
		p.create(config("y"))
		<-time.After(10 * time.Second)
		p.want("meanwhile", "configs/x", "configs/y")
		p.calm()
		p.want("in the end", "both/x", "both/y")
		p.stop()
	}, sourcestest.Fault{Action: sourcestest.Slow, Verb: "list", Resource: "secrets", For: time.Minute})
}

func TestAControllerOfAKindThatIsNotInstalledHoldsUpNobody(t *testing.T) {
	inPark(t, func(p *park) {
		p.must(p.server.Uninstall(secret("")))
		p.begin("configs", ofConfigs, config("x"))
		p.add("secrets", ofSecrets)
		<-time.After(time.Minute)
		p.touch("x")
		<-time.After(time.Minute)
		p.want("meanwhile", "configs/x", "configs/x")
		p.remove("secrets")
		p.gone(secretKind)
		p.calm()
		p.add("secrets", ofSecrets)
		<-time.After(time.Minute)
		p.must(p.server.Install(secret("")))
		p.create(secret("x"))
		p.must(p.manager.Cache().Wait(p.t.Context(), cache.Current, secretKind))
		p.calm()
		p.want("when it is installed", "secrets/x")
		p.stop()
	})
}

func TestControllersComeAndGoBeforeRun(t *testing.T) {
	inPark(t, func(p *park) {
		p.create(config("x"), secret("x"))
		p.add("configs", ofConfigs)
		p.add("secrets", ofSecrets)
		p.remove("configs")
		p.gone(configKind)
		p.remove("secrets")
		p.refused(p.manager.Run(p.t.Context()), "the manager has no controllers; call Add before Run")
		p.add("secrets", ofSecrets)
		p.run()
		p.calm()
		p.want("at the start", "secrets/x")
		p.watches("at the start", 1, 1)
		p.stop()
	})
}

func TestAControllerThatIsRefusedWhileTheManagerRunsLeavesNothing(t *testing.T) {
	inPark(t, func(p *park) {
		p.begin("configs", ofConfigs, config("x"), secret("x"))
		p.want("at the start", "configs/x")
		err := p.manager.Add("refused", nothing, ofSecrets, controller.Owns(&corev1.ConfigMap{}, controller.LabelSelector("app")))
		if err == nil || !strings.Contains(err.Error(), "ConfigMap is watched twice") {
			p.t.Errorf("the error is %v", err)
		}
		if level := p.manager.Cache().Level(); level < cache.Settled {
			p.t.Errorf("the level is %v", level)
		}
		p.gone(secretKind)
		<-time.After(time.Minute)
		p.want("after that")
		p.watches("after that", 1, 1)
		p.stop()
	})
}

// Bookmarks arrive every minute and carry no change.
func TestBookmarksDoNotPutOffTheCalm(t *testing.T) {
	inPark(t, func(p *park) {
		p.create(config("x"))
		p.must(p.manager.Add("configs", func(context.Context, operators.Request) (time.Duration, error) {
			<-time.After(time.Minute) // This is the loop duration.
			return 0, nil
		}, ofConfigs))
		p.run()
		<-time.After(time.Minute)
		started := time.Now()
		p.calm()
		if took, quiet := time.Since(started), p.manager.Cache().Loop().QuietPeriod(); quiet < 5*time.Minute || took > quiet+time.Minute {
			p.t.Errorf("it took %v to settle, and the quiet period is %v", took, quiet)
		}
		p.stop()
	})
}

// broken is a projection that the cache cannot index, because GetOwnerReferences panics.
type broken struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (b *broken) DeepCopyObject() objects.Object              { copied := *b; return &copied }
func (b *broken) GetOwnerReferences() []metav1.OwnerReference { panic("broken") }
func (b *broken) SetOwnerReferences([]metav1.OwnerReference)  {}

func TestAPipelineThatPanicsEndsTheManager(t *testing.T) {
	inPark(t, func(p *park) {
		p.create(secret("x"))
		p.add("broken", controller.For(&broken{}, controller.Project(func(*corev1.Secret) *broken { return &broken{} })))
		p.refused(p.manager.Run(p.t.Context()), "pipeline: it ended by itself: panic: broken")
	})
}

func TestWhatIsEarlyDoesNotWaitForLists(t *testing.T) {
	for name, test := range map[string]struct {
		fields string
		slow   sourcestest.Fault
	}{
		"of other kinds":                        {"", sourcestest.Fault{Resource: "secrets"}},
		"of its own kind":                       {"metadata.name=born", sourcestest.Fault{Resource: "configmaps", Nth: 2}},
		"where the server cannot select fields": {"spec.unknown=x", sourcestest.Fault{Resource: "secrets"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.slow.Action, test.slow.Verb, test.slow.For = sourcestest.Slow, "list", time.Minute
				p := newPark(t, test.slow)
				fresh := func(config *corev1.ConfigMap) bool { return config.Labels["fresh"] != "" }
				born := config("born")
				born.Labels = map[string]string{"fresh": "yes"}
				p.create(config("old"), born)
				p.add("both", controller.For(&corev1.ConfigMap{}, controller.ReconcileBeforeSync(fresh, test.fields)), controller.Owns(&corev1.Secret{}))
				p.run()
				<-time.After(time.Second)
				p.want("before all are listed", "both/born")
				if level := p.manager.Cache().Level(); level != cache.Starting {
					t.Errorf("the level is %v meanwhile", level)
				}
				p.calm()
				p.want("after that", "both/old")
				p.stop()
			})
		})
	}
}
