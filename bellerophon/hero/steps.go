package hero

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	"github.com/bellerophon-io/bellerophon/controller"
)

// waiting is the reason why a step cannot be made yet. The event that it waits for makes another call.
type waiting string

func (w waiting) Error() string { return string(w) }

// problem is a reason that waiting alone does not solve.
type problem struct {
	reason, message string
	recheck         time.Duration // the time after which to look again; 0 if an event says that it may be solved
}

const (
	// recheckSoon is the delay after which to look again for an object that the operator does not watch.
	recheckSoon = 10 * time.Second
	// lookAgain is the same for what costs a write, or what seldom changes.
	lookAgain = time.Minute
)

func (p problem) Error() string { return p.message }

// errNameTaken means that an object with the name of a child belongs to another owner.
var errNameTaken = errors.New("exists, and this hero does not own it; rename the hero, or remove the object")

// step is one step towards the desired state. It returns nil if there is nothing to do or it has done all, and an error that is
// waiting if later steps must wait.
type step func(context.Context, *view) error

// steps returns all steps, in order.
func (r *reconciler) steps() []step {
	return []step{r.keepChildren, r.renew, r.bootstrap, r.restore, r.noteForeign, r.removeLost, r.replaceDamaged, r.shrink, r.admit, r.grow, r.roll}
}

// renew replaces pods of an old revision that do not run: all later steps wait for their members, and the new revision may
// mend them.
func (r *reconciler) renew(ctx context.Context, v *view) error {
	if v.set.Status.ObservedGeneration < v.set.Generation {
		return nil // The new revision has no name yet.
	}
	for _, pod := range v.pods {
		if pod.DeletionTimestamp == nil && v.isOutdated(pod) && v.statuses[pod.Name] == nil && !isServed(pod) {
			return r.replace(ctx, v, pod.Name)
		}
	}
	return nil
}

// bootstrap makes the cluster, once. The hero has the name of the cluster before any member does, so that no kill in
// between leads to a second cluster: members refuse a second name.
func (r *reconciler) bootstrap(ctx context.Context, v *view) error {
	if v.hero.Status.Bootstrapped {
		return v.isNotLost()
	}
	found := map[string]string{}
	for pod, status := range v.statuses {
		if status.Cluster != "" {
			found[status.Cluster] = pod
		}
	}
	switch len(found) {
	case 0:
	case 1: // Made by an earlier call, or from volumes that an earlier hero left behind.
		for cluster := range found {
			if v.leader == nil {
				return waiting("the cluster elects its leader")
			}
			return r.record(ctx, v, cluster, true)
		}
	default:
		return problem{reason: "TwoClusters", message: fmt.Sprintf("the volumes of the members belong to %d clusters; delete the volumes of all but one", len(found))}
	}
	if v.replicas() < replicasOf(v.hero) { // The spec has changed since the first pods were made.
		return r.resize(ctx, v, replicasOf(v.hero))
	}
	// A silent member could have an old volume.
	for ordinal := range replicasOf(v.hero) {
		if v.statuses[podName(v.hero, ordinal)] == nil {
			return waiting(fmt.Sprintf("the first start waits for an answer of %s", podName(v.hero, ordinal)))
		}
	}
	if v.hero.Status.Cluster == "" {
		if err := r.record(ctx, v, string(v.hero.UID), false); err != nil {
			return err
		}
	}
	first := podName(v.hero, 0)
	if err := r.ask(ctx, v, func(ctx context.Context, client caller) error {
		return client.Bootstrap(ctx, addressOf(v.hero, first), v.hero.Status.Cluster)
	}); err != nil {
		return fmt.Errorf("making the cluster of %s: %w", first, err)
	}
	return waiting("the first member makes the cluster")
}

// record writes the name of the cluster to the status, before anything relies on it.
func (r *reconciler) record(ctx context.Context, v *view, cluster string, made bool) error {
	after := v.hero.DeepCopy()
	after.Status.Cluster, after.Status.Bootstrapped = cluster, made
	written, err := controller.PatchStatus(ctx, r.client, after, controller.MergeFrom(v.hero))
	if err != nil {
		return fmt.Errorf("recording the cluster: %w", err)
	}
	v.hero = written
	return nil
}

// admit lets new members join, one at a time, and lets them vote when they have caught up.
func (r *reconciler) admit(ctx context.Context, v *view) error {
	voters := votersOf(replicasOf(v.hero))
	for ordinal := range min(replicasOf(v.hero), v.replicas()) {
		pod := podName(v.hero, ordinal)
		status := v.statuses[pod]
		if status == nil || v.isForeign(pod) {
			continue
		}
		joining := client.Server{ID: status.ID, Address: addressOf(v.hero, pod)}
		held := v.inCluster(status.ID)
		switch {
		case held == nil:
		case held.Voter == (ordinal < voters):
			continue
		case !held.Voter && !status.Ready:
			return waiting(fmt.Sprintf("%s catches up before it votes", pod))
		default:
			joining.Voter = !held.Voter
			if left := r.outlives(ctx, v, held.ID); !joining.Voter && left != nil {
				return left
			}
			if held.ID == v.leader.ID {
				if err := r.transfer(ctx, v); err != nil {
					return err
				}
			}
		}
		if err := r.ask(ctx, v, func(ctx context.Context, client caller) error {
			return client.Join(ctx, v.leader.Address, joining)
		}); err != nil {
			return fmt.Errorf("letting %s join: %w", pod, err)
		}
		return waiting(fmt.Sprintf("%s joins", pod))
	}
	return nil
}

// shrink removes the member of the highest pod from the cluster, then its volume, and then the pod. A StatefulSet that
// deleted volumes itself would also delete them if a user scaled it.
func (r *reconciler) shrink(ctx context.Context, v *view) error {
	if v.replicas() <= replicasOf(v.hero) {
		return nil
	}
	last := podName(v.hero, v.replicas()-1)
	for _, held := range v.leader.Members {
		if podOf(held.Address) != last {
			continue
		}
		if left := r.outlives(ctx, v, held.ID); left != nil {
			return left
		}
		if err := r.leave(ctx, v, held.ID); err != nil {
			return fmt.Errorf("removing %s from the cluster: %w", last, err)
		}
		return waiting(fmt.Sprintf("%s leaves the cluster", last))
	}
	if err := r.deleteClaim(ctx, v, last); err != nil {
		return err
	}
	return r.resize(ctx, v, v.replicas()-1)
}

// outlives returns a wait if the cluster would lose its majority without the vote of a member, because others that vote do
// not answer. Raft itself only counts members, and so would never lead again. The last report of a member may be of a time
// before it froze, so each one is asked now.
func (r *reconciler) outlives(ctx context.Context, v *view, id string) error {
	votes, live, silent := 0, 0, ""
	for _, held := range v.leader.Members {
		if !held.Voter || held.ID == id {
			continue
		}
		votes++
		if v.hasReady(held) && r.answers(ctx, v, held) {
			live++
			continue
		}
		silent = podOf(held.Address)
	}
	if live > votes/2 || votes == 0 {
		return nil
	}
	return waiting(fmt.Sprintf("%s has to be ready first: with one vote less, the cluster would lose its majority", silent))
}

// hasReady reports whether a member of the cluster was ready by its last report.
func (v *view) hasReady(held client.Server) bool {
	status := v.statuses[podOf(held.Address)]
	return status != nil && status.ID == held.ID && status.Ready
}

// answerTimeout bounds a question whether a member lives.
const answerTimeout = 2 * time.Second

// answers reports whether a member answers now.
func (r *reconciler) answers(ctx context.Context, v *view, held client.Server) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	status, err := v.client.Status(ctx, held.Address)
	return err == nil && status.ID == held.ID
}

// grow adds all missing pods. They join when they run.
func (r *reconciler) grow(ctx context.Context, v *view) error {
	if v.replicas() >= replicasOf(v.hero) {
		return nil
	}
	return r.resize(ctx, v, replicasOf(v.hero))
}

// resize changes the number of pods.
func (r *reconciler) resize(ctx context.Context, v *view, to int32) error {
	if err := r.keepSet(ctx, v, to); err != nil {
		return err
	}
	return waiting(fmt.Sprintf("the number of members goes to %d", to))
}

// roll replaces pods of an old revision: the followers first, one at a time, and only while all others are healthy.
func (r *reconciler) roll(ctx context.Context, v *view) error {
	if v.set.Status.ObservedGeneration < v.set.Generation {
		return waiting("the StatefulSet gets a new revision")
	}
	var old, sick []string
	for ordinal := range replicasOf(v.hero) {
		name := podName(v.hero, ordinal)
		pod := v.pod(name)
		if pod == nil || pod.DeletionTimestamp != nil {
			return waiting(fmt.Sprintf("%s starts", name))
		}
		if !v.isHealthy(pod) || !isServed(pod) || v.votes(name) != (ordinal < votersOf(replicasOf(v.hero))) {
			sick = append(sick, name)
		}
		if v.isOutdated(pod) {
			old = append(old, name)
		}
	}
	// A member that alone is not healthy cannot get worse, and the new revision may mend it.
	if len(sick) == 1 && slices.Contains(old, sick[0]) && !isServed(v.pod(sick[0])) {
		return r.replace(ctx, v, sick[0])
	}
	switch {
	case len(sick) > 0:
		return waiting(fmt.Sprintf("%s gets ready", sick[0]))
	case len(old) == 0:
		return nil
	}
	for i := len(old) - 1; i >= 0; i-- {
		if v.statuses[old[i]].ID != v.leader.ID {
			return r.replace(ctx, v, old[i])
		}
	}
	if votersOf(replicasOf(v.hero)) > 1 {
		if err := r.transfer(ctx, v); err != nil {
			return err
		}
		return waiting("the leadership goes to another member")
	}
	return r.replace(ctx, v, old[0])
}

// replace deletes a pod, which the StatefulSet makes again.
func (r *reconciler) replace(ctx context.Context, v *view, name string) error {
	if err := controller.Delete(ctx, r.client, v.pod(name), controller.IfUnchanged()); controller.IgnoreNotFound(err) != nil {
		return fmt.Errorf("replacing pod %s: %w", name, err)
	}
	return waiting(fmt.Sprintf("%s is replaced", name))
}

// transfer hands the leadership to a member of the new revision that votes, or to any.
func (r *reconciler) transfer(ctx context.Context, v *view) error {
	to := ""
	for _, pod := range v.pods {
		status := v.statuses[pod.Name]
		if v.isHealthy(pod) && status.Role == client.Follower && !v.isOutdated(pod) {
			to = status.ID
		}
	}
	return r.ask(ctx, v, func(ctx context.Context, client caller) error {
		return client.Transfer(ctx, v.leader.Address, to)
	})
}

// caller has the requests that change a cluster.
type caller interface {
	Bootstrap(ctx context.Context, host, cluster string) error
	Join(ctx context.Context, host string, joining client.Server) error
	Leave(ctx context.Context, host, id string) error
	Transfer(ctx context.Context, host, id string) error
}

// ask sends a request to a member, within a time.
func (r *reconciler) ask(ctx context.Context, v *view, send func(context.Context, caller) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return send(ctx, v.client)
}
