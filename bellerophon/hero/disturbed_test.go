package hero

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestAHeroOfTwoMembersIsRolled(t *testing.T) {
	w := newWorld(t)
	w.create(heroName, map[string]any{"replicas": int64(2)})
	w.ready()
	w.put("horse", "pegasus")
	w.change(`{"spec":{"config":{"log-level":"debug"}}}`)
	for _, member := range w.ready().Status.Members {
		if target := w.hero(heroName).Status.TargetRevision; member.Revision != target {
			t.Errorf("%s has the revision %s, want %s", member.Name, member.Revision, target)
		}
	}
	w.wantHorse()
}

// The enemy is a person who scales the StatefulSet instead of the hero.
func TestAScaledStatefulSetComesBackWithItsData(t *testing.T) {
	for _, to := range []int{0, 1} {
		t.Run(fmt.Sprint(to), func(t *testing.T) {
			w := newWorld(t)
			w.create(heroName, map[string]any{"replicas": int64(3)})
			before := w.ready()
			w.put("horse", "pegasus")
			scale := fmt.Sprintf(`{"spec":{"replicas":%d}}`, to)
			if _, err := w.core.AppsV1().StatefulSets(w.namespace).Patch(w.ctx, heroName, types.MergePatchType, []byte(scale), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			w.eventually("the operator has seen it", func() error {
				set, err := w.core.AppsV1().StatefulSets(w.namespace).Get(w.ctx, heroName, metav1.GetOptions{})
				if err == nil && (set.Generation < 3 || set.Status.ObservedGeneration < set.Generation) {
					err = fmt.Errorf("generation %d is observed of %d", set.Status.ObservedGeneration, set.Generation)
				}
				return err
			})
			after := w.ready()
			w.wantHorse()
			if claims := w.claims(); len(claims) != 3 {
				t.Errorf("the volumes are %v", claims)
			}
			for i, member := range after.Status.Members {
				if member.ID != before.Status.Members[i].ID {
					t.Errorf("%s has lost its volume", member.Name)
				}
			}
		})
	}
}

func TestAHeroShrinksOnlyWhenTheMembersThatStayLive(t *testing.T) {
	w := newWorld(t)
	w.create(heroName, map[string]any{"replicas": int64(3)})
	w.ready()
	w.put("horse", "pegasus")
	w.kubelet.signal("bellerophon-0", syscall.SIGSTOP) // If it led, another one does.
	w.change(`{"spec":{"replicas":1}}`)
	w.eventually("it waits", func() error {
		found := meta.FindStatusCondition(w.hero(heroName).Status.Conditions, v1.ConditionProgressing)
		if found == nil || !strings.Contains(found.Message, "bellerophon-0 has to be ready first") {
			return fmt.Errorf("%+v", found)
		}
		return nil
	})
	code, said, err := w.call("PUT", "/v1/keys/rider", "bellerophon")
	for end := time.Now().Add(10 * time.Second); (err != nil || code != 200) && time.Now().Before(end); {
		code, said, err = w.call("PUT", "/v1/keys/rider", "bellerophon")
	}
	if err != nil || code != 200 {
		t.Errorf("a write ends with %d %s, %v", code, said, err)
	}
	w.kubelet.signal("bellerophon-0", syscall.SIGCONT)
	w.ready()
	w.wantHorse()
}
