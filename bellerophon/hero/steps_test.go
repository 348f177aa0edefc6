package hero

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runningHero is a hero of three ready members in Ready pods.
func runningHero() *view {
	three := int32(3)
	v := &view{
		now:  time.Now(),
		hero: &v1.Bellerophon{ObjectMeta: metav1.ObjectMeta{Name: "hero"}, Spec: v1.BellerophonSpec{Replicas: &three}, Status: v1.BellerophonStatus{Bootstrapped: true}},
		set:  &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &three}}, statuses: map[string]*memberReport{},
	}
	v.set.Status.UpdateRevision = "hero-new"
	for ordinal := range three {
		name := podName(v.hero, ordinal)
		meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "hero-new"}}
		whole := &corev1.Pod{ObjectMeta: meta}
		whole.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		v.pods = append(v.pods, &owned.Pod{ObjectMeta: meta, Whole: whole})
		v.statuses[name] = &memberReport{Status: client.Status{ID: name, Role: client.Follower, Ready: true}}
	}
	v.statuses["hero-0"].Role = client.Leader
	v.leader = v.statuses["hero-0"]
	return v
}

// The stream of a member may break, and the operator may have begun a moment ago. The member may be well.
func TestARolloutKeepsAPodThatServesAlthoughItsMemberIsNotHeard(t *testing.T) {
	v := runningHero()
	v.statuses["hero-1"] = nil
	v.pods[1].Whole.Labels[appsv1.ControllerRevisionHashLabelKey] = "hero-old"
	for _, other := range []string{"hero-1 is not heard", "hero-2 is not ready either"} {
		result := (&reconciler{}).roll(t.Context(), v) // Without a client, a deletion would panic.
		var wait waiting
		if !errors.As(result, &wait) || wait != "hero-1 gets ready" {
			t.Errorf("%s: the rollout says %v, want that hero-1 gets ready", other, result)
		}
		v.pods[1].Whole.Status.Conditions[0].Status = corev1.ConditionFalse
		v.pods[2].Whole.Status.Conditions[0].Status = corev1.ConditionFalse
	}
}

// members makes the leader of a hero report its members.
func (v *view) members(voters ...string) {
	for _, pod := range voters {
		v.leader.Members = append(v.leader.Members, client.Server{ID: pod, Address: addressOf(v.hero, pod), Voter: true})
	}
}

func TestNoVoteGoesThatTheMajorityNeeds(t *testing.T) {
	v := runningHero()
	v.members("hero-0", "hero-1", "hero-2")
	v.statuses["hero-1"].Ready = false // It is down, so that hero-0 and hero-2 are the majority.
	two := int32(2)
	v.hero.Spec.Replicas = &two
	v.client = client.NewOver(nil, func(context.Context, string) (net.Conn, error) { return nil, errors.New("nobody listens") }, client.Reuse)
	for name, step := range map[string]step{"shrink": (&reconciler{}).shrink, "admit": (&reconciler{}).admit} {
		result := step(t.Context(), v)
		var wait waiting
		if !errors.As(result, &wait) || !strings.Contains(string(wait), "would lose its majority") {
			t.Errorf("%s: it says %v", name, result)
		}
	}
}

func TestTheStatefulSetHasAPodForEachMember(t *testing.T) {
	one, five := int32(1), int32(5)
	v := runningHero()
	v.members("hero-0", "hero-1", "hero-2")
	v.set.Spec.Replicas = &one // A user scaled it.
	if kept := v.kept(); kept != 3 {
		t.Errorf("it is kept with %d pods, want 3", kept)
	}
	v.hero.Spec.Replicas = &one
	if kept := v.kept(); kept != 3 {
		t.Errorf("before its members leave, it is kept with %d pods, want 3", kept)
	}
	v.leader.Members = v.leader.Members[:1]
	if kept := v.kept(); kept != 1 {
		t.Errorf("when its members have left, it is kept with %d pods, want 1", kept)
	}
	v.leader = nil
	v.hero.Spec.Replicas = &five
	if kept := v.kept(); kept != 5 {
		t.Errorf("without a leader it is kept with %d pods, want 5", kept)
	}
	v.hero.Status.Bootstrapped = false
	v.statuses["hero-0"].Members = nil
	if kept := v.kept(); kept != 1 {
		t.Errorf("before there is a cluster, it is kept with %d pods, want 1", kept)
	}
	v.set = nil
	if kept := v.kept(); kept != 5 {
		t.Errorf("at first, it is kept with %d pods, want 5", kept)
	}
}

func TestARolloutAndTheStatusWaitUntilTheServiceSendsRequestsToAMember(t *testing.T) {
	v := runningHero()
	v.pods[2].Whole.Status.Conditions[0].Status = corev1.ConditionFalse        // Its pod is new. The kubelet has not asked it yet.
	v.pods[1].Whole.Labels[appsv1.ControllerRevisionHashLabelKey] = "hero-old" // It is next.
	result := (&reconciler{}).roll(t.Context(), v)                             // Without a client, a deletion would panic.
	var wait waiting
	if !errors.As(result, &wait) || wait != "hero-2 gets ready" {
		t.Errorf("the rollout says %v, want that hero-2 gets ready", result)
	}
	if status, _ := statusOf(v, nil); status.ReadyReplicas != 2 || status.Members[2].Ready || status.Phase != v1.PhaseUpdating {
		t.Errorf("%d members are ready in the phase %s: %+v", status.ReadyReplicas, status.Phase, status.Members)
	}
}

func TestAMemberThatRunsWithoutAnAnswerIsAProblemAfterAMinute(t *testing.T) {
	v := runningHero()
	v.statuses["hero-1"] = nil
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	v.pods[1].Whole.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, State: running}}
	v.silent = map[string]silence{"hero-1": {since: v.now.Add(-20 * time.Second), reason: errors.New("x509: unknown authority")}}
	if found, left := v.membersTrouble(); found != nil || left < 30*time.Second || left > 40*time.Second {
		t.Errorf("after 20 s: %v, and %v are left", found, left)
	}
	v.silent["hero-1"] = silence{since: v.now.Add(-time.Hour), reason: errors.New("x509: unknown authority")}
	if found, _ := v.membersTrouble(); found == nil || found.reason != "NoAnswer" || !strings.Contains(found.message, "hero-1 runs, and the operator gets no answer: x509: unknown authority") {
		t.Errorf("after an hour: %v", found)
	}
	v.pods[1].Whole.Status.ContainerStatuses[0].State = corev1.ContainerState{} // Its pod says why it does not run.
	if found, left := v.membersTrouble(); found != nil || left != 0 {
		t.Errorf("without a process: %v, and %v are left", found, left)
	}
	v.statuses["hero-2"].Problem = "no space left on device"
	if found, _ := v.membersTrouble(); found == nil || found.reason != "VolumeFailed" || !strings.Contains(found.message, "hero-2 cannot write to its volume: no space left on device") {
		t.Errorf("with a full volume: %v", found)
	}
}
