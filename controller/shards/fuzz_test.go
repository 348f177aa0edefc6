package shards

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Each writer of Leases can write any annotation. A Lease is a claim only with a set that it prints again.
func FuzzAnyLeaseIsAClaimOrRefused(f *testing.F) {
	f.Add("a", int32(15), strings.Repeat("f0", Slots/8), "7", "true")
	f.Add("", int32(-1), "f", "x", "")
	f.Fuzz(func(t *testing.T, holder string, seconds int32, slots, keys, leaving string) {
		claim, err := ClaimOf(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelGroup: "g"}, Annotations: map[string]string{annotationSlots: slots, annotationKeys: keys, annotationLeaving: leaving}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: time.Unix(1e9, 0)}},
		})
		if err != nil {
			return
		}
		if claim.Duration <= 0 || claim.Slots.Len() > Slots || slots != "" && claim.Slots.String() != strings.ToLower(slots) {
			t.Errorf("the claim of %q for %d s is %+v", slots, seconds, claim)
		}
	})
}
