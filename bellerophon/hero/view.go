package hero

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// view is everything that one call of the reconciler decides by.
type view struct {
	hero     *v1.Bellerophon
	now      time.Time           // when the call began
	set      *appsv1.StatefulSet // nil if there is none
	pods     []*owned.Pod        // of the StatefulSet, and pods that an earlier one left, ordered by ordinal
	statuses map[string]*memberReport
	silent   map[string]silence // members that do not answer
	unasked  time.Duration      // how long members may take that have neither answered nor failed yet; 0 if there are none
	leader   *memberReport      // of the member that leads and is ready; nil if there is none
	client   *client.Client

	postponed problem            // a problem that no other step waits for; with an empty reason there is none
	size      *resource.Quantity // of the volumes, if it is not the hero's: they cannot grow
}

// postpone notes a problem. The first one counts.
func (v *view) postpone(found problem) {
	if v.postponed.reason == "" {
		v.postponed = found
	}
}

func nameOf(hero *v1.Bellerophon) types.NamespacedName {
	return types.NamespacedName{Namespace: hero.Namespace, Name: hero.Name}
}

// look returns the view of a hero.
func (r *reconciler) look(ctx context.Context, hero *v1.Bellerophon) (*view, error) {
	secure, version, err := r.certificateOf(ctx, hero)
	if err != nil {
		return nil, err
	}
	v := &view{hero: hero, now: controller.Now(ctx), client: r.members.client(nameOf(hero), secure, version)}
	set, err := controller.Get[*owned.StatefulSet](ctx, r.client, nameOf(hero))
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, err
	case !metav1.IsControlledBy(set, hero) && metav1.GetControllerOfNoCopy(set) != nil:
		return nil, problem{reason: "NameConflict", message: fmt.Sprintf("StatefulSet %s %v", set.Name, errNameTaken)}
	default: // One without an owner is adopted: a hero that was deleted with --cascade=orphan left it.
		v.set = set.Whole
		if v.pods, err = controller.List[*owned.Pod](ctx, r.client, controller.InIndex(cache.OwnerIndex, string(set.UID))); err != nil {
			return nil, err
		}
	}
	if v.set == nil || v.set.DeletionTimestamp != nil || isGrowing(hero) {
		if err := r.lookForOrphans(ctx, v); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(v.pods, func(a, b *owned.Pod) int { return ordinalOf(a.Name) - ordinalOf(b.Name) })
	var whole []*corev1.Pod
	for _, pod := range v.pods {
		whole = append(whole, pod.Whole)
	}
	v.statuses, v.silent, v.unasked = r.members.follow(nameOf(hero), func(pod string) string { return addressOf(hero, pod) }, whole)
	for _, status := range v.statuses {
		if status.Role == client.Leader && status.Ready && (v.leader == nil || status.Term > v.leader.Term) {
			v.leader = status
		}
	}
	return v, nil
}

// lookForOrphans adds the pods of the hero that no StatefulSet owns.
func (r *reconciler) lookForOrphans(ctx context.Context, v *view) error {
	for ordinal := range int32(maxReplicas) {
		pod, err := controller.Get[*owned.Pod](ctx, r.client, types.NamespacedName{Namespace: v.hero.Namespace, Name: podName(v.hero, ordinal)})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case v.isOrphan(pod) && pod.Whole.Labels[owned.LabelInstance] == v.hero.Name:
			v.pods = append(v.pods, pod)
		}
	}
	return nil
}

// isOrphan reports whether the StatefulSet that owned a pod is gone, or goes. The next one of the hero adopts the pod.
// The cache may have the pod from a time when it still had its owner.
func (v *view) isOrphan(pod *owned.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner == nil || owner.Kind == "StatefulSet" && owner.Name == v.hero.Name && (v.set == nil || owner.UID != v.set.UID)
}

// ordinalOf returns the number at the end of a pod's name.
func ordinalOf(pod string) int {
	ordinal, err := strconv.Atoi(pod[strings.LastIndexByte(pod, '-')+1:])
	if err != nil {
		return -1
	}
	return ordinal
}

// replicas returns the number of pods that the StatefulSet asks for, or 0 without one.
func (v *view) replicas() int32 {
	if v.set == nil || v.set.Spec.Replicas == nil {
		return 0
	}
	return *v.set.Spec.Replicas
}

// kept returns with how many pods the StatefulSet is kept, or made again. Members leave the cluster before their pods go, so
// each member has a pod, also if a user scaled the StatefulSet or deleted it.
func (v *view) kept() int32 {
	kept := v.replicas()
	count := func(pod string) { kept = max(kept, int32(ordinalOf(pod))+1) }
	reports := slices.Collect(maps.Values(v.statuses))
	if v.leader != nil {
		reports = []*memberReport{v.leader}
	} else if v.hero.Status.Bootstrapped { // The members are not known for certain.
		kept = max(kept, replicasOf(v.hero))
	}
	for _, report := range reports {
		for _, held := range report.Members {
			count(podOf(held.Address))
		}
	}
	if v.set == nil && v.hero.Status.Bootstrapped {
		for _, pod := range v.pods {
			count(pod.Name)
		}
		for _, member := range v.hero.Status.Members {
			count(member.Name)
		}
	}
	if kept == 0 {
		return replicasOf(v.hero)
	}
	return kept
}

// pod returns a pod, or nil.
func (v *view) pod(name string) *owned.Pod {
	for _, pod := range v.pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// inCluster returns the member of the leader's configuration with an ID, or nil.
func (v *view) inCluster(id string) *client.Server {
	for i := range v.leader.Members {
		if v.leader.Members[i].ID == id {
			return &v.leader.Members[i]
		}
	}
	return nil
}

// podOf returns the name of the pod in an address.
func podOf(address string) string {
	name, _, _ := strings.Cut(address, ".")
	return name
}

// isOutdated reports whether a pod has another template than the StatefulSet.
func (v *view) isOutdated(pod *owned.Pod) bool {
	return pod.Whole.Labels[appsv1.ControllerRevisionHashLabelKey] != v.set.Status.UpdateRevision
}

// isHealthy reports whether a pod runs and its member is ready in the cluster.
func (v *view) isHealthy(pod *owned.Pod) bool {
	status := v.statuses[pod.Name]
	return pod.DeletionTimestamp == nil && status != nil && status.Ready && status.Cluster == v.hero.Status.Cluster
}

// isServed reports whether the Services of the hero send requests to a pod. That begins later than its member is ready:
// the kubelet asks for it from time to time only.
func isServed(pod *owned.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Whole.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// votes reports whether the member of a pod takes part in elections, as the member itself sees it.
func (v *view) votes(pod string) bool {
	status := v.statuses[pod]
	return status != nil && (status.Role == client.Leader || status.Role == client.Follower)
}
