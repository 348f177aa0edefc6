package shards

import (
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These are the label and the annotations of the Leases.
const (
	labelGroup        = "bellerophon.io/shards"  // Options.Group
	annotationSlots   = "bellerophon.io/slots"   // the claimed slots, as Set.String
	annotationKeys    = "bellerophon.io/keys"    // how many keys the member has, for people
	annotationLeaving = "bellerophon.io/leaving" // "true" while the member hands all slots over
)

// leaseName returns the name of a member's Lease. Identities may have characters that names may not have.
func leaseName(group, identity string) string {
	return fmt.Sprintf("%s-%016x", group, hashOf(identity))
}

// lease returns what a member publishes about itself.
func (m *Member) lease(claims Set, leaving bool, now time.Time) *coordinationv1.Lease {
	seconds, renewed := int32(m.options.LeaseDuration/time.Second), metav1.NewMicroTime(now)
	made := &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.options.Namespace, Name: leaseName(m.options.Group, m.options.Identity),
			Labels:      map[string]string{labelGroup: m.options.Group},
			Annotations: map[string]string{annotationSlots: claims.String(), annotationKeys: strconv.Itoa(m.share.Keys())},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &m.options.Identity, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}
	if leaving {
		made.Annotations[annotationLeaving] = "true"
	}
	return made
}

// Claim is what the Lease of a member says.
type Claim struct {
	Identity string
	Slots    Set
	Keys     int // how many keys the member has, as it last said
	Leaving  bool
	Renewed  time.Time     // by the clock of the member
	Duration time.Duration // for which the Lease lasts without a change
}

// ClaimOf returns what a Lease says. It fails for a Lease that no member has written.
func ClaimOf(lease *coordinationv1.Lease) (Claim, error) {
	spec := &lease.Spec
	if spec.HolderIdentity == nil || spec.LeaseDurationSeconds == nil || *spec.LeaseDurationSeconds < 1 || lease.Labels[labelGroup] == "" {
		return Claim{}, fmt.Errorf("shards: Lease %s/%s was not written by a member: it has no holder, no duration or no label %s", lease.Namespace, lease.Name, labelGroup)
	}
	slots, err := parseSet(lease.Annotations[annotationSlots])
	if err != nil {
		return Claim{}, fmt.Errorf("shards: Lease %s/%s: %w", lease.Namespace, lease.Name, err)
	}
	keys, _ := strconv.Atoi(lease.Annotations[annotationKeys]) // It is for people alone.
	made := Claim{
		Identity: *spec.HolderIdentity, Slots: slots, Keys: keys, Leaving: lease.Annotations[annotationLeaving] == "true",
		Duration: time.Duration(*spec.LeaseDurationSeconds) * time.Second,
	}
	if spec.RenewTime != nil {
		made.Renewed = spec.RenewTime.Time
	}
	return made, nil
}

// Selector returns the label selector of the Leases of a group.
func Selector(group string) string { return labelGroup + "=" + group }
