package hero

import (
	"fmt"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/shards"
)

// follows returns how many members the operator follows, and of how many heroes.
func (r *reconciler) follows() (members, heroes int) {
	r.mu.Lock()
	heroes = len(r.claims)
	r.mu.Unlock()
	r.members.mu.Lock()
	defer r.members.mu.Unlock()
	return len(r.members.known), heroes
}

// TestReplicasShareHeroesAndForgetThoseTheyGiveUp has two operators. One joins late, and leaves again.
func TestReplicasShareHeroesAndForgetThoseTheyGiveUp(t *testing.T) {
	w := newWorld(t)
	w.stop()
	const count = 8
	for i := range count {
		w.create(fmt.Sprint("hero-", i), map[string]any{"replicas": int64(1)})
	}
	share := func(identity string) controller.Options {
		return controller.Options{Shards: &shards.Options{Group: "heroes", Namespace: w.namespace, Identity: identity}}
	}
	allRun := func(generation int64) error {
		for i := range count {
			hero := w.hero(fmt.Sprint("hero-", i))
			if hero.Status.Phase != v1.PhaseRunning || hero.Status.ObservedGeneration != generation {
				return fmt.Errorf("%s has the status %+v", hero.Name, hero.Status)
			}
		}
		return nil
	}
	first, _, _ := w.operator(w.config, share("first"))
	w.eventually("all run", func() error { return allRun(1) })
	second, _, leave := w.operator(w.config, share("second"))
	w.eventually("each hero has one operator", func() error {
		ofFirst, heroesOfFirst := first.follows()
		ofSecond, heroesOfSecond := second.follows()
		if ofFirst == 0 || ofSecond == 0 || ofFirst+ofSecond != count || heroesOfFirst+heroesOfSecond != count {
			return fmt.Errorf("they follow %d and %d members of %d and %d heroes", ofFirst, ofSecond, heroesOfFirst, heroesOfSecond)
		}
		return nil
	})
	for i := range count {
		w.changeOf(fmt.Sprint("hero-", i), `{"spec":{"config":{"log-level":"debug"}}}`)
	}
	w.eventually("all are rolled", func() error { return allRun(2) })
	leave()
	w.eventually("the first one has all", func() error {
		if members, heroes := first.follows(); members != count || heroes != count {
			return fmt.Errorf("it follows %d members of %d heroes", members, heroes)
		}
		return nil
	})
}
