package hero

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
)

// isDamaged reports whether the member of a pod ended because its volume is damaged.
func isDamaged(pod *owned.Pod) bool {
	for _, container := range pod.Whole.Status.ContainerStatuses {
		ended := container.State.Terminated
		if ended == nil {
			ended = container.LastTerminationState.Terminated
		}
		if container.Name == containerName && container.State.Running == nil && ended != nil && ended.ExitCode == client.ExitDamaged {
			return true
		}
	}
	return false
}

// hasLost reports whether a pod has another volume than its member had, or one that is damaged.
func (v *view) hasLost(pod string) bool {
	if status := v.statuses[pod]; status != nil {
		return status.Cluster != v.hero.Status.Cluster
	}
	held := v.pod(pod)
	return held != nil && isDamaged(held)
}

// isNotLost returns a problem if the cluster can have no leader any more, because too many volumes are lost.
func (v *view) isNotLost() error {
	if v.leader != nil {
		return nil
	}
	var newest *memberReport // of the cluster
	lost := int32(0)
	for _, pod := range v.pods {
		if v.hasLost(pod.Name) {
			lost++
		}
		if status := v.statuses[pod.Name]; status != nil && status.Cluster == v.hero.Status.Cluster && isNewer(status, newest) {
			newest = status
		}
	}
	switch {
	case newest == nil && lost >= replicasOf(v.hero):
		return problem{reason: "DataLost", message: "the volumes of all members are empty, damaged or of another cluster; create a new hero that restores a backup"}
	case newest == nil:
		return waiting("no member of the cluster answers")
	}
	votes, gone := 0, []string(nil)
	for _, held := range newest.Members {
		if !held.Voter {
			continue
		}
		votes++
		if v.hasLost(podOf(held.Address)) {
			gone = append(gone, podOf(held.Address))
		}
	}
	if votes-len(gone) > votes/2 || len(gone) == 0 {
		return nil
	}
	slices.Sort(gone)
	return problem{reason: "MajorityLost", message: fmt.Sprintf(
		"%s lost their volumes, %d of the %d members that vote, so there can be no leader; %s still has the keys, maybe without the last writes: save them with GET /v1/snapshot?consistency=local, and create a new hero that restores them",
		strings.Join(gone, " and "), len(gone), votes, podOf(newest.Address))}
}

// isNewer reports whether a member has more of the log than another one, which may be nil.
func isNewer(status, than *memberReport) bool {
	return than == nil || status.Term > than.Term || status.Term == than.Term && status.Applied > than.Applied
}

// isForeign reports whether the volume of a pod is of another cluster. Its member cannot join.
func (v *view) isForeign(pod string) bool {
	status := v.statuses[pod]
	return status != nil && status.Cluster != "" && status.Cluster != v.hero.Status.Cluster
}

// noteForeign postpones a problem about a volume of another cluster. It may have the only copy of its keys, so a person decides.
func (r *reconciler) noteForeign(_ context.Context, v *view) error {
	for _, pod := range v.pods {
		if v.isForeign(pod.Name) {
			v.postpone(problem{reason: "ForeignVolume", message: fmt.Sprintf(
				"the volume claim %s-%s has the data of another cluster, %s, so its member cannot join; save what is needed, and delete the claim and the pod",
				volumeData, pod.Name, v.statuses[pod.Name].Cluster)})
		}
	}
	return nil
}

// removeLost removes members whose volume is gone: their pod has another member now.
func (r *reconciler) removeLost(ctx context.Context, v *view) error {
	if v.leader == nil {
		return waiting("the cluster elects its leader")
	}
	for _, held := range v.leader.Members {
		status := v.statuses[podOf(held.Address)]
		if status == nil || status.ID == held.ID {
			continue
		}
		if err := r.leave(ctx, v, held.ID); err != nil {
			return fmt.Errorf("removing the member %s, whose volume is gone: %w", held.ID, err)
		}
		return waiting(fmt.Sprintf("the lost member %s is removed", held.ID))
	}
	return nil
}

// replaceDamaged removes a member whose volume is damaged, then the volume, and then the pod. The next pod has a new member. The
// others have all keys: a cluster has a leader only with a majority, and its majority stays without this member.
func (r *reconciler) replaceDamaged(ctx context.Context, v *view) error {
	for _, pod := range v.pods {
		if v.statuses[pod.Name] != nil || !isDamaged(pod) || int32(ordinalOf(pod.Name)) >= replicasOf(v.hero) {
			continue
		}
		for _, held := range v.leader.Members {
			if podOf(held.Address) != pod.Name {
				continue
			}
			if left := r.outlives(ctx, v, held.ID); left != nil {
				return left
			}
			if err := r.leave(ctx, v, held.ID); err != nil {
				return fmt.Errorf("removing the member %s, whose volume is damaged: %w", held.ID, err)
			}
			return waiting(fmt.Sprintf("%s leaves the cluster, because its volume is damaged", pod.Name))
		}
		if err := r.deleteClaim(ctx, v, pod.Name); err != nil {
			return err
		}
		if pod.DeletionTimestamp == nil {
			return r.replace(ctx, v, pod.Name)
		}
	}
	return nil
}

// leave removes a member from the cluster.
func (r *reconciler) leave(ctx context.Context, v *view, id string) error {
	return r.ask(ctx, v, func(ctx context.Context, client caller) error { return client.Leave(ctx, v.leader.Address, id) })
}
