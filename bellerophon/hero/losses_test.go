package hero

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volumeOf returns the folder of the volume of a pod.
func (w *world) volumeOf(pod string) (folder string) {
	w.t.Helper()
	w.eventually("there is a claim of "+pod, func() error {
		claim, err := w.core.CoreV1().PersistentVolumeClaims(w.namespace).Get(w.ctx, volumeData+"-"+pod, metav1.GetOptions{})
		if err == nil {
			folder = filepath.Join(w.kubelet.dir, string(claim.UID))
		}
		return err
	})
	return folder
}

// damage overwrites the log of a pod's member, and kills the member.
func (w *world) damage(pod string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.volumeOf(pod), "raft.db"), []byte(strings.Repeat("damaged ", 10_000)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.kubelet.kill(pod)
}

// degraded waits until the hero has a problem.
func (w *world) degraded(reason, text string) {
	w.t.Helper()
	w.eventually("the hero says "+reason, func() error {
		found := meta.FindStatusCondition(w.hero(heroName).Status.Conditions, v1.ConditionDegraded)
		if found == nil || found.Reason != reason || !strings.Contains(found.Message, text) {
			return fmt.Errorf("%+v", found)
		}
		return nil
	})
}

func TestAMemberWithADamagedVolumeIsReplacedWithoutAPerson(t *testing.T) {
	w := newWorld(t)
	w.create(heroName, map[string]any{"replicas": int64(3)})
	before := w.ready()
	w.put("horse", "pegasus")
	w.damage(before.Status.Leader)
	number := ordinalOf(before.Status.Leader)
	w.eventually("another member is in its place", func() error {
		hero := w.hero(heroName)
		if hero.Status.Phase != v1.PhaseRunning || hero.Status.Members[number].ID == before.Status.Members[number].ID {
			return fmt.Errorf("%+v", hero.Status)
		}
		return nil
	})
	w.wantHorse()
}

// The volume of the only member may be all that is left, so nothing deletes it.
func TestTheDamagedVolumeOfTheLastMemberStays(t *testing.T) {
	w := newWorld(t)
	w.create(heroName, map[string]any{"replicas": int64(1)})
	w.ready()
	claims := w.claims()
	w.damage("bellerophon-0")
	w.degraded("DataLost", "restores a backup")
	if after := w.claims(); len(after) != 1 || after[0] != claims[0] {
		t.Errorf("the claims are %v, want %v", after, claims)
	}
}

func TestAVolumeOfAnotherClusterIsNotAdmittedAndBlocksNoOthers(t *testing.T) {
	w := newWorld(t)
	w.create(heroName, map[string]any{"replicas": int64(1)})
	w.ready()
	w.put("horse", "pegasus")
	w.kubelet.prepare = func(pod, folder string) {
		if pod == "bellerophon-1" {
			content := `{"id":"bellerophon-1.former","cluster":"another"}`
			if err := os.WriteFile(filepath.Join(folder, "identity.json"), []byte(content), 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	w.change(`{"spec":{"replicas":3}}`)
	w.degraded("ForeignVolume", "data-bellerophon-1 has the data of another cluster, another")
	w.eventually("the other member joins", func() error {
		if hero := w.hero(heroName); len(hero.Status.Members) < 3 || !hero.Status.Members[2].Ready {
			return fmt.Errorf("%+v", hero.Status.Members)
		}
		return nil
	})
	w.wantHorse()
}

func TestTheLossOfAMajorityNeedsAPersonAndTheRestCanBeSaved(t *testing.T) {
	w := newWorld(t)
	w.create(heroName, map[string]any{"replicas": int64(3)})
	w.ready()
	w.put("horse", "pegasus")
	rest := "http://" + w.kubelet.running()["bellerophon-2"] + "/v1/snapshot?consistency=local"
	saved := func() error { // A follower applies a write a moment after the leader.
		response, err := plain.Get(rest)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		content, err := io.ReadAll(response.Body)
		if err == nil && !strings.Contains(string(content), "pegasus") {
			err = fmt.Errorf("%s: %q", response.Status, content)
		}
		return err
	}
	w.eventually("the last member has the key", saved)
	for _, pod := range []string{"bellerophon-0", "bellerophon-1"} {
		w.damage(pod)
	}
	w.degraded("MajorityLost", "bellerophon-0 and bellerophon-1 lost their volumes, 2 of the 3 members that vote")
	w.degraded("MajorityLost", "bellerophon-2 still has the keys")
	if err := saved(); err != nil {
		t.Errorf("the rest: %v", err)
	}
	if claims := w.claims(); len(claims) != 3 {
		t.Errorf("the claims are %v", claims)
	}
}
