package hero

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	hero := w.ready()
	if hero.Status.Cluster != string(hero.UID) || !hero.Status.Bootstrapped || hero.Status.Leader != "bellerophon-0" || hero.Status.Phase != v1.PhaseRunning {
		t.Errorf("the status is %+v", hero.Status)
	}
	w.put("horse", "pegasus")
	for _, replicas := range []int{3, 4, 5, 3, 1} {
		w.change(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
		hero = w.ready()
		if len(hero.Status.Members) != replicas || votes(hero) != int(votersOf(int32(replicas))) {
			t.Errorf("with %d replicas the members are %+v", replicas, hero.Status.Members)
		}
		if hero.Status.Cluster != string(hero.UID) {
			t.Errorf("the cluster is %s", hero.Status.Cluster)
		}
		w.wantHorse()
		w.put("horse", "pegasus")
	}
}

func TestARolloutReplacesOneMemberAtATimeAndTheLeaderLast(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	before := w.ready()
	w.put("horse", "pegasus")
	w.kubelet.mark()
	w.change(`{"spec":{"config":{"log-level":"debug"}}}`)
	after := w.ready()
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
	w.wantHorse()
	if fewest := w.kubelet.fewest(); fewest < 2 {
		t.Errorf("only %d members ran at a time", fewest)
	}
}

func TestABadImageStopsTheRolloutAndTheOldOneEndsIt(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	good := w.ready().Spec.Image
	w.put("horse", "pegasus")
	// The simulated node cannot pull images of this host.
	w.change(`{"spec":{"image":"registry.invalid/server:v2"}}`)
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
	w.wantHorse()
	w.change(fmt.Sprintf(`{"spec":{"image":%q}}`, good))
	w.ready()
	w.wantHorse()
}

// TestAFirstStartThatFailsIsMendedByTheNextSpec has pods that never ran: no member answers, and none can lead.
func TestAFirstStartThatFailsIsMendedByTheNextSpec(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3), "image": "registry.invalid/server:v1"})
	w.eventually("the hero is degraded", func() error {
		if hero := w.hero("bellerophon"); hero.Status.Phase != v1.PhaseDegraded {
			return fmt.Errorf("%+v", hero.Status)
		}
		return nil
	})
	w.change(`{"spec":{"image":"bellerophon-io/bellerophon-server:v1","replicas":5}}`) // More members than have pods.
	w.ready()
}

func TestALostVolumeIsReplacedByANewMember(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	before := w.ready()
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
	w.ready()
	w.wantHorse()
}

func TestTheOperatorGoesOnWhereAnotherOneWasStopped(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	for _, replicas := range []int{3, 5, 1, 3} {
		w.change(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
		for range 4 {
			wait(w.ctx, 300*time.Millisecond)
			w.stop()
			w.startOperator()
		}
		if hero := w.ready(); hero.Status.Cluster != string(hero.UID) || votes(hero) != replicas {
			t.Errorf("with %d replicas the status is %+v", replicas, hero.Status)
		}
	}
}

func TestAPausedHeroIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(1)})
	w.ready()
	w.change(`{"spec":{"paused":true,"replicas":3}}`)
	w.eventually("it is paused", func() error {
		if hero := w.hero("bellerophon"); hero.Status.Phase != v1.PhasePaused {
			return fmt.Errorf("%+v", hero.Status)
		}
		return nil
	})
	if err := w.core.CoreV1().Services(w.namespace).Delete(w.ctx, "bellerophon", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.change(`{"spec":{"paused":false}}`)
	w.ready()
	if _, err := w.core.CoreV1().Services(w.namespace).Get(w.ctx, "bellerophon", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// claims returns the names of the volume claims in the namespace.
func (w *world) claims() (names []string) {
	w.t.Helper()
	list, err := w.core.CoreV1().PersistentVolumeClaims(w.namespace).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, one := range list.Items {
		if one.DeletionTimestamp == nil {
			names = append(names, one.Name)
		}
	}
	return names
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := w.heroes.Delete(w.ctx, name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("all pods are gone", func() error {
		if running := w.kubelet.running(); len(running) > 0 {
			return fmt.Errorf("%v", running)
		}
		return nil
	})
}

func TestRetainedVolumesBelongToTheNextHeroOfTheName(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	first := w.ready()
	w.put("horse", "pegasus")
	w.remove("bellerophon")
	if claims := w.claims(); len(claims) != 3 {
		t.Fatalf("the claims are %v, want three", claims)
	}
	w.create("bellerophon", map[string]any{"replicas": int64(3), "storage": map[string]any{"retention": "Delete"}})
	second := w.ready()
	if second.UID == first.UID || second.Status.Cluster != first.Status.Cluster {
		t.Errorf("the cluster was %s and is %s", first.Status.Cluster, second.Status.Cluster)
	}
	w.wantHorse()
	w.remove("bellerophon")
	w.eventually("all volumes are deleted", func() error {
		if claims := w.claims(); len(claims) > 0 {
			return fmt.Errorf("%v", claims)
		}
		return nil
	})
}

func TestAMemberThatLeavesTakesItsVolumeAlong(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	w.ready()
	w.change(`{"spec":{"replicas":1}}`)
	w.ready()
	w.eventually("one volume is left", func() error {
		if claims := w.claims(); len(claims) != 1 || claims[0] != "data-bellerophon-0" {
			return fmt.Errorf("%v", claims)
		}
		return nil
	})
}

func TestBadSpecsAreRefusedWithAWayOut(t *testing.T) {
	w := newWorld(t)
	for want, spec := range map[string]map[string]any{
		"replicas must be between 1 and 7":       {"replicas": int64(8)},
		"config has an unknown setting; allowed": {"config": map[string]any{"quotas": "1Gi"}},
		"config quota must be a quantity":        {"config": map[string]any{"quota": "much"}},
		"config election-timeout must be":        {"config": map[string]any{"election-timeout": "soon"}},
		"config log-level must be":               {"config": map[string]any{"log-level": "loud"}},
		"storage.size must be at least 16Mi":     {"storage": map[string]any{"size": "1Mi"}},
		"image must not contain white space":     {"image": "a b"},
		"wingedHorseName must have 1 to 253":     {"wingedHorseName": strings.Repeat("x", 254)},
		"Unsupported value: \"Never\"":           {"storage": map[string]any{"retention": "Never"}},
		"backup.schedule must have five fields":  {"backup": map[string]any{"volumeClaimName": "a", "schedule": "every day"}},
		"or be @hourly, @daily":                  {"backup": map[string]any{"volumeClaimName": "a", "schedule": "61 3 * * *"}},
		"requests must not exceed":               {"resources": map[string]any{"requests": map[string]any{"cpu": "2"}, "limits": map[string]any{"cpu": "500m"}}},
		"operator must be Exists or Equal":       {"tolerations": []any{map[string]any{"key": "a", "operator": "Sometimes"}}},
		"effect must be NoSchedule":              {"tolerations": []any{map[string]any{"key": "a", "effect": "Never"}}},
		"without a key need the operator Exists": {"tolerations": []any{map[string]any{"operator": "Equal"}}},
		"must have no value":                     {"tolerations": []any{map[string]any{"key": "a", "operator": "Exists", "value": "b"}}},
		"need the effect NoExecute":              {"tolerations": []any{map[string]any{"key": "a", "operator": "Exists", "tolerationSeconds": int64(3)}}},
	} {
		_, err := w.heroes.Create(w.ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1.GroupVersion.String(), "kind": "Bellerophon", "metadata": map[string]any{"name": "bad"}, "spec": spec,
		}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", spec, err, want)
		}
	}
	for i, schedule := range []string{"0 3 * * *", "*/15 0-6,22 1,15 jan-mar MON-FRI", "@daily", "5 4 ? * 0", "59 23 31 12 6"} {
		w.create(fmt.Sprint("good-", i), map[string]any{"replicas": int64(1), "paused": true, "backup": map[string]any{"volumeClaimName": "a", "schedule": schedule}})
	}
	// The longest name with backups works, and a longer one is refused.
	longest := strings.Repeat("x", 45)
	spec := map[string]any{"replicas": int64(1), "backup": map[string]any{"volumeClaimName": "backups"}}
	w.create(longest, spec)
	w.eventually("it has a CronJob", func() error {
		_, err := w.core.BatchV1().CronJobs(w.namespace).Get(w.ctx, longest+"-backup", metav1.GetOptions{})
		return err
	})
	_, err := w.heroes.Create(w.ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.GroupVersion.String(), "kind": "Bellerophon", "metadata": map[string]any{"name": longest + "x"}, "spec": spec,
	}}, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "with spec.backup, metadata.name must have at most 45 characters") {
		t.Errorf("a name of 46 characters with backups: %v", err)
	}

	w.stop() // The API server alone writes the status then.
	w.create("new", map[string]any{})
	hero := w.hero("new")
	if hero.Status.Phase != v1.PhasePending || len(hero.Status.Conditions) != 1 || hero.Status.Conditions[0].Reason != "Pending" {
		t.Errorf("a new hero says %+v", hero.Status)
	}
}

func TestAChildOfAnotherOwnerIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	other, err := w.core.CoreV1().ConfigMaps(w.namespace).Create(w.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	_, err = w.core.CoreV1().ConfigMaps(w.namespace).Create(w.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "bellerophon", Labels: map[string]string{owned.LabelManagedBy: owned.ManagedBy},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: other.Name, UID: other.UID, Controller: &yes}},
	}, Data: map[string]string{"theirs": "stays"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.create("bellerophon", map[string]any{"replicas": int64(1)})
	w.eventually("the hero says so", func() error {
		found := meta.FindStatusCondition(w.hero("bellerophon").Status.Conditions, v1.ConditionDegraded)
		if found == nil || found.Reason != "NameConflict" {
			return fmt.Errorf("%+v", found)
		}
		return nil
	})
	config, err := w.core.CoreV1().ConfigMaps(w.namespace).Get(w.ctx, "bellerophon", metav1.GetOptions{})
	if err != nil || len(config.Data) != 1 {
		t.Errorf("it has %v, %v", config.Data, err)
	}
}
