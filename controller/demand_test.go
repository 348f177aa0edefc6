package controller_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// secretsOnDemand watches secrets on demand, and maps each to the config map of the same name.
var secretsOnDemand = controller.Watches(&corev1.Secret{}, func(object streams.Object) []types.NamespacedName {
	return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: object.GetName()}}
}, controller.OnDemand())

// demand sets whether secrets are wanted, and reports whether they are current.
func (p *park) demand(wanted bool) (current bool) {
	return setClaim[*corev1.Secret](p.manager.Client(), &p.claim, wanted)
}

// setClaim holds a claim on a kind, or none. It reports whether a kind that is claimed is current.
func setClaim[T streams.Object](c *controller.Client, held **controller.Claim, wanted bool) (current bool) {
	former := *held
	if *held = nil; wanted {
		if made, err := controller.NewClaim[T](c); err == nil {
			*held = made
		}
	}
	if former != nil {
		former.Release()
	}
	return *held != nil && (*held).Current()
}

func TestAKindIsWatchedUntilItsLastClaimIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark(t)
		p.create(config("x"), secret("x"))
		p.add("both", ofConfigs, secretsOnDemand)
		p.run()
		var claims []*controller.Claim
		for range 3 {
			made, err := controller.NewClaim[*corev1.Secret](p.manager.Client())
			p.must(err)
			claims = append(claims, made)
		}
		p.calm()
		p.watches("with three claims", 2, 2)
		for range 5 { // Another Release of one claim releases nothing else.
			claims[0].Release()
		}
		claims[1].Release()
		<-time.After(2 * time.Minute)
		p.watches("with one claim", 2, 2)
		if !claims[2].Current() {
			t.Error("secrets are claimed but not current")
		}
		claims[2].Release()
		<-time.After(2 * time.Minute)
		p.watches("without a claim", 1, 2)
		p.stop()
	})
}

func (p *park) wantSecrets(when string, want int) {
	p.t.Helper()
	if got := len(listed[*corev1.Secret](p.manager.Client())); got != want {
		p.t.Errorf("%s %d secrets are found, want %d", when, got, want)
	}
}

func TestAKindOnDemandIsWatchedWhileItIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark(t)
		p.create(config("x"), config("y"), secret("x"))
		p.add("both", ofConfigs, secretsOnDemand)
		p.run()
		p.calm()
		p.want("at the start", "both/x", "both/y")
		p.watches("at the start", 1, 1)
		p.wantSecrets("at the start", 0)
		p.forgotten("Secret")
		if p.demand(false) {
			t.Error("secrets are current but not watched")
		}

		p.demand(true)
		p.calm()
		p.want("of what there is", "both/x")
		p.watches("when it is wanted", 2, 2)
		p.wantSecrets("when it is wanted", 1)
		if !p.demand(true) {
			t.Error("secrets are watched but not current")
		}
		p.create(secret("y"))
		p.calm()
		p.want("of what comes", "both/y")

		p.demand(false)
		<-time.After(59 * time.Second)
		p.watches("while it lingers", 2, 2)
		p.demand(true)
		<-time.After(90 * time.Second)
		p.watches("when it is wanted again", 2, 2)
		p.demand(false)
		<-time.After(61 * time.Second)
		p.watches("when it is wanted no more", 1, 2)
		p.wantSecrets("when it is wanted no more", 0)
		p.gone(secretKind)
		p.want("for all that")

		p.demand(true)
		p.calm()
		p.want("the second time", "both/x", "both/y")
		p.remove("both")
		p.watches("without the controller", 0, 3)
		p.gone(secretKind)
		p.stop()
	})
}

func TestAKindOnDemandIsSharedWithThoseThatNeedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark(t)
		p.create(config("x"), secret("x"))
		p.add("both", ofConfigs, secretsOnDemand)
		p.run()
		p.calm()
		p.add("secrets", ofSecrets)
		p.calm()
		p.want("at the start", "both/x", "both/x", "secrets/x")
		p.watches("for a controller that needs it", 2, 2)
		if !p.demand(true) {
			t.Error("secrets are not current, and another controller watches them")
		}
		p.calm()
		p.demand(false)
		<-time.After(2 * time.Minute)
		p.watches("when it is wanted no more", 2, 2)
		p.demand(true)
		synctest.Wait()
		p.remove("secrets")
		p.watches("without that controller", 2, 2)
		p.demand(false)
		<-time.After(2 * time.Minute)
		p.watches("when nobody needs it", 1, 2)
		p.stop()
	})
}

func TestTheLevelDoesNotWaitForAKindOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark(t, sourcestest.Fault{Action: sourcestest.Slow, Verb: "list", Resource: "secrets", For: time.Hour})
		p.create(config("x"), secret("x"))
		p.add("both", ofConfigs, secretsOnDemand)
		p.demand(true)
		p.run()
		p.calm()
		p.want("at the start", "both/x")
		if p.demand(true) {
			t.Error("secrets are current but not listed")
		}
		for _, level := range []cache.Level{cache.Listed, cache.Settled} {
			if pending := p.manager.Cache().Pending(level); len(pending) > 0 {
				t.Errorf("%v waits for %v", level, pending)
			}
		}
		<-time.After(time.Hour)
		p.calm()
		p.want("when it is listed", "both/x")
		if !p.demand(true) {
			t.Error("secrets are listed but not current")
		}
		p.stop()
	})
}

func TestADemandEndsWithTheLastControllerThatMayHaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark(t)
		p.create(config("x"), secret("x"))
		p.add("secrets", ofSecrets)
		p.add("both", ofConfigs, secretsOnDemand)
		p.run()
		p.demand(true)
		p.calm()
		p.remove("both")
		p.add("both", ofConfigs, secretsOnDemand)
		p.calm()
		p.remove("secrets")
		p.watches("without a demand of the new one", 1, 3)
		p.demand(true)
		p.calm()
		p.watches("with one", 2, 4)
		p.stop()
	})
}

func TestAKindOnDemandThatOthersNeededDoesNotHoldUpTheLevelAfterThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark(t)
		p.create(config("x"), secret("x"))
		p.add("both", ofConfigs, secretsOnDemand)
		p.run()
		p.demand(true)
		p.calm()
		p.add("secrets", ofSecrets)
		p.calm()
		p.remove("secrets")
		p.calm()
		p.must(p.server.Uninstall(secret("x")))
		<-time.After(time.Minute)
		if level := p.manager.Cache().Level(); p.demand(true) || level < cache.OwnWritesVisible {
			t.Errorf("without secrets, which nobody needs, the level is %v", level)
		}
		p.stop()
	})
}

func TestIndexesOfAKindOnDemandAreThoseOfTheFirstThatMayWantIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark(t)
		byApp := controller.Indexed(cache.LabelIndexer("app"))
		onDemand := controller.Watches(&corev1.Secret{}, func(streams.Object) []types.NamespacedName { return nil }, controller.OnDemand(), byApp)
		p.add("first", ofConfigs, onDemand)
		p.run()
		for _, wanted := range []bool{false, true} {
			p.demand(wanted)
			p.calm()
			p.add("second", controller.For(&corev1.Secret{}, byApp))
			p.remove("second")
			err := p.manager.Add("third", nothing, controller.For(&corev1.Secret{}, controller.Indexed(cache.LabelIndexer("tier"))))
			p.refused(err, `adding controller "third": Indexed: Secret is watched already, without the index "tier"; give it to the controller that is added first`)
		}
		p.stop()
	})
}
