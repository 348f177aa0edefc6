package hero

import (
	"fmt"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func votes(hero *v1.Bellerophon) (voters int) {
	for _, one := range hero.Status.Members {
		if one.Role == "leader" || one.Role == "follower" {
			voters++
		}
	}
	return voters
}

func TestAHeroMakesOneClusterGrowsAndShrinksWithItsData(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(1)})
	hero := w.ready("bellerophon")
	if hero.Status.Cluster != string(hero.UID) || !hero.Status.Bootstrapped || hero.Status.Leader != "bellerophon-0" || hero.Status.Phase != v1.PhaseRunning {
		t.Errorf("the status is %+v", hero.Status)
	}
	w.put("horse", "pegasus")
	for _, replicas := range []int{3, 4, 5, 3, 1} {
		w.change("bellerophon", fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
		hero = w.ready("bellerophon")
		if len(hero.Status.Members) != replicas || votes(hero) != int(votersOf(int32(replicas))) {
			t.Errorf("with %d replicas the members are %+v", replicas, hero.Status.Members)
		}
		if hero.Status.Cluster != string(hero.UID) {
			t.Errorf("the cluster is %s", hero.Status.Cluster)
		}
		w.get("horse", "pegasus")
		w.put("horse", "pegasus")
	}
}

func TestARolloutReplacesOneMemberAtATimeAndTheLeaderLast(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	before := w.ready("bellerophon")
	w.put("horse", "pegasus")
	w.kubelet.mark()
	w.change("bellerophon", `{"spec":{"config":{"log-level":"debug"}}}`)
	after := w.ready("bellerophon")
	if after.Status.CurrentRevision == before.Status.CurrentRevision {
		t.Error("the revision is the same")
	}
	for i, one := range after.Status.Members {
		if one.Revision != after.Status.TargetRevision {
			t.Errorf("%s has the revision %s, want %s", one.Name, one.Revision, after.Status.TargetRevision)
		}
		if one.ID != before.Status.Members[i].ID {
			t.Errorf("%s was %s and is %s: it lost its volume", one.Name, before.Status.Members[i].ID, one.ID)
		}
	}
	w.get("horse", "pegasus")
	if fewest := w.kubelet.fewest(); fewest < 2 {
		t.Errorf("only %d members ran at a time", fewest)
	}
}

func TestABadImageStopsTheRolloutAndTheOldOneEndsIt(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	good := w.ready("bellerophon").Spec.Image
	w.put("horse", "pegasus")
	// The simulated node cannot pull images of this host.
	w.change("bellerophon", `{"spec":{"image":"registry.invalid/server:v2"}}`)
	w.eventually("the hero is degraded", func() error {
		if hero := w.hero("bellerophon"); hero.Status.Phase != v1.PhaseDegraded {
			return fmt.Errorf("%+v", hero.Status)
		}
		return nil
	})
	hero := w.hero("bellerophon")
	found := meta.FindStatusCondition(hero.Status.Conditions, v1.ConditionDegraded)
	if found == nil || found.Reason != "ImagePullFailed" || hero.Status.ReadyReplicas != 2 {
		t.Errorf("%d are ready, and the condition is %+v", hero.Status.ReadyReplicas, found)
	}
	w.get("horse", "pegasus")
	w.change("bellerophon", fmt.Sprintf(`{"spec":{"image":%q}}`, good))
	w.ready("bellerophon")
	w.get("horse", "pegasus")
}

func TestALostVolumeIsReplacedByANewMember(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	before := w.ready("bellerophon")
	w.put("horse", "pegasus")
	lost := "bellerophon-2"
	claims := w.core.CoreV1().PersistentVolumeClaims(w.namespace)
	if err := claims.Delete(w.ctx, "data-"+lost, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.core.CoreV1().Pods(w.namespace).Delete(w.ctx, lost, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("another member takes its place", func() error {
		hero := w.hero("bellerophon")
		for _, one := range hero.Status.Members {
			if one.Name == lost && one.ID != "" && one.ID != before.Status.Members[2].ID {
				return nil
			}
		}
		return fmt.Errorf("%+v", hero.Status.Members)
	})
	w.ready("bellerophon")
	w.get("horse", "pegasus")
}

func TestTheOperatorGoesOnWhereAnotherOneWasStopped(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	for _, replicas := range []int{3, 5, 1, 3} {
		w.change("bellerophon", fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
		for range 4 {
			wait(w.ctx, 300*time.Millisecond)
			w.stop()
			w.startOperator()
		}
		if hero := w.ready("bellerophon"); hero.Status.Cluster != string(hero.UID) || votes(hero) != replicas {
			t.Errorf("with %d replicas the status is %+v", replicas, hero.Status)
		}
	}
}

func TestAPausedHeroIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(1)})
	w.ready("bellerophon")
	w.change("bellerophon", `{"spec":{"paused":true,"replicas":3}}`)
	w.eventually("it is paused", func() error {
		if hero := w.hero("bellerophon"); hero.Status.Phase != v1.PhasePaused {
			return fmt.Errorf("%+v", hero.Status)
		}
		return nil
	})
	if err := w.core.CoreV1().Services(w.namespace).Delete(w.ctx, "bellerophon", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.change("bellerophon", `{"spec":{"paused":false}}`)
	w.ready("bellerophon")
	if _, err := w.core.CoreV1().Services(w.namespace).Get(w.ctx, "bellerophon", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
