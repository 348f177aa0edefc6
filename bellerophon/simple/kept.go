package simple

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The types below are the projections of children and pods that the cache keeps. A whole child takes
// ten times as much memory. A projection holds the owner, the sum of the fields that the operator
// owns, and the fields that the status needs.

// child is the projection of each child. Its metadata holds namespace, name, uid, resource version,
// generation, owners and the deletion timestamp.
type child struct {
	metav1.ObjectMeta
	owned    sum
	labelled bool // see isLabelled
}

// GetObjectKind returns an empty kind, because the Go type identifies the kind.
func (*child) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func (c *child) sumOf() sum { return c.owned }

func (c *child) isLabelled() bool { return c.labelled }

func (c *child) copy() child { return child{*c.DeepCopy(), c.owned, c.labelled} }

type config struct{ child }

func (c *config) DeepCopyObject() runtime.Object { return &config{c.copy()} }

type service struct{ child }

func (s *service) DeepCopyObject() runtime.Object { return &service{s.copy()} }

// servers is the projection of a StatefulSet.
type servers struct {
	child
	observed                 int64 // the observed generation
	replicas, ready, updated int32
	revised                  bool // the current revision is the updated one
}

func (s *servers) DeepCopyObject() runtime.Object {
	copied := *s
	copied.child = s.copy()
	return &copied
}

// pod is the projection of a pod: its problem, if it has one.
type pod struct {
	metav1.ObjectMeta // with labelInstance, which names the object whose server the pod is
	problem           *problem
}

func (*pod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func (p *pod) DeepCopyObject() runtime.Object {
	copied := &pod{ObjectMeta: *p.DeepCopy()}
	if p.problem != nil {
		problem := *p.problem
		copied.problem = &problem
	}
	return copied
}

// childOf projects the fields that the runtime does not keep on its own.
func childOf(whole metav1.Object, owned sum) child {
	kept := child{owned: owned, labelled: isLabelled(whole)}
	kept.Generation = whole.GetGeneration()
	kept.DeletionTimestamp = whole.GetDeletionTimestamp().DeepCopy()
	return kept
}

func keepConfig(whole *corev1.ConfigMap) *config { return &config{childOf(whole, sumOfConfig(whole))} }

func keepService(whole *corev1.Service) *service {
	return &service{childOf(whole, sumOfService(whole))}
}

func keepServers(whole *appsv1.StatefulSet) *servers {
	status := &whole.Status
	return &servers{
		child:    childOf(whole, sumOfServers(whole)),
		observed: status.ObservedGeneration,
		replicas: status.Replicas, ready: status.ReadyReplicas, updated: status.UpdatedReplicas,
		revised: status.CurrentRevision == status.UpdateRevision,
	}
}

func keepPod(whole *corev1.Pod) *pod {
	kept := &pod{problem: problemOf(whole)}
	kept.DeletionTimestamp = whole.DeletionTimestamp.DeepCopy()
	if name := whole.Labels[labelInstance]; name != "" {
		kept.Labels = map[string]string{labelInstance: name}
	}
	return kept
}
