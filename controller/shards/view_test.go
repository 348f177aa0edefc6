package shards

import (
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// When a replica has died, the first member withdraws its claims and deletes its Lease, while the others list the
// Leases to confirm their claims. Such a list may still have the Lease. Its claims would count for another duration.
func TestAListFromBeforeADeletionBringsNoLeaseBack(t *testing.T) {
	start := time.Now()
	holder, seconds := "dead", int32(15)
	lease := func(version string, slots Set) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name: "dead", ResourceVersion: version, Labels: map[string]string{labelGroup: "test"},
				Annotations: map[string]string{annotationSlots: slots.String()},
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: start}},
		}
	}
	v := view{others: map[string]*seen{}, deleted: map[string]deletion{}, own: "own"}
	at := start.Add
	event := func(kind streams.EventType, of *coordinationv1.Lease, after time.Duration) {
		v.apply(&streams.Event{Type: kind, Object: of, ResourceVersion: of.ResourceVersion, Received: at(after)}, at(after))
	}
	event(streams.Applied, lease("7", Set{1}), 0)
	event(streams.Applied, lease("8", Set{}), 15100*time.Millisecond)
	event(streams.Deleted, lease("9", Set{}), 15200*time.Millisecond)
	v.replace([]*coordinationv1.Lease{lease("7", Set{1})}, at(15*time.Second), at(15300*time.Millisecond))
	if living := v.living(at(15300 * time.Millisecond)); len(living) > 0 {
		t.Errorf("the dead replica lives again, with the slots %v", living[0].Slots)
	}
	v.replace([]*coordinationv1.Lease{lease("11", Set{2})}, at(15*time.Second), at(15400*time.Millisecond))
	if living := v.living(at(15400 * time.Millisecond)); len(living) != 1 {
		t.Errorf("a Lease that was created again after its deletion is ignored: %d replicas live", len(living))
	}
	v.replace(nil, at(16*time.Second), at(16*time.Second))
	if len(v.deleted) > 0 {
		t.Error("the deletion is remembered although each list in flight was requested after it")
	}
}
